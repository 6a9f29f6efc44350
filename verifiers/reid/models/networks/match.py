"""Cells of an image for region matching, and the match of the image with a cohort."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from medsanitize.verifiers.reid.models.networks.lite import GROUPS, STRIDES, Lite0
from medsanitize.verifiers.reid.models.networks.moments import Cells
from torch import Tensor, nn

# Below any cosine, so that a cell out of reach is never the best match.
BEYOND_REACH = -2.0


class Cohort(nn.Module):
    """Mean and deviation of the matches with a cohort: ``(n, channels, grid, grid)`` to ``(n, 2)``."""

    cells: Tensor
    outside: Tensor

    def __init__(self, count: int, channels: int, grid: int, reach: int) -> None:
        super().__init__()
        self.register_buffer("cells", torch.randn(count, channels, grid * grid))
        self.register_buffer("outside", outside(grid, reach), persistent=False)

    def matches(self, cells: Tensor) -> Tensor:
        """Match with each image of the cohort, shape (n, count); see `Matching`."""
        flat = cells.flatten(2).transpose(1, 2)[:, None]
        likeness = flat @ self.cells + self.outside
        return (likeness.amax(3).mean(2) + likeness.amax(2).mean(2)) / 2

    def forward(self, cells: Tensor) -> Tensor:
        """Compute mean and standard deviation over the cohort."""
        found = self.matches(cells)
        return torch.cat([found.mean(1, keepdim=True), found.std(1, correction=0, keepdim=True)], 1)


class LiteMatch(nn.Module):
    """Cells of the feature maps of some groups, with the cohort statistics of the image.

    What the groups have at one place is one cell, of unit length, to which each group contributes equally. An
    embedding is the cells, channel by channel, followed by mean and deviation of the cohort matches.

    Parameters
    ----------
    size
        Input size, pixels.
    groups, kept, grid
        Groups of the feature maps, number of whitened channels of each, and size of the grid of cells.
    reach
        Largest offset of a matching cell, in cells along rows and along columns.
    cohort
        Number of images in the cohort.
    """

    def __init__(
        self, size: int, groups: Sequence[int], kept: Sequence[int], grid: int, reach: int, cohort: int
    ) -> None:
        super().__init__()
        self.backbone = Lite0()
        self.groups = tuple(groups)
        self.cells = nn.ModuleList(
            Cells(GROUPS[group][4], size // STRIDES[group], grid, channels)
            for group, channels in zip(groups, kept, strict=True)
        )
        self.cohort = Cohort(cohort, sum(kept), grid, reach)

    def forward(self, images: Tensor) -> Tensor:
        """Compute the embeddings for `Matching`."""
        after, _ = self.backbone(images)
        pools = cast("Iterable[Cells]", self.cells)
        cells = self.whitened([one.pool(after[group]) for one, group in zip(pools, self.groups, strict=True)])
        return torch.cat([cells.flatten(1), self.cohort(cells)], 1)

    def whitened(self, pooled: Sequence[Tensor]) -> Tensor:
        """Whiten and join the maps of the groups, already on the grid: ``(n, sum of kept, grid, grid)``."""
        parts = zip(cast("Iterable[Cells]", self.cells), pooled, strict=True)
        return torch.cat([one.whitened(maps) for one, maps in parts], 1) / math.sqrt(len(pooled))


def outside(grid: int, reach: int) -> Tensor:
    """Compute the penalty of pairs of cells: 0 within reach, else `BEYOND_REACH`; shape (grid^2, grid^2).

    Parameters
    ----------
    grid : int
        Cells per side.
    reach : int
        Largest offset of a match, in cells.
    """
    row, column = torch.arange(grid * grid) // grid, torch.arange(grid * grid) % grid
    apart = torch.maximum((row[:, None] - row).abs(), (column[:, None] - column).abs())
    return torch.where(apart > reach, BEYOND_REACH, 0.0)
