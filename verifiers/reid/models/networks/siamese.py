"""The two networks of Packhäuser et al. 2022; both branches of a pair share one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from medsanitize.verifiers.reid.models.networks.layers import GridPool
from medsanitize.verifiers.reid.models.networks.resnet import DEPTHS, WIDTH, ResNet
from torch import Tensor, nn
from torch.nn import functional as F

MAPS = 100
HIDDEN = 2048


class SiameseRetrieval(nn.Module):
    """ResNet, mean and largest values on a 5 x 5 grid, 100 maps, two layers to 128 numbers of unit length.

    The paper leaves what lies between the layers open: here batch normalisation, dropout of 0.5 and 0.25,
    and one ReLU, as in the code its authors published.

    Parameters
    ----------
    size
        Side of the input, pixels; a multiple of 32.
    dimension
        Length of a vector.
    grid
        Side of the grid.
    hidden
        Length of the first of the two layers.
    depths, width
        Of the ResNet.
    """

    def __init__(
        self,
        size: int,
        dimension: int = 128,
        grid: int = 5,
        hidden: int = HIDDEN,
        depths: Sequence[int] = DEPTHS,
        width: int = WIDTH,
    ) -> None:
        super().__init__()
        self.backbone = ResNet(depths, width)
        self.mean = GridPool(size // 32, grid)
        self.largest = GridPool(size // 32, grid, largest=True)
        self.maps = nn.Conv2d(self.backbone.channels, MAPS, 1, bias=False)
        length = 2 * MAPS * grid**2
        self.first = nn.Sequential(
            nn.BatchNorm1d(length), nn.Dropout(0.5), nn.Linear(length, hidden), nn.ReLU()
        )
        self.second = nn.Sequential(nn.BatchNorm1d(hidden), nn.Dropout(0.25), nn.Linear(hidden, dimension))

    def forward(self, images: Tensor) -> Tensor:
        """Vectors of unit length."""
        maps = self.backbone(images)
        pooled = [self.maps(self.mean(maps)).flatten(1), self.maps(self.largest(maps)).flatten(1)]
        return F.normalize(self.second(self.first(torch.cat(pooled, 1))))


class SiameseVerification(nn.Module):
    """ResNet, the mean of each map, one layer to 128 numbers; what scores a pair of them is no part of it.

    Parameters
    ----------
    dimension
        Length of a vector.
    depths, width
        Of the ResNet.
    """

    def __init__(self, dimension: int = 128, depths: Sequence[int] = DEPTHS, width: int = WIDTH) -> None:
        super().__init__()
        self.backbone = ResNet(depths, width)
        self.fc = nn.Linear(self.backbone.channels, dimension)

    def forward(self, images: Tensor) -> Tensor:
        """Vectors, before the sigmoid."""
        vectors: Tensor = self.fc(self.backbone(images).mean((2, 3)))
        return vectors
