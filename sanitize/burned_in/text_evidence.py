"""Whether a piece of a text map is text: what the network is sure of and how its ink looks, weighed together.

The weights are those of a logistic regression over pieces of drawn lines and of real images in which OCR
reads nothing (`benchmarks/text_evidence.py`).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import expm1, inf, log, log1p

TEXT = -2.0
"""Log odds from which a piece counts as text; below even odds, because what is missed is not blanked."""
POSSIBLE = -6.0
"""Log odds below which a piece is no text, even if OCR reads letters without certainty."""

_INTERCEPT = -12.27
_WEIGHTS = (1.67, 1.97, 1.96, -1.22, -0.94)
# Added for large pieces: rows of slices of a mosaic look like large letters.
_LARGE = -2.0
# Log odds of the network that a piece needs if none of its ink looks like letters, as that of a ruler does.
_ALONE = 7.0
_CERTAIN = 1e-4
# Relative error of a number of letters by rounding, and the logarithm of more than any piece has.
_ROUNDING, _ENDLESS = 1e-6, 50.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """Features of a piece, in the order of the weights.

    Attributes
    ----------
    chance : float
        Log odds of text that the network gives to a typical cell of the piece.
    length : float
        Logarithm of its length in sizes of its letters.
    letters : float
        Logarithm of 1 + the pieces of ink that look like letters.
    ink : float
        Logarithm of 1 + all pieces of connected ink.
    large_letters : float
        ``letters`` for large pieces, else 0: at reduced resolution organs may look like letters.
    """

    chance: float
    length: float
    letters: float
    ink: float
    large_letters: float


def evidence(chance: float, length: float, letters: float, ink: int, *, large: bool) -> Evidence:
    """Return the features of a piece.

    Parameters
    ----------
    chance : float
        Chance of text of a typical cell, 0 to 1.
    length : float
        Length in sizes of letters.
    letters : float
        Pieces of ink that look like letters; a joined word counts several.
    ink : int
        All pieces of connected ink.
    large : bool
        Whether letters are so large that the frame was searched at reduced resolution.
    """
    inside = min(max(chance, _CERTAIN), 1 - _CERTAIN)
    counted = log1p(letters)
    return Evidence(log(inside / (1 - inside)), log(length), counted, log1p(ink), counted if large else 0.0)


def log_odds(piece: Evidence) -> float:
    """Return the logarithm of the odds that a piece is text."""
    if piece.letters == 0 and piece.chance < _ALONE:
        return -inf
    size = _LARGE if piece.large_letters else 0.0
    return _INTERCEPT + size + sum(map(float.__mul__, _WEIGHTS, astuple(piece)))


def letters_needed(chance: float, length: float, ink: int, least: float, *, large: bool) -> float:
    """Return a number of letters, above 0, from which a piece has the given log odds of text.

    Parameters
    ----------
    chance, length, ink, large
        As for `evidence`.
    least : float
        Log odds.

    Returns
    -------
    float
        With more letters a piece is never less likely text; with fewer it may have the log odds too, by
        rounding.
    """
    one = evidence(chance, length, 1.0, ink, large=large)
    each = _WEIGHTS[2] + (_WEIGHTS[4] if large else 0.0)
    counted = one.letters + (least - log_odds(one)) / each
    return expm1(min(max(counted, 0.0), _ENDLESS)) * (1 + _ROUNDING) + _ROUNDING
