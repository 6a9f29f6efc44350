"""Sanitization of one object: DICOM instances, raster images and slides."""
