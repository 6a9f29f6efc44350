"""Copy matching: does a region of one image show the same pixels as a region of another?

Unlike region matching (`Matching`), every cell of a region must agree at one common displacement. The best
region counts, so that half an image, a patch or a crop is found. Three similarities see different disguises:
cells of a network resist changes of geometry and contrast; fine cells, which are linear in the pixels, find
an image below noise or in a blend, in regions and as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Number of similarities: the network's cells, and fine cells in regions and in the whole image.
SIMILARITIES: Final = 3
# Sides of the regions and largest displacement, in cells, of the network's cells and of the fine ones.
REGION, REACH = 5, 2
FINE_REGION, FINE_REACH = 8, 1
# Pairs per block, whose cells stay in the cache of one core.
_PAIRS_PER_BLOCK: Final = 8


@dataclass(frozen=True, slots=True)
class CopyMatching:
    """Layout of the embeddings of `medsanitize.verifiers.reid.models.networks.copies.LiteCopies`.

    Attributes
    ----------
    channels, fine
        Length of a cell of the network, and of a fine cell.
    grid
        Cells per side.
    """

    channels: int
    fine: int
    grid: int

    @property
    def dimension(self) -> int:
        """Length of an embedding: cells of the image, cells of its enlarged middle, fine cells."""
        return (2 * self.channels + self.fine) * self.grid**2

    def similarities(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Compare rows of ``one`` with the same rows of ``other``, shape (n, `SIMILARITIES`), in [-1, 1].

        ``one`` is taken for the copy: only ``other`` is compared mirrored and enlarged as well.

        Parameters
        ----------
        one, other : array of float32, shape (n, dimension)
            Embeddings.
        """
        import numpy as np

        found = np.empty((len(one), SIMILARITIES), np.float32)
        for start in range(0, len(one), _PAIRS_PER_BLOCK):
            part = slice(start, start + _PAIRS_PER_BLOCK)
            plain, _, fine = self._cells(one[part])
            others, enlarged, others_fine = self._cells(other[part])
            regions = [
                _best_region(plain, view, REACH, (REGION,), mirrored=True) for view in (others, enlarged)
            ]
            found[part, :1] = np.max(regions, axis=0)
            sides = (FINE_REGION, self.grid)
            found[part, 1:] = _best_region(fine, others_fine, FINE_REACH, sides, mirrored=False)
        return found

    def _cells(self, vectors: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Cells of the image, of its enlarged middle, and fine ones: (n, channels, grid, grid) each."""
        import numpy as np

        each = self.channels * self.grid**2
        parts = np.split(vectors, [each, 2 * each], axis=1)
        return [part.reshape(len(part), -1, self.grid, self.grid) for part in parts]


def _best_region(
    one: NDArray[np.float32],
    other: NDArray[np.float32],
    reach: int,
    sides: tuple[int, ...],
    *,
    mirrored: bool,
) -> NDArray[np.float32]:
    """Highest mean cosine of a region over all places and displacements, by side of a region: (n, sides).

    With ``mirrored``, the other images are compared as they are and mirrored.
    """
    import numpy as np

    grid, wide = one.shape[-1], 2 * reach + 1
    across, down = one.transpose(0, 2, 3, 1), other.transpose(0, 2, 1, 3)
    best = np.full((len(one), len(sides)), -1, np.float32)
    for step in range(-reach, reach + 1):
        rows = slice(max(0, -step), grid - max(0, step))
        moved = slice(max(0, step), grid - max(0, -step))
        # Every cell of a row with every cell of the other's: displacements are diagonals of the product,
        # those of the mirrored row are its other diagonals.
        product = across[:, rows] @ down[:, moved]
        views = [product, product[..., ::-1]] if mirrored else [product]
        around = np.zeros((len(views), len(one), grid, grid, grid + 2 * reach), np.float32)
        for place, view in enumerate(views):
            around[place, :, rows, :, reach : reach + grid] = view
        cosines = _diagonals(around, wide).reshape(-1, grid, grid * wide)
        for place, side in enumerate(sides):
            inner = (_windows(grid, side) @ cosines).reshape(-1, grid * wide)
            total = inner @ _windows_across(grid, side, wide)
            highest = total.reshape(len(views), len(one), -1).max((0, 2))
            best[:, place] = np.maximum(best[:, place], highest / side**2)
    return best


def _diagonals(matrices: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """First ``count`` diagonals of matrices ``(..., n, n + count - 1)``, as ``(..., n, count)``."""
    import numpy as np

    *outer, row, column = matrices.strides
    shape = (*matrices.shape[:-1], count)
    return np.ascontiguousarray(
        np.lib.stride_tricks.as_strided(matrices, shape, (*outer, row + column, column), writeable=False)
    )


@lru_cache(maxsize=8)
def _windows(grid: int, side: int) -> NDArray[np.float32]:
    """Sums over all windows of ``side`` cells as a matrix ``(windows, grid)``."""
    import numpy as np

    place = np.arange(grid) - np.arange(grid - side + 1)[:, None]
    return np.asarray((place >= 0) & (place < side), np.float32)


@lru_cache(maxsize=8)
def _windows_across(grid: int, side: int, wide: int) -> NDArray[np.float32]:
    """The same sums along rows of cells with ``wide`` values each, as a factor from the right."""
    import numpy as np

    return np.kron(_windows(grid, side).T, np.eye(wide, dtype=np.float32))
