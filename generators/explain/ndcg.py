"""How well a ranking agrees with judgements of relevance (Järvelin and Kekäläinen 2002, gains 2^rel - 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def dcg(relevance: Sequence[float], p: int) -> float:
    """Discounted cumulative gain of a ranking's first ``p``: the sum of ``(2^rel - 1) / log2(i + 1)``."""
    gains = _gains(relevance)[:p]
    return float(gains @ _discounts(len(gains)))


def ndcg(relevance: Sequence[float], p: int) -> float:
    """The gain of a ranking by that of the best ranking of the same judgements, in [0, 1].

    Parameters
    ----------
    relevance
        Of everything that was ranked, in the order of the ranking; not negative, and not all 0.
    p
        How many of the first count.
    """
    return dcg(relevance, p) / dcg(sorted(relevance, reverse=True), p)


def ndcg_by_chance(relevance: Sequence[float], p: int) -> float:
    """What a ranking in random order has on average."""
    gains = _gains(relevance)
    expected = float(gains.mean() * _discounts(min(p, len(gains))).sum())
    return expected / dcg(sorted(relevance, reverse=True), p)


def _gains(relevance: Sequence[float]) -> NDArray[np.float64]:
    import numpy as np

    return np.exp2(np.asarray(relevance, np.float64)) - 1


def _discounts(count: int) -> NDArray[np.float64]:
    import numpy as np

    return 1 / np.log2(np.arange(count) + 2)
