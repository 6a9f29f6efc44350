"""How good synthetic images are: fidelity, diversity, use."""
