"""Bootstrap intervals over patients, as images of one patient are not independent.

Patients are drawn with replacement; the images of a patient drawn twice count twice. Packhäuser et al. 2022
use 10,000 draws as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DRAWS: Final = 10_000
COVERAGE: Final = 0.95
# A fixed seed: the same values give the same interval.
SEED: Final = 20_220_914
# Counts of a block of draws, 32 MiB as float64.
_BLOCK: Final = 2**22

Interval = tuple[float, float]


def draws(patients: int, count: int = DRAWS) -> Iterator[NDArray[np.float64]]:
    """Yield blocks of draws, shape (draws, patients): how often each patient was drawn.

    Every row sums to ``patients``.

    Parameters
    ----------
    patients : int
        Number of patients, and of draws with replacement from them.
    count : int
        Number of rows over all blocks.
    """
    import numpy as np

    rng = np.random.default_rng(SEED)
    block = max(1, _BLOCK // patients)
    for start in range(0, count, block):
        rows = min(block, count - start)
        # Offset by row, so that one bincount counts all draws of the block.
        chosen = rng.integers(0, patients, (rows, patients)) + patients * np.arange(rows)[:, None]
        counts = np.bincount(chosen.ravel(), minlength=rows * patients)
        yield counts.reshape(rows, patients).astype(np.float64)


def intervals(
    patients: int, statistic: Callable[[NDArray[np.float64]], dict[str, NDArray[np.float64]]]
) -> dict[str, Interval]:
    """Compute the 95 % percentile interval of each value of a statistic.

    Parameters
    ----------
    patients : int
        Number of patients to draw from.
    statistic : callable
        Maps a block of draws, shape (draws, patients), to arrays of shape (draws,) by name.

    Returns
    -------
    dict of str to (float, float)
        Lower and upper limit by name. Draws with an undefined value (NaN) are left out.
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
    """Divide; NaN where the divisor is not positive."""
    import numpy as np

    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0))


def quadratic(weights: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute ``w' M w`` for each row ``w`` of ``weights``."""
    import numpy as np

    return np.asarray(np.einsum("ij,ij->i", weights @ matrix, weights))
