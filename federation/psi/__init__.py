"""Private set intersection by OpenMined PSI, in an environment and a process of its own."""
