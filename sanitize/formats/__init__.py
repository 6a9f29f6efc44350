"""Readers and writers of file formats. They apply size limits, but no policy decisions."""
