"""Contact sheets of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Images per row, and rows per sheet at most.
COLUMNS, ROWS = 8, 4


def sheet(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Arrange images ``(rows, columns, side, side)`` in a grid."""
    down, across, side, _ = rows.shape
    return np.ascontiguousarray(rows.transpose(0, 2, 1, 3).reshape(down * side, across * side))


def write_sheet(path: Path, rows: NDArray[np.uint8]) -> None:
    """Write a contact sheet as PNG."""
    path.write_bytes(png(rows))


def png(rows: NDArray[np.uint8]) -> bytes:
    """Encode a contact sheet as PNG."""
    import io

    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(sheet(rows)).save(written, "PNG")
    return written.getvalue()
