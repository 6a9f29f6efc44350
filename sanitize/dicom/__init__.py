"""DICOM objects: read, ruled, rewritten element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medsanitize.sanitize.dicom.peek import kept_attributes, peek
    from medsanitize.sanitize.dicom.sanitizer import Sanitizer

__all__ = ["Sanitizer", "kept_attributes", "peek"]


def __getattr__(name: str) -> Any:
    """Load the object function when it is asked for: most who name this package want a small part of it."""
    if name == "Sanitizer":
        from medsanitize.sanitize.dicom.sanitizer import Sanitizer

        return Sanitizer
    if name in ("kept_attributes", "peek"):
        from medsanitize.sanitize.dicom.peek import kept_attributes, peek

        globals().update(kept_attributes=kept_attributes, peek=peek)
        return globals()[name]
    raise AttributeError(name)
