"""EXIF (CIPA DC-008): reads Orientation, the one entry that changes how an image is displayed."""

from __future__ import annotations

from struct import pack

from medsanitize.sanitize.formats.ifd import read_directory, read_tiff_header
from medsanitize.sanitize.quarantine import Quarantined

ORIENTATION = 274


def _minimal(orientation: int) -> bytes:
    return b"MM\0*" + pack(">IHHHIHHI", 8, 1, ORIENTATION, 3, 1, orientation, 0, 0)


# Orientation 1 is the default and needs no EXIF block.
MINIMAL_EXIF = {orientation: _minimal(orientation) for orientation in range(2, 9)}
"""EXIF blocks with Orientation as the only entry, by its value."""


def orientation_of(exif: bytes) -> int:
    """Return the orientation (1 to 8) that an EXIF block states; 1 if it states none."""
    try:
        header = read_tiff_header(exif)
        directory, _ = read_directory(exif, header, header.first)
    except Quarantined:
        # EXIF is rebuilt, never copied: a broken block costs at most its orientation.
        return 1
    values = directory[ORIENTATION].numbers(header) if ORIENTATION in directory else ()
    return values[0] if len(values) == 1 and 1 <= values[0] <= 8 else 1
