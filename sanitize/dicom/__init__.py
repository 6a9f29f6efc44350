"""Sanitization of DICOM objects (PS3.15 Annex E)."""
