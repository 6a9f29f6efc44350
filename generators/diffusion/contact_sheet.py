"""A sheet of images, for a person to look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# A sheet is at most so many images wide and high.
COLUMNS, ROWS = 8, 4


def sheet(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images ``(rows, columns, side, side)`` side by side."""
    down, across, side, _ = rows.shape
    return np.ascontiguousarray(rows.transpose(0, 2, 1, 3).reshape(down * side, across * side))


def write_sheet(path: Path, rows: NDArray[np.uint8]) -> None:
    """Write a sheet as PNG."""
    path.write_bytes(png(rows))


def png(rows: NDArray[np.uint8]) -> bytes:
    """A sheet as the bytes of a PNG."""
    import io

    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(sheet(rows)).save(written, "PNG")
    return written.getvalue()
