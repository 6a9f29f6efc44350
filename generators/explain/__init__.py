"""Explanations by example: the released synthetic cases most like an image."""
