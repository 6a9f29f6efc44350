"""Native frames (PS3.5 8.1, 8.2): lossless conversion of bytes to arrays and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray

_BITS = (1, 8, 16, 32, 64)


def cell_dtype(geometry: Geometry, *, big: bool = False) -> str:
    """Return the NumPy type string of one cell of Bits Allocated."""
    size = geometry.bits_allocated
    if size not in _BITS:
        raise Quarantined("pixels-undecodable", "pixels")
    # One-bit cells are unpacked to bytes and have no sign.
    kind = "f" if geometry.floating else "i" if geometry.signed and size > 1 else "u"
    return f"{'>' if big else '<'}{kind}{max(size // 8, 1)}"


def is_422(geometry: Geometry) -> bool:
    """Return whether chroma is stored once per two pixels: Y1 Y2 Cb Cr (PS3.3 C.7.6.3.1.2)."""
    return geometry.photometric.endswith("_422") and geometry.samples == 3


def unpack_samples(raw: bytes, geometry: Geometry, *, big: bool) -> NDArray[Any]:
    """Unpack the cells of one frame.

    Parameters
    ----------
    raw : bytes
        The frame, without padding before it.
    geometry : Geometry
        Its attributes.
    big : bool
        Whether it is big-endian.

    Returns
    -------
    ndarray
        Shape (rows, columns), (rows, columns, samples), or for 4:2:2 chroma (rows, columns / 2, 4) with
        Y1 Y2 Cb Cr. Frames of one bit become uint8 with values 0 and 1.

    Raises
    ------
    Quarantined
        ``pixels-undecodable`` for a cell size that the standard does not allow, or too few bytes.
    """
    rows, columns = geometry.rows, geometry.columns
    if geometry.bits_allocated == 1:
        # The first pixel is the least significant bit (PS3.5 8.1.1).
        cells = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")
        if cells.size < rows * columns or geometry.samples != 1:
            raise Quarantined("pixels-undecodable", "pixels")
        return cells[: rows * columns].reshape(rows, columns)
    shape = _shape(geometry)
    count = int(np.prod(shape))
    kind = cell_dtype(geometry, big=big)
    if len(raw) < count * (geometry.bits_allocated // 8):
        raise Quarantined("pixels-undecodable", "pixels")
    cells = np.frombuffer(raw, kind, count)
    if geometry.planar == 1 and geometry.samples > 1 and not is_422(geometry):
        # Callers always get samples last, whatever Planar Configuration is.
        return cells.reshape(geometry.samples, rows, columns).transpose(1, 2, 0)
    return cells.reshape(shape)


def pack_samples(cells: NDArray[Any], geometry: Geometry, *, big: bool) -> bytes:
    """Pack the cells of one frame, the inverse of ``unpack_samples``; no padding is added."""
    if geometry.bits_allocated == 1:
        return np.packbits(cells.reshape(-1), bitorder="little").tobytes()
    if geometry.planar == 1 and geometry.samples > 1 and not is_422(geometry):
        cells = cells.transpose(2, 0, 1)
    return cells.astype(cell_dtype(geometry, big=big)).tobytes()


def _shape(geometry: Geometry) -> tuple[int, ...]:
    if not is_422(geometry):
        return (geometry.rows, geometry.columns, *((geometry.samples,) if geometry.samples > 1 else ()))
    # Pixels share chroma in pairs, so the number of columns must be even (PS3.3 C.7.6.3.1.2).
    if geometry.columns & 1 or geometry.bits_allocated != 8:
        raise Quarantined("pixels-undecodable", "pixels")
    return geometry.rows, geometry.columns // 2, 4
