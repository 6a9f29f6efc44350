"""Cells of an image for matching in pairs, and how well the image matches people it does not show."""

from __future__ import annotations

import torch
from medsanitize.verifiers.reid.models.networks.lite import GROUPS, STRIDES, Lite0
from medsanitize.verifiers.reid.models.networks.moments import Cells
from torch import Tensor, nn

# A cosine can be no lower.
OUTSIDE = -2.0


class Cohort(nn.Module):
    """Matches with images of a cohort: ``(n, channels, grid, grid)`` to mean and deviation, ``(n, 2)``."""

    cells: Tensor
    outside: Tensor

    def __init__(self, count: int, channels: int, grid: int, reach: int) -> None:
        super().__init__()
        self.register_buffer("cells", torch.randn(count, channels, grid * grid))
        self.register_buffer("outside", outside(grid, reach), persistent=False)

    def matches(self, cells: Tensor) -> Tensor:
        """With each image of the cohort, ``(n, count)``; see ``models.matching``."""
        flat = cells.flatten(2).transpose(1, 2)[:, None]
        likeness = flat @ self.cells + self.outside
        return (likeness.amax(3).mean(2) + likeness.amax(2).mean(2)) / 2

    def forward(self, cells: Tensor) -> Tensor:
        """Of the matches of one image with every image of the cohort."""
        found = self.matches(cells)
        return torch.cat([found.mean(1, keepdim=True), found.std(1, correction=0, keepdim=True)], 1)


class LiteMatch(nn.Module):
    """Cells of one group's maps, each of unit length, and the image's matches with the cohort.

    A vector is the cells, channel by channel, then mean and deviation of the matches.

    Parameters
    ----------
    size
        Side of the input, pixels.
    group, kept, grid
        Which group's maps, how many whitened channels, and the side of the grid of cells.
    reach
        How many cells away a cell may find its match, along rows and along columns.
    cohort
        Number of images of the cohort.
    """

    def __init__(self, size: int, group: int, kept: int, grid: int, reach: int, cohort: int) -> None:
        super().__init__()
        self.backbone = Lite0()
        self.group = group
        self.cells = Cells(GROUPS[group][4], size // STRIDES[group], grid, kept)
        self.cohort = Cohort(cohort, kept, grid, reach)

    def forward(self, images: Tensor) -> Tensor:
        """Vectors for ``models.matching.match``."""
        after, _ = self.backbone(images)
        cells = self.cells(after[self.group])
        return torch.cat([cells.flatten(1), self.cohort(cells)], 1)


def outside(grid: int, reach: int) -> Tensor:
    """What to add to cosines of cells: nothing within reach, and beyond it what no match survives."""
    row, column = torch.arange(grid * grid) // grid, torch.arange(grid * grid) % grid
    apart = torch.maximum((row[:, None] - row).abs(), (column[:, None] - column).abs())
    return torch.where(apart > reach, OUTSIDE, 0.0)
