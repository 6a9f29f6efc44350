"""Translation-tolerant second-order pooling of local features, with one vector per image.

Two radiographs of a chest are never aligned. Features on a fixed grid suffer from every shift; the second
moments of the features within a region do not, because ``<A, B> = sum_ij <a_i, b_j>^2`` sums over every pair
of locations of both regions, and the square gives most weight to those that agree. Regions are soft and
overlap, so that location still counts at their scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from medsanitize.verifiers.reid.models.networks.layers import GridPool
from medsanitize.verifiers.reid.models.networks.lite import GROUPS, STRIDES, Lite0
from torch import Tensor, nn
from torch.nn import functional as F

# Width of a region relative to the distance of two: neighbors overlap, regions further apart hardly do.
WIDTH = 0.5
# Size of the coarse grid, and the weight of its similarity relative to that of the moments.
COARSE, COARSE_WEIGHT = 4, 0.5


class Cells(nn.Module):
    """Local features: feature maps on a grid, minus their mean, with whitened channels and unit length.

    Parameters
    ----------
    channels, side
        Number and size of the feature maps.
    grid
        Size of the grid that they are pooled to.
    kept
        Number of whitened channels.
    """

    mean: Tensor

    def __init__(self, channels: int, side: int, grid: int, kept: int) -> None:
        super().__init__()
        self.pool = GridPool(side, grid)
        self.register_buffer("mean", torch.zeros(channels, grid, grid))
        self.whiten = nn.Conv2d(channels, kept, 1, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """Map ``(n, channels, side, side)`` to ``(n, kept, grid, grid)``."""
        return self.whitened(self.pool(maps))

    def whitened(self, pooled: Tensor) -> Tensor:
        """Whiten feature maps that are already on the grid."""
        return F.normalize(self.whiten(pooled - self.mean), dim=1)


class RegionMoments(nn.Module):
    """Second moments of cells, weighted by region: ``(n, c, grid, grid)`` to ``(n, regions^2, c^2)``."""

    weights: Tensor

    def __init__(self, grid: int, regions: int) -> None:
        super().__init__()
        self.register_buffer("weights", region_weights(grid, regions), persistent=False)

    def forward(self, cells: Tensor) -> Tensor:
        """Compute the moments of every region, row by row."""
        count, channels = cells.shape[:2]
        flat = cells.reshape(count, 1, channels, -1)
        moments = (flat * self.weights[None, :, None]) @ flat.transpose(2, 3)
        return moments.reshape(count, -1, channels * channels)


class RandomProjection(nn.Module):
    """Random projection that preserves distances (Ailon and Chazelle 2009) without a dense matrix.

    Random signs, Hadamard matrices along rows and columns, and a random selection of the result.
    """

    signs: Tensor
    kept: Tensor
    left: Tensor
    right: Tensor

    def __init__(self, length: int, dimension: int, seed: int = 0) -> None:
        super().__init__()
        # The side of a Hadamard matrix is a power of two.
        bits = max(2, math.ceil(math.log2(length)))
        self.length, self.rows, self.columns = length, 2 ** (bits // 2), 2 ** (bits - bits // 2)
        draw = torch.Generator().manual_seed(seed)
        signs = torch.randint(2, (self.rows * self.columns,), generator=draw) * 2.0 - 1
        kept = torch.randperm(len(signs), generator=draw)[:dimension].sort().values
        self.register_buffer("signs", signs)
        self.register_buffer("kept", kept)
        # Not stored with the weights, as they follow from the arguments.
        self.register_buffer("left", _hadamard(self.rows) / math.sqrt(self.rows), persistent=False)
        self.register_buffer("right", _hadamard(self.columns) / math.sqrt(self.columns), persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        """Map ``(n, length)`` to ``(n, dimension)``."""
        padded = F.pad(vectors, (0, len(self.signs) - self.length)) * self.signs
        mixed = self.left @ padded.reshape(-1, self.rows, self.columns) @ self.right
        return mixed.flatten(1).index_select(1, self.kept)


class Branch(nn.Module):
    """Embedding of the feature maps of one group: cells, moments by region, whitened products."""

    mean: Tensor

    def __init__(self, cells: Cells, grid: int, regions: int, kept: int, products: int) -> None:
        super().__init__()
        self.cells = cells
        self.moments = RegionMoments(grid, regions)
        self.whiten = nn.Linear(kept * kept, products, bias=False)
        self.register_buffer("mean", torch.zeros(regions * regions, products))

    def forward(self, maps: Tensor) -> Tensor:
        """Compute vectors of unit length; every region has the same weight."""
        regions = self.whiten(self.moments(self.cells(maps))) - self.mean
        return F.normalize(F.normalize(regions, dim=2).flatten(1))


class Coarse(nn.Module):
    """Coarse grid of one group's maps, partly whitened: ``(n, channels, side, side)`` to ``(n, kept)``."""

    def __init__(self, channels: int, side: int, kept: int) -> None:
        super().__init__()
        self.pool = GridPool(side, COARSE)
        self.project = nn.Linear(channels * COARSE**2, kept)

    def forward(self, maps: Tensor) -> Tensor:
        """Compute vectors of unit length."""
        return F.normalize(self.project(self.pool(maps).flatten(1)))


class Scale(nn.Module):
    """Embedding of one scale of an image, of unit length.

    Parameters
    ----------
    size
        Size of the scaled image, pixels.
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
        """Compute vectors from the feature maps after each group."""
        parts = [branch(after[group]) for group, branch in zip(self.taken, self.branches, strict=True)]
        fine = F.normalize(self.scramble(torch.cat(parts, 1)))
        parts = [layer(after[group]) for group, layer in zip(self.taken, self.coarse, strict=True)]
        # The square root, since the weight is one of inner products.
        coarse = F.normalize(torch.cat(parts, 1)) * COARSE_WEIGHT**0.5
        return F.normalize(torch.cat([fine, coarse], 1))


class LiteMoments(nn.Module):
    """Embedding from second-order pooling and a coarse grid at several scales, of unit length.

    Parameters
    ----------
    sizes
        Image sizes in pixels, multiples of 32; the first is that of the input. The grid of cells at each is
        as large as the last feature maps.
    groups
        Groups whose feature maps are used, as in `LiteFeatures`.
    kept
        Whitened channels of each group.
    regions
        Size of the grid of regions.
    products
        Whitened products of a region.
    scrambled
        Length of the projected moments of one scale.
    coarse
        Length of the vector of each group's coarse grid.
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
        """Compute embeddings of unit length; every scale has the same weight."""
        seen = [
            scale(self.backbone(rescaling(images))[0])
            for scale, rescaling in zip(self.scales, self.rescalings, strict=True)
        ]
        return F.normalize(torch.cat(seen, 1))


class Rescaling(nn.Module):
    """Downscaling of square images by a triangle filter as wide as the scale."""

    matrix: Tensor
    turned: Tensor

    def __init__(self, given: int, wanted: int) -> None:
        super().__init__()
        centers = (torch.arange(wanted, dtype=torch.float64) + 0.5) * (given / wanted) - 0.5
        apart = (torch.arange(given, dtype=torch.float64)[None] - centers[:, None]).abs() * (wanted / given)
        shares = (1 - apart).clamp(min=0)
        matrix = (shares / shares.sum(1, keepdim=True)).float()
        self.register_buffer("matrix", matrix, persistent=False)
        self.register_buffer("turned", matrix.T.contiguous(), persistent=False)
        self.same = given == wanted

    def forward(self, images: Tensor) -> Tensor:
        """Map ``(n, 3, given, given)`` to ``(n, 3, wanted, wanted)``."""
        return images if self.same else self.matrix @ images @ self.turned


def region_weights(grid: int, regions: int) -> Tensor:
    """Compute the Gaussian weight of cells in regions, (regions^2, grid^2); rows have unit length."""
    step = grid / regions
    centers = (torch.arange(regions, dtype=torch.float64) + 0.5) * step - 0.5
    apart = (torch.arange(grid, dtype=torch.float64)[None] - centers[:, None]) / (WIDTH * step)
    line = F.normalize(torch.exp(-(apart**2) / 2), dim=1)
    return torch.kron(line, line).float()


def _hadamard(side: int) -> Tensor:
    matrix = torch.ones(1, 1)
    while len(matrix) < side:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix
