"""Where a frame shows text, in any script, at any angle and of any contrast; nothing is read here.

A small convolutional network sees local contrast only (`local_contrast`) and gives each cell of 4 x 4 pixels
the chance that it holds a part of a line of text. It was trained on random letters of more than a hundred
scripts over medical images without text (`tools/text_detector` in the source). It decides whether something
is there; OCR only acquits what it reads as harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from medsanitize.errors import EnvironmentFailure
from medsanitize.sanitize.burned_in.local_contrast import local_contrast
from medsanitize.sanitize.onnx import open_network, run_network
from numpy.typing import NDArray

CELL = 4
"""Side of a cell in pixels."""

Chances = NDArray[np.float32]
"""Text map: the chance of text of each cell (0 to 1), shape (ceil(rows / 4), ceil(columns / 4))."""

_MODEL = Path(__file__).parent / "text_detector.onnx"
# Reductions of the frame: the network finds fonts of 7 to 34 pixels.
_REDUCED = (1, 2, 4)
# Sides of the network's input are multiples of this; smaller frames are padded.
_MULTIPLE = 8
# Rows of a band of a large frame, in pixels of all its columns, and the overlap of bands in rows.
_BAND, _OVERLAP = 2_000_000, 64
_SMALLEST = 8
# Chances of cells that show text, and of cells that may; part of a piece that a finer resolution shows too.
_FOUND, _POSSIBLE, _MOSTLY = 0.5, 0.15, 0.9


def text_chances(values: NDArray[np.float32], reductions: Sequence[int] = _REDUCED) -> Chances:
    """Return the chance of text of each cell.

    Parameters
    ----------
    values : array of float32, shape (rows, columns)
        Stored gray values, without NaN.
    reductions : sequence of int
        Reductions of the frame at which letters are looked for.

    Returns
    -------
    Chances
    """
    import cv2

    rows, columns = values.shape
    cells = -(-rows // CELL), -(-columns // CELL)
    chances = np.zeros(cells, np.float32)
    for reduced in reductions:
        height, width = rows // reduced, columns // reduced
        if min(height, width) < _SMALLEST:
            break
        small = values
        if reduced > 1:
            small = np.asarray(cv2.resize(values, (width, height), interpolation=cv2.INTER_AREA), np.float32)
        found = _in_bands(small)
        larger = np.repeat(np.repeat(found, reduced, axis=0), reduced, axis=1)[: cells[0], : cells[1]]
        part = chances[: larger.shape[0], : larger.shape[1]]
        if reduced > 1:
            larger = np.where(_is_beside(larger, part, reduced), 0, larger).astype(np.float32)
        np.maximum(part, larger, out=part)
    return chances


def _is_beside(chances: Chances, finer: Chances, reduced: int) -> NDArray[np.bool_]:
    """Cells of a piece that a finer resolution shows too, with sharper bounds, and that are outside these."""
    import cv2

    window = np.ones((2 * reduced + 1, 2 * reduced + 1), np.uint8)
    near = cv2.dilate((finer >= _FOUND).astype(np.uint8), window) > 0
    count, labels = cv2.connectedComponents((chances >= _POSSIBLE).astype(np.uint8), connectivity=8)
    sizes = np.bincount(labels.ravel(), minlength=count)
    known = np.bincount(labels[near], minlength=count) >= _MOSTLY * sizes
    known[0] = False
    return np.asarray(known[labels] & (finer < _POSSIBLE))


def _in_bands(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Chances at one resolution; bands of rows bound the memory."""
    rows, columns = values.shape
    band = max(2 * _OVERLAP, _BAND // columns // _MULTIPLE * _MULTIPLE)
    if rows <= band + _OVERLAP:
        return _chances(values)
    found = []
    for first in range(0, rows, band):
        top, bottom = max(0, first - _OVERLAP), min(rows, first + band + _OVERLAP)
        part = _chances(values[top:bottom])
        skipped = (first - top) // CELL
        found.append(part[skipped : skipped + -(-(min(first + band, rows) - first) // CELL)])
    return np.concatenate(found)


def _chances(values: NDArray[np.float32]) -> NDArray[np.float32]:
    import cv2

    rows, columns = values.shape
    below, right = -rows % _MULTIPLE, -columns % _MULTIPLE
    planes = local_contrast(values)
    # Replicated noise would be stripes, which look like strokes.
    padded = np.stack([cv2.copyMakeBorder(plane, 0, below, 0, right, cv2.BORDER_REFLECT) for plane in planes])
    found: Chances = run_network(_network(), padded[None])[0, 0]
    return found[: -(-rows // CELL), : -(-columns // CELL)]


@cache
def _network() -> Any:
    """Load the network, once per process."""
    try:
        from onnxruntime import SessionOptions  # type: ignore[import-untyped]
    except ImportError:
        raise EnvironmentFailure(
            "Burned-in text is found with the extra 'pixels'", "Install medsanitize[pixels]"
        ) from None
    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return open_network(_MODEL.read_bytes(), options)
