"""Detection of image formats by their first bytes, and the type of buffer that readers accept."""

from __future__ import annotations

import mmap
from typing import Literal

Buffer = bytes | mmap.mmap
Format = Literal["png", "jpeg", "tiff"]

SUFFIXES: dict[Format, str] = {"png": "png", "jpeg": "jpg", "tiff": "tif"}
"""File name extensions of released images."""
# Version 43 ("+") is BigTIFF.
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def detect_format(data: Buffer) -> Format | None:
    """Return the format of an image, or None for anything else. File names are not used."""
    head = bytes(data[:8])
    if head == b"\x89PNG\r\n\x1a\n":
        return "png"
    if head[:3] == b"\xff\xd8\xff":
        return "jpeg"
    return "tiff" if head[:4] in _TIFF else None
