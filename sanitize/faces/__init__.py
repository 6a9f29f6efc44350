"""Heads from which a face could be rendered: where they are, and how the face goes."""
