"""Field types of TIFF 6.0 (section 2), BigTIFF and EXIF, and the bytes of one value of each."""

from __future__ import annotations

BYTE, ASCII, SHORT, LONG, RATIONAL, UNDEFINED, LONG8, IFD8 = 1, 2, 3, 4, 5, 7, 16, 18
_ONE, _TWO, _FOUR, _EIGHT = (1, 2, 6, 7), (3, 8), (4, 9, 11, 13), (5, 10, 12, 16, 17, 18)
SIZES = {kind: size for kinds, size in ((_ONE, 1), (_TWO, 2), (_FOUR, 4), (_EIGHT, 8)) for kind in kinds}
"""Field type -> bytes of one value."""
