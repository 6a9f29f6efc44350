"""The stages of a run, in order."""
