"""Region matching: the similarity of two images, location by location.

Each cell of one image is compared with the cells of the other near the same location, and the most similar
one counts: a chest in a slightly different position still matches, another chest matches less. As matches
depend on the quality of the images, a match is expressed in standard deviations above the matches of each
image with a cohort of other people (as Auckenthaler et al. 2000 do for voices).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BEYOND_REACH = -2.0
# Pairs per block, whose cosines stay in the cache of one core.
_PAIRS_PER_BLOCK = 32


@dataclass(frozen=True, slots=True)
class Matching:
    """Layout of the embeddings of `medsanitize.verifiers.reid.models.networks.match.LiteMatch`.

    Attributes
    ----------
    channels, grid
        Length of a cell, and cells per side.
    reach
        Largest offset of a matching cell, in cells.
    """

    channels: int
    grid: int
    reach: int

    @property
    def dimension(self) -> int:
        """Length of an embedding: the cells, and mean and deviation of the cohort matches."""
        return self.channels * self.grid**2 + 2

    def match(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Match rows of ``one`` with the same rows of ``other``, in standard deviations above the cohort.

        Parameters
        ----------
        one, other : array of float32, shape (n, dimension)
            Embeddings, with the cohort statistics in the last two columns.
        """
        import numpy as np

        found = self.likeness(one, other)
        # A cohort of equal matches has no deviation to divide by.
        floor = np.float32(1e-6)
        above = [(found - each[:, -2]) / np.maximum(each[:, -1], floor) for each in (one, other)]
        return np.asarray((above[0] + above[1]) / 2, np.float32)

    def likeness(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Match rows of ``one`` with the same rows of ``other``, whatever the cohort; at most 1."""
        import numpy as np

        beyond = self._outside()
        found = np.empty(len(one), np.float32)
        for start in range(0, len(one), _PAIRS_PER_BLOCK):
            part = slice(start, start + _PAIRS_PER_BLOCK)
            first, second = (
                vectors[part, :-2].reshape(-1, self.channels, self.grid**2) for vectors in (one, other)
            )
            likeness = first.transpose(0, 2, 1) @ second + beyond
            found[part] = (likeness.max(2).mean(1) + likeness.max(1).mean(1)) / 2
        return found

    def _outside(self) -> NDArray[np.float32]:
        import numpy as np

        row, column = np.divmod(np.arange(self.grid**2), self.grid)
        apart = np.maximum(np.abs(row[:, None] - row), np.abs(column[:, None] - column))
        return np.where(apart > self.reach, np.float32(BEYOND_REACH), np.float32(0))
