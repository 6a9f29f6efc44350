"""Equal samples of two splits: equally many patients, and equally many images of each pair of patients.

If the generator memorized nothing, training and holdout patients are exchangeable. The tests that compare
the splits rely on this exchangeability only, and therefore count patients instead of images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class MatchedSamples:
    """Rows of both splits, grouped by pairs of patients.

    Attributes
    ----------
    training, holdout
        Rows of the splits, of equal length.
    pairs
        Pair of patients of each row, numbered from 0; the same for both splits.
    """

    training: NDArray[np.int64]
    holdout: NDArray[np.int64]
    pairs: NDArray[np.int64]

    @property
    def patients(self) -> int:
        """Number of patients per split."""
        return int(self.pairs[-1]) + 1 if len(self.pairs) else 0

    def highest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Highest value of each patient, ``(patients,)``, from one value per row."""
        import numpy as np

        found = np.full(self.patients, -np.inf)
        np.maximum.at(found, self.pairs, values)
        return found

    def first_of_each(self) -> NDArray[np.int64]:
        """Index of the first row of each pair."""
        import numpy as np

        return np.asarray(np.unique(self.pairs, return_index=True)[1], np.int64)


def match_samples(training: NDArray[np.int64], holdout: NDArray[np.int64]) -> MatchedSamples:
    """Select equally many random patients per split, pair them by number of images and cut to equal numbers.

    Parameters
    ----------
    training, holdout : array of int
        Patient of each image.
    """
    import numpy as np

    # Fixed seed: a verdict must be reproducible, not repeatable until it is favorable.
    draw = np.random.default_rng(0)
    splits = [np.unique(one) for one in (training, holdout)]
    count = min(len(one) for one in splits)
    rows: list[list[NDArray[np.int64]]] = []
    for patients, names in zip((training, holdout), splits, strict=True):
        chosen = draw.permutation(names)[:count]
        order = np.argsort(patients, kind="stable").astype(np.int64)
        begins = np.searchsorted(patients[order], chosen)
        ends = np.searchsorted(patients[order], chosen, side="right")
        own = [order[begin:end] for begin, end in zip(begins, ends, strict=True)]
        # Pairing in order of size loses the fewest images to the cut.
        rows.append(sorted(own, key=len, reverse=True))
    kept = [min(len(one), len(other)) for one, other in zip(*rows, strict=True)]
    first, second = (
        np.concatenate([np.empty(0, np.int64), *(one[:size] for one, size in zip(split, kept, strict=True))])
        for split in rows
    )
    return MatchedSamples(first, second, np.repeat(np.arange(count, dtype=np.int64), kept))
