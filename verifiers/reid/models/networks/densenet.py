"""DenseNet-121 (Huang et al. 2017), with the weight names of torchvision and timm."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

DEPTHS = (6, 12, 24, 16)
GROWTH = 32
BOTTLENECK = 4


class DenseLayer(nn.Module):
    """Computes new feature maps from all previous ones by a 1x1 and a 3x3 convolution."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        inner = BOTTLENECK * growth
        self.norm1 = nn.BatchNorm2d(inputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(inner, growth, 3, padding=1, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """Compute ``growth`` new feature maps."""
        inner = self.conv1(self.relu1(self.norm1(maps)))
        made: Tensor = self.conv2(self.relu2(self.norm2(inner)))
        return made


class DenseBlock(nn.Module):
    """Layers that each read the feature maps of all previous ones."""

    def __init__(self, depth: int, inputs: int, growth: int) -> None:
        super().__init__()
        for layer in range(depth):
            # torchvision's names, so that its weights can be loaded.
            self.add_module(f"denselayer{layer + 1}", DenseLayer(inputs + layer * growth, growth))

    def forward(self, maps: Tensor) -> Tensor:
        """Append ``depth * growth`` feature maps."""
        for layer in self.children():
            maps = torch.cat([maps, layer(maps)], 1)
        return maps


class DenseNet(nn.Module):
    """DenseNet up to the feature maps before the last pooling, at 1/32 of the input size.

    Parameters
    ----------
    depths
        Layers of the four blocks; (6, 12, 24, 16) for DenseNet-121.
    growth
        Feature maps that a layer adds, 32 for DenseNet-121; the stem has twice as many.
    """

    def __init__(self, depths: Sequence[int] = DEPTHS, growth: int = GROWTH) -> None:
        super().__init__()
        maps = 2 * growth
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, maps, 7, 2, 3, bias=False))
        self.features.add_module("norm0", nn.BatchNorm2d(maps))
        self.features.add_module("relu0", nn.ReLU(inplace=True))
        self.features.add_module("pool0", nn.MaxPool2d(3, 2, 1))
        for number, depth in enumerate(depths, 1):
            self.features.add_module(f"denseblock{number}", DenseBlock(depth, maps, growth))
            maps += depth * growth
            if number < len(depths):
                self.features.add_module(f"transition{number}", _transition(maps))
                maps //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(maps))
        self.relu = nn.ReLU(inplace=True)
        self.channels = maps
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, images: Tensor) -> Tensor:
        """Map ``(n, 3, s, s)`` to ``(n, channels, s / 32, s / 32)``."""
        maps: Tensor = self.relu(self.features(images))
        return maps


class DenseFeatures(nn.Module):
    """Embedding before the classifier: the mean of each feature map, 1,024 numbers for DenseNet-121."""

    def __init__(self, depths: Sequence[int] = DEPTHS, growth: int = GROWTH) -> None:
        super().__init__()
        self.backbone = DenseNet(depths, growth)

    def forward(self, images: Tensor) -> Tensor:
        """Compute the embeddings."""
        vectors: Tensor = self.backbone(images).mean((2, 3))
        return vectors


def _transition(maps: int) -> nn.Sequential:
    """Halve the number of feature maps and their size."""
    made = nn.Sequential()
    made.add_module("norm", nn.BatchNorm2d(maps))
    made.add_module("relu", nn.ReLU(inplace=True))
    made.add_module("conv", nn.Conv2d(maps, maps // 2, 1, bias=False))
    made.add_module("pool", nn.AvgPool2d(2, 2))
    return made
