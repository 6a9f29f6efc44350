"""Detection and removal of faces that could be rendered from a series (PS3.15 E.3.2)."""
