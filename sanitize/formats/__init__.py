"""Readers and writers of file formats. They know bytes and limits, but neither policies nor patients."""
