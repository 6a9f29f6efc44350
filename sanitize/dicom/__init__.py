"""DICOM objects: read, ruled, rewritten element by element."""
