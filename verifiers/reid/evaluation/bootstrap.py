"""Intervals by drawing patients again, ten thousand times.

Images of one patient are alike, so it is patients that are drawn, with replacement; a patient drawn
twice counts twice. Draws are seeded: the same values give the same interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DRAWS: Final = 10_000
COVERAGE: Final = 0.95
SEED: Final = 20_220_914
_BLOCK: Final = 2**22
"""Numbers of one block of draws."""

Interval = tuple[float, float]


def draws(patients: int, count: int = DRAWS) -> Iterator[NDArray[np.float64]]:
    """Yield blocks ``(draws, patients)``: how often each patient was drawn; rows sum to ``patients``."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    block = max(1, _BLOCK // patients)
    for start in range(0, count, block):
        rows = min(block, count - start)
        chosen = rng.integers(0, patients, (rows, patients)) + patients * np.arange(rows)[:, None]
        counts = np.bincount(chosen.ravel(), minlength=rows * patients)
        yield counts.reshape(rows, patients).astype(np.float64)


def intervals(
    patients: int, statistic: Callable[[NDArray[np.float64]], dict[str, NDArray[np.float64]]]
) -> dict[str, Interval]:
    """Return the percentile interval of each number that ``statistic`` makes of a block of draws.

    Draws in which a number is not defined (NaN) are left out of its interval.
    """
    import numpy as np

    blocks = [statistic(block) for block in draws(patients)]
    found = {}
    for name in blocks[0]:
        values = np.concatenate([block[name] for block in blocks])
        values = values[np.isfinite(values)]
        if len(values):
            low, high = np.quantile(values, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
            found[name] = (float(low), float(high))
    return found


def ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide; where there is nothing to divide by, NaN."""
    import numpy as np

    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0))


def quadratic(weights: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``w' M w`` for each row ``w``."""
    import numpy as np

    return np.asarray(np.einsum("ij,ij->i", weights @ matrix, weights))
