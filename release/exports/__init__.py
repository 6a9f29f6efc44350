"""Releases in forms that other programs read; every export is derived from the published release alone."""
