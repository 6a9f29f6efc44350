"""Second moments of local features by region: what is compared bears being moved, and is still one vector.

A radiograph of the same chest is never at the same place twice. Vectors of features on a fixed grid pay for
every shift; the second moments of the features within a region do not, for ``<A, B> = sum_ij <a_i, b_j>^2``
adds up every pair of places of the two regions, and the square lets those that agree decide. Regions are soft
and overlap, so that place still counts at their scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from medsanitize.verifiers.reid.models.networks.layers import GridPool
from medsanitize.verifiers.reid.models.networks.lite import GROUPS, STRIDES, Lite0
from torch import Tensor, nn
from torch.nn import functional as F

# Of a region, as a share of the distance between two: neighbours overlap, those after them hardly.
WIDTH = 0.5
# Side of the coarse grid, and how much likeness on it counts beside the likeness of the moments.
COARSE, COARSE_WEIGHT = 4, 0.5


class Cells(nn.Module):
    """Local features: maps on a square grid, their mean chest subtracted, channels whitened, unit length.

    Parameters
    ----------
    channels, side
        Of the maps.
    grid
        Side of the grid that they are pooled to.
    kept
        How many whitened channels are kept.
    """

    mean: Tensor

    def __init__(self, channels: int, side: int, grid: int, kept: int) -> None:
        super().__init__()
        self.pool = GridPool(side, grid)
        self.register_buffer("mean", torch.zeros(channels, grid, grid))
        self.whiten = nn.Conv2d(channels, kept, 1, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """``(n, channels, side, side)`` to ``(n, kept, grid, grid)``."""
        return self.whitened(self.pool(maps))

    def whitened(self, pooled: Tensor) -> Tensor:
        """From maps that are on the grid already."""
        return F.normalize(self.whiten(pooled - self.mean), dim=1)


class RegionMoments(nn.Module):
    """Second moments of cells, weighted by each region: ``(n, c, grid, grid)`` to ``(n, regions^2, c^2)``."""

    weights: Tensor

    def __init__(self, grid: int, regions: int) -> None:
        super().__init__()
        self.register_buffer("weights", region_weights(grid, regions), persistent=False)

    def forward(self, cells: Tensor) -> Tensor:
        """Moments of every region, row by row."""
        count, channels = cells.shape[:2]
        flat = cells.reshape(count, 1, channels, -1)
        moments = (flat * self.weights[None, :, None]) @ flat.transpose(2, 3)
        return moments.reshape(count, -1, channels * channels)


class RandomProjection(nn.Module):
    """A random projection that keeps distances (Ailon and Chazelle 2009), without a matrix of its size.

    Signs at random, Hadamard matrices along rows and columns, and some of the results.
    """

    signs: Tensor
    kept: Tensor
    left: Tensor
    right: Tensor

    def __init__(self, length: int, dimension: int, seed: int = 0) -> None:
        super().__init__()
        bits = max(2, math.ceil(math.log2(length)))
        self.length, self.rows, self.columns = length, 2 ** (bits // 2), 2 ** (bits - bits // 2)
        draw = torch.Generator().manual_seed(seed)
        signs = torch.randint(2, (self.rows * self.columns,), generator=draw) * 2.0 - 1
        kept = torch.randperm(len(signs), generator=draw)[:dimension].sort().values
        self.register_buffer("signs", signs)
        self.register_buffer("kept", kept)
        self.register_buffer("left", _hadamard(self.rows) / math.sqrt(self.rows), persistent=False)
        self.register_buffer("right", _hadamard(self.columns) / math.sqrt(self.columns), persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        """``(n, length)`` to ``(n, dimension)``."""
        padded = F.pad(vectors, (0, len(self.signs) - self.length)) * self.signs
        mixed = self.left @ padded.reshape(-1, self.rows, self.columns) @ self.right
        return mixed.flatten(1).index_select(1, self.kept)


class Branch(nn.Module):
    """One group's maps as a vector of unit length: cells, moments of regions, whitened products."""

    mean: Tensor

    def __init__(self, cells: Cells, grid: int, regions: int, kept: int, products: int) -> None:
        super().__init__()
        self.cells = cells
        self.moments = RegionMoments(grid, regions)
        self.whiten = nn.Linear(kept * kept, products, bias=False)
        self.register_buffer("mean", torch.zeros(regions * regions, products))

    def forward(self, maps: Tensor) -> Tensor:
        """Every region weighs the same."""
        regions = self.whiten(self.moments(self.cells(maps))) - self.mean
        return F.normalize(F.normalize(regions, dim=2).flatten(1))


class Coarse(nn.Module):
    """One group's maps on a coarse grid, half whitened: ``(n, channels, side, side)`` to ``(n, kept)``."""

    def __init__(self, channels: int, side: int, kept: int) -> None:
        super().__init__()
        self.pool = GridPool(side, COARSE)
        self.project = nn.Linear(channels * COARSE**2, kept)

    def forward(self, maps: Tensor) -> Tensor:
        """Vectors of unit length."""
        return F.normalize(self.project(self.pool(maps).flatten(1)))


class Scale(nn.Module):
    """One scale of an image as a vector of unit length.

    Parameters
    ----------
    size
        Side that the image is scaled to, pixels.
    groups, kept, regions, products, scrambled, coarse
        See `LiteMoments`.
    """

    def __init__(
        self,
        size: int,
        groups: Sequence[int],
        kept: Sequence[int],
        regions: int,
        products: int,
        scrambled: int,
        coarse: int,
    ) -> None:
        super().__init__()
        self.taken = tuple(groups)
        grid = size // STRIDES[-1]
        self.branches: Sequence[Branch] = nn.ModuleList(  # type: ignore[assignment]
            Branch(Cells(GROUPS[group][4], size // STRIDES[group], grid, few), grid, regions, few, products)
            for group, few in zip(groups, kept, strict=True)
        )
        self.coarse: Sequence[Coarse] = nn.ModuleList(  # type: ignore[assignment]
            Coarse(GROUPS[group][4], size // STRIDES[group], coarse) for group in groups
        )
        self.scramble = RandomProjection(len(self.taken) * regions**2 * products, scrambled, seed=size)

    def forward(self, after: list[Tensor]) -> Tensor:
        """From the maps after each group."""
        parts = [branch(after[group]) for group, branch in zip(self.taken, self.branches, strict=True)]
        fine = F.normalize(self.scramble(torch.cat(parts, 1)))
        parts = [layer(after[group]) for group, layer in zip(self.taken, self.coarse, strict=True)]
        coarse = F.normalize(torch.cat(parts, 1)) * COARSE_WEIGHT**0.5
        return F.normalize(torch.cat([fine, coarse], 1))


class LiteMoments(nn.Module):
    """Vectors of unit length from the moments of some groups' maps, and from the maps on a coarse grid.

    Parameters
    ----------
    sizes
        Sides that an image is seen at, pixels, multiples of 32; the first is that of the input. The cells of
        each are as many as the last maps have places.
    groups
        Which groups' maps to take, as in `LiteFeatures`.
    kept
        Whitened channels of each group.
    regions
        Side of the grid of regions.
    products
        Whitened products of a region.
    scrambled
        Numbers that the moments of one size become.
    coarse
        Numbers that each group's coarse grid becomes.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        groups: Sequence[int],
        kept: Sequence[int],
        regions: int,
        products: int,
        scrambled: int,
        coarse: int,
    ) -> None:
        super().__init__()
        self.backbone = Lite0()
        self.scales: Sequence[Scale] = nn.ModuleList(  # type: ignore[assignment]
            Scale(size, groups, kept, regions, products, scrambled, coarse) for size in sizes
        )
        self.rescalings: Sequence[Rescaling] = nn.ModuleList(  # type: ignore[assignment]
            Rescaling(sizes[0], size) for size in sizes
        )

    def forward(self, images: Tensor) -> Tensor:
        """Vectors of unit length; every scale weighs the same."""
        seen = [
            scale(self.backbone(rescaling(images))[0])
            for scale, rescaling in zip(self.scales, self.rescalings, strict=True)
        ]
        return F.normalize(torch.cat(seen, 1))


class Rescaling(nn.Module):
    """Squares of one size from squares of another that is not smaller, by a triangle as wide as the scale."""

    matrix: Tensor
    turned: Tensor

    def __init__(self, given: int, wanted: int) -> None:
        super().__init__()
        centres = (torch.arange(wanted, dtype=torch.float64) + 0.5) * (given / wanted) - 0.5
        apart = (torch.arange(given, dtype=torch.float64)[None] - centres[:, None]).abs() * (wanted / given)
        shares = (1 - apart).clamp(min=0)
        matrix = (shares / shares.sum(1, keepdim=True)).float()
        self.register_buffer("matrix", matrix, persistent=False)
        self.register_buffer("turned", matrix.T.contiguous(), persistent=False)
        self.same = given == wanted

    def forward(self, images: Tensor) -> Tensor:
        """``(n, 3, given, given)`` to ``(n, 3, wanted, wanted)``."""
        return images if self.same else self.matrix @ images @ self.turned


def region_weights(grid: int, regions: int) -> Tensor:
    """Gaussian weight of each cell in each region, ``(regions^2, grid^2)``; each region has unit length."""
    step = grid / regions
    centres = (torch.arange(regions, dtype=torch.float64) + 0.5) * step - 0.5
    apart = (torch.arange(grid, dtype=torch.float64)[None] - centres[:, None]) / (WIDTH * step)
    line = F.normalize(torch.exp(-(apart**2) / 2), dim=1)
    return torch.kron(line, line).float()


def _hadamard(side: int) -> Tensor:
    matrix = torch.ones(1, 1)
    while len(matrix) < side:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix
