"""Where a frame may show text that can be read: OCR, which costs most, looks nowhere else."""

from __future__ import annotations

import numpy as np
from medsanitize.sanitize.burned_in.strokes import TextPiece, letter_count, text_pieces
from medsanitize.sanitize.burned_in.text_map import Chances
from numpy.typing import NDArray

# Chance from which a cell may be text that can be read, and from which it is read whatever its ink.
_POSSIBLE, _CERTAIN = 0.1, 0.6
# Least letters by the look of the ink: a bar may be a part of one.
_LETTERS = 0.5
# Side of letters (pixels) at which their ink is looked at without reduction: a piece of several lines is
# higher than its letters.
_SIDE = 28.0


def readable_chances(values: NDArray[np.float32], chances: Chances) -> Chances:
    """Return the text map without pieces that are no text by two measures.

    Such a piece has no ink that looks like a letter (thin, even, with sharp edges), and no cell that the
    network takes for text rather than not. Faint letters in noise of about their own contrast may have
    neither: of 77 such texts of which the network shows a part, 74 are kept, and all 19 that OCR reads.

    Parameters
    ----------
    values : array of float32, shape (rows, columns)
        Stored gray values of the frame.
    chances : Chances
        Text map of ``values``.
    """
    kept = np.zeros_like(chances)
    for piece in text_pieces(chances, _POSSIBLE, _POSSIBLE):
        left, top, right, bottom = piece.place
        inside = chances[top:bottom, left:right]
        if inside[piece.cells].max() >= _CERTAIN or _has_letters(piece, values):
            kept[top:bottom, left:right][piece.cells] = inside[piece.cells]
    return kept


def _has_letters(piece: TextPiece, values: NDArray[np.float32]) -> bool:
    sizes = (piece.size, _SIDE) if piece.size > _SIDE else (piece.size,)
    return any(letter_count(piece, size, values, _LETTERS) for size in sizes)
