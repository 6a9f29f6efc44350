"""Which of pydicom's decoders reads which pixels: gdcm is asked last, and never where it ends the process."""

from __future__ import annotations

from typing import Final

_JPEG: Final = frozenset(["1.2.840.10008.1.2.4.50", "1.2.840.10008.1.2.4.51"])
# Bytes in which the first frame header of released pixels is found: metadata before it is removed.
FRAME_HEADER_BYTES: Final = 1 << 16
_LOSSLESS: Final = frozenset(["1.2.840.10008.1.2.4.57", "1.2.840.10008.1.2.4.70"])


def decoding_plugin(syntax: str, bits_allocated: int, start: bytes) -> str:
    """Return the value of ``decoding_plugin`` for pydicom's functions that decode pixels.

    gdcm, which pydicom asks first, ends the process on 8-bit JPEG whose Bits Stored is less than 8, and on
    lossless JPEG of less than 8 bits. Extended JPEG of 12 bits is left to it.

    Parameters
    ----------
    syntax : str
        Transfer Syntax UID.
    bits_allocated : int
        Bits Allocated.
    start : bytes
        The first bytes of the pixel data element, up to the first frame header.

    Returns
    -------
    str
        Empty for pydicom's own order.

    Raises
    ------
    RuntimeError
        No decoder reads these pixels without ending the process.
    """
    if syntax in _JPEG and bits_allocated == 8:
        return "pillow"
    if syntax in _LOSSLESS and _precision(start) < 8:
        raise RuntimeError("lossless JPEG of less than 8 bits")
    return ""


def _precision(start: bytes) -> int:
    """Return the precision of the first frame header (SOF3) of a lossless JPEG."""
    at = start.find(b"\xff\xc3")
    return start[at + 4] if 0 <= at < len(start) - 4 else 8
