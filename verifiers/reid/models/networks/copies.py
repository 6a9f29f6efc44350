"""Cells of an image for copy matching: of a network, at two scales, and linear ones of fine structure."""

from __future__ import annotations

from typing import Final

import torch
from medsanitize.verifiers.reid.models.networks.layers import GridPool
from medsanitize.verifiers.reid.models.networks.lite import GROUPS, STRIDES, Lite0
from medsanitize.verifiers.reid.models.networks.moments import Cells
from torch import Tensor, nn
from torch.nn import functional as F

# Groups of feature maps whose channels make a cell; the grid is that of the last.
TAKEN: Final = (2, 4)
# Share of the side that the enlarged middle shows: between an image and a crop to 80 % of its sides.
MIDDLE: Final = 0.85
# Fine cells: factor by which pixels are averaged, and the side of a cell's patch of these, three strides.
AVERAGED, PATCH = 4, 12


class LiteCopies(nn.Module):
    """Cells of the image, cells of its enlarged middle, and fine cells, each of unit length.

    Parameters
    ----------
    size
        Input size, pixels.
    kept, fine
        Length of a cell of the network, and of a fine cell.
    grid
        Cells per side; the size divided by 16.
    """

    def __init__(self, size: int, kept: int, fine: int, grid: int) -> None:
        super().__init__()
        if grid * STRIDES[TAKEN[-1]] != size:
            raise ValueError("The grid does not fit the size")
        self.backbone = Lite0()
        self.pools = nn.ModuleList(GridPool(size // STRIDES[group], grid) for group in TAKEN)
        self.cells = Cells(sum(GROUPS[group][4] for group in TAKEN), grid, grid, kept)
        self.enlarge = Enlarged(size)
        self.fine = FineCells(fine, grid)

    def pooled(self, images: Tensor) -> Tensor:
        """Compute the feature maps on the grid."""
        after, _ = self.backbone(images)
        return torch.cat([pool(after[group]) for group, pool in zip(TAKEN, self.pools, strict=True)], 1)

    def forward(self, images: Tensor) -> Tensor:
        """Compute the embeddings for `medsanitize.verifiers.reid.models.copy_matching.CopyMatching`."""
        plain = self.cells.whitened(self.pooled(images))
        enlarged = self.cells.whitened(self.pooled(self.enlarge(images)))
        return torch.cat([plain.flatten(1), enlarged.flatten(1), self.fine(images).flatten(1)], 1)


class Enlarged(nn.Module):
    """The middle of square images, enlarged to their size by linear interpolation."""

    matrix: Tensor
    turned: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        centers = (torch.arange(size, dtype=torch.float64) + 0.5 - size / 2) * MIDDLE + size / 2 - 0.5
        apart = (torch.arange(size, dtype=torch.float64)[None] - centers[:, None]).abs()
        matrix = (1 - apart).clamp(min=0).float()
        self.register_buffer("matrix", matrix, persistent=False)
        self.register_buffer("turned", matrix.T.contiguous(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Map ``(n, 3, size, size)`` to the same shape."""
        return self.matrix @ images @ self.turned


class FineCells(nn.Module):
    """Linear features of overlapping patches, minus their mean at each location, of unit length.

    Parameters
    ----------
    kept
        Length of a cell.
    grid
        Cells per side.
    """

    mean: Tensor

    def __init__(self, kept: int, grid: int) -> None:
        super().__init__()
        self.average = nn.AvgPool2d(AVERAGED)
        stride = PATCH // 3
        self.project = nn.Conv2d(3, kept, PATCH, stride, padding=stride, bias=False)
        self.register_buffer("mean", torch.zeros(kept, grid, grid))

    def forward(self, images: Tensor) -> Tensor:
        """Map ``(n, 3, 16 grid, 16 grid)`` to ``(n, kept, grid, grid)``."""
        return F.normalize(self.project(self.average(images)) - self.mean, dim=1)
