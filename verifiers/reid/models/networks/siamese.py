"""The retrieval and the verification network of Packhäuser et al. 2022; both branches share the weights."""

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
    """Retrieval network (Packhäuser et al. 2022, Patient re-identification): embeddings of unit length.

    A ResNet, average and max pooling to a 5 x 5 grid, a 1 x 1 convolution to 100 maps and two fully connected
    layers to 128 numbers. The paper does not name what is between these layers; batch normalization, dropout
    of 0.5 and 0.25 and one ReLU follow the code of its authors.

    Parameters
    ----------
    size
        Input size, pixels; a multiple of 32.
    dimension
        Length of an embedding.
    grid
        Size of the grid.
    hidden
        Length of the first fully connected layer.
    depths, width
        See `ResNet`.
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
        # Shared by both poolings: the paper reduces 2048 maps, not 4096, to 100.
        self.maps = nn.Conv2d(self.backbone.channels, MAPS, 1, bias=False)
        length = 2 * MAPS * grid**2
        self.first = nn.Sequential(
            nn.BatchNorm1d(length), nn.Dropout(0.5), nn.Linear(length, hidden), nn.ReLU()
        )
        self.second = nn.Sequential(nn.BatchNorm1d(hidden), nn.Dropout(0.25), nn.Linear(hidden, dimension))

    def forward(self, images: Tensor) -> Tensor:
        """Compute embeddings of unit length."""
        maps = self.backbone(images)
        pooled = [self.maps(self.mean(maps)).flatten(1), self.maps(self.largest(maps)).flatten(1)]
        return F.normalize(self.second(self.first(torch.cat(pooled, 1))))


class SiameseVerification(nn.Module):
    """Verification network (Packhäuser et al. 2022, Fig. 8) without the merging layer.

    A ResNet, global average pooling and one fully connected layer to 128 numbers. The merging layer and the
    score of a pair are in `medsanitize.verifiers.reid.models.scoring`, so that every image is embedded once.

    Parameters
    ----------
    dimension
        Length of an embedding.
    depths, width
        See `ResNet`.
    """

    def __init__(self, dimension: int = 128, depths: Sequence[int] = DEPTHS, width: int = WIDTH) -> None:
        super().__init__()
        self.backbone = ResNet(depths, width)
        self.fc = nn.Linear(self.backbone.channels, dimension)

    def forward(self, images: Tensor) -> Tensor:
        """Compute embeddings, before the sigmoid."""
        vectors: Tensor = self.fc(self.backbone(images).mean((2, 3)))
        return vectors
