"""Sanitization of PNG, JPEG and TIFF files that are not slides."""
