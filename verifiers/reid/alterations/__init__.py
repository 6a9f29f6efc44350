"""Alterations that disguise a copy of an image."""
