"""Normalized discounted cumulative gain (Järvelin and Kekäläinen 2002, with gains 2^rel - 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def dcg(relevance: Sequence[float], p: int) -> float:
    """Discounted cumulative gain of the first ``p`` ranks: the sum of ``(2^rel - 1) / log2(i + 1)``."""
    gains = _gains(relevance)[:p]
    return float(gains @ _discounts(len(gains)))


def ndcg(relevance: Sequence[float], p: int) -> float:
    """Gain of a ranking relative to the best ranking of the same judgments, in [0, 1].

    Parameters
    ----------
    relevance
        Relevance of all ranked items, in order of rank; not negative, and not all 0.
    p
        Number of ranks that count.
    """
    return dcg(relevance, p) / dcg(sorted(relevance, reverse=True), p)


def ndcg_by_chance(relevance: Sequence[float], p: int) -> float:
    """Expected nDCG of a random ranking."""
    gains = _gains(relevance)
    # Each rank of a random order has the mean gain, so the expectation is exact without sampling.
    expected = float(gains.mean() * _discounts(min(p, len(gains))).sum())
    return expected / dcg(sorted(relevance, reverse=True), p)


def _gains(relevance: Sequence[float]) -> NDArray[np.float64]:
    import numpy as np

    return np.exp2(np.asarray(relevance, np.float64)) - 1


def _discounts(count: int) -> NDArray[np.float64]:
    import numpy as np

    return 1 / np.log2(np.arange(count) + 2)
