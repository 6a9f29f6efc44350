"""DICOM objects: read, ruled, rewritten element by element."""

from medsanitize.sanitize.dicom.peek import kept_attributes, peek
from medsanitize.sanitize.dicom.sanitizer import Sanitizer

__all__ = ["Sanitizer", "kept_attributes", "peek"]
