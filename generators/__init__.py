"""Synthetic images. Empty until the generators exist."""
