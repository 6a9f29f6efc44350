"""ResNet-50 (He et al. 2016), with the weight names of torchvision and timm."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

DEPTHS = (3, 4, 6, 3)
WIDTH = 64
EXPANSION = 4


class Bottleneck(nn.Module):
    """Bottleneck block: 1x1, 3x3 with the stride, 1x1; plus the input, projected where shapes differ."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        # The stride is in the 3x3 convolution, as in torchvision's weights.
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, maps: Tensor) -> Tensor:
        """Compute the feature maps of the next block."""
        inner = self.relu(self.bn1(self.conv1(maps)))
        inner = self.relu(self.bn2(self.conv2(inner)))
        summed: Tensor = self.relu(self.bn3(self.conv3(inner)) + self.downsample(maps))
        return summed


class ResNet(nn.Module):
    """ResNet up to the ``32 * width`` feature maps before the last pooling, at 1/32 of the input size.

    Parameters
    ----------
    depths
        Blocks of the four stages; (3, 4, 6, 3) for ResNet-50.
    width
        Feature maps of the stem; 64 for ResNet-50.
    """

    def __init__(self, depths: Sequence[int] = DEPTHS, width: int = WIDTH) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs, stages = width, []
        for stage, depth in enumerate(depths):
            inner = width * 2**stage
            strides = [1 if stage == 0 else 2] + [1] * (depth - 1)
            blocks = []
            for stride in strides:
                blocks.append(Bottleneck(inputs, inner, stride))
                inputs = inner * EXPANSION
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.channels = inputs
        _start(self)

    def forward(self, images: Tensor) -> Tensor:
        """Map ``(n, 3, s, s)`` to ``(n, channels, s / 32, s / 32)``."""
        maps: Tensor = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            maps = layer(maps)
        return maps


@torch.no_grad()
def _start(network: nn.Module) -> None:
    """Initialize with random weights (He et al. 2015)."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
