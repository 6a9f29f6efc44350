"""How well two images match, place by place.

Each cell of one image looks for the cell of the other that is most like it, near the same place: a chest that
stands a little differently still matches, a different chest matches less, wherever it stands. How well images
match at all depends on their quality, so a match is counted in deviations from the matches that each image
has with people it does not show (Auckenthaler et al. 2000 do so for voices).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OUTSIDE = -2.0
# Pairs at once: their cosines stay in the cache of one core.
_PAIRS = 32


@dataclass(frozen=True, slots=True)
class Matching:
    """What the vectors of `networks.match.LiteMatch` hold.

    Attributes
    ----------
    channels, grid
        Length of a cell, and cells a side.
    reach
        How many cells away a match may be.
    """

    channels: int
    grid: int
    reach: int

    @property
    def dimension(self) -> int:
        """Length of a vector: the cells, a mean and a deviation."""
        return self.channels * self.grid**2 + 2

    def match(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Deviations above the cohort's matches, of each row of ``one`` with the same row of ``other``."""
        import numpy as np

        beyond = self._outside()
        found = np.empty(len(one), np.float32)
        for start in range(0, len(one), _PAIRS):
            part = slice(start, start + _PAIRS)
            first, second = (
                vectors[part, :-2].reshape(-1, self.channels, self.grid**2) for vectors in (one, other)
            )
            likeness = first.transpose(0, 2, 1) @ second + beyond
            found[part] = (likeness.max(2).mean(1) + likeness.max(1).mean(1)) / 2
        floor = np.float32(1e-6)
        above = [(found - each[:, -2]) / np.maximum(each[:, -1], floor) for each in (one, other)]
        return np.asarray((above[0] + above[1]) / 2, np.float32)

    def _outside(self) -> NDArray[np.float32]:
        import numpy as np

        row, column = np.divmod(np.arange(self.grid**2), self.grid)
        apart = np.maximum(np.abs(row[:, None] - row), np.abs(column[:, None] - column))
        return np.where(apart > self.reach, np.float32(OUTSIDE), np.float32(0))
