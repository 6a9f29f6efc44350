"""Score of a pair of embeddings in [0, 1]; 1 is the same patient."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from medsanitize.verifiers.reid.models.copy_matching import CopyMatching
from medsanitize.verifiers.reid.models.region_matching import Matching

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Scoring(StrEnum):
    """How a pair of embeddings is scored."""

    NONE = "none"
    """Not at all: a retrieval model."""
    SIGMOID_DIFFERENCE = "sigmoid-difference"
    """Weighted sum of ``|sigmoid(z1) - sigmoid(z2)|`` through a sigmoid (Packhäuser et al. 2022, Fig. 8)."""
    DISTANCE = "distance"
    """Euclidean distance times a weight plus a bias, through a sigmoid."""
    MATCH = "match"
    """Region matching (`Matching`) times a weight plus a bias, through a sigmoid."""
    COPY = "copy"
    """Highest similarity of `CopyMatching`, each times a weight plus a bias, through a sigmoid."""


WEIGHT, BIAS = "score.weight", "score.bias"


def pair_scores(
    scoring: Scoring,
    weights: Mapping[str, NDArray[np.float32]],
    one: NDArray[np.float32],
    other: NDArray[np.float32],
    matching: Matching | CopyMatching | None = None,
) -> NDArray[np.float32]:
    """Score each row of ``one`` with the same row of ``other``.

    Parameters
    ----------
    scoring : Scoring
        How pairs are scored.
    weights : mapping of str to array
        Weight and bias of the score.
    one, other : array of float32, shape (n, dimension)
        Embeddings.
    matching : Matching, optional
        Layout of the embeddings, required by ``Scoring.MATCH`` and ``Scoring.COPY``.

    Returns
    -------
    array of float32, shape (n,)
        Scores in [0, 1].
    """
    return _sigmoid(raw_scores(scoring, weights, one, other, matching))


def raw_scores(
    scoring: Scoring,
    weights: Mapping[str, NDArray[np.float32]],
    one: NDArray[np.float32],
    other: NDArray[np.float32],
    matching: Matching | CopyMatching | None = None,
) -> NDArray[np.float32]:
    """Score as `pair_scores` does, before the sigmoid: unbounded, so that near copies do not all score 1."""
    import numpy as np

    if isinstance(matching, CopyMatching):
        found = matching.similarities(one, other) * weights[WEIGHT].reshape(-1) + weights[BIAS].reshape(-1)
        return np.asarray(found.max(1), np.float32)
    if matching is not None:
        apart = matching.match(one, other)[:, None]
    elif scoring is Scoring.DISTANCE:
        apart = np.linalg.norm(one - other, axis=1, keepdims=True)
    else:
        apart = np.abs(_sigmoid(one) - _sigmoid(other))
    return np.asarray(apart @ weights[WEIGHT].reshape(-1) + weights[BIAS].reshape(()), np.float32)


def _sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logistic function, without overflow."""
    import numpy as np

    # tanh saturates where exp would overflow.
    return np.asarray(0.5 * (1 + np.tanh(0.5 * values)), np.float32)
