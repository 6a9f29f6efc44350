"""ImageNet features by ONNX Runtime, several times faster than torch on a CPU."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.networks.layers import GridPool
from medsanitize.verifiers.reid.models.networks.lite import GROUPS, STRIDES, Lite0
from medsanitize.verifiers.reid.models.networks.moments import Rescaling
from medsanitize.verifiers.reid.models.onnx_export import to_onnx
from medsanitize.verifiers.reid.models.onnx_session import BATCH, embed, open_session
from medsanitize.verifiers.reid.models.preprocess import ContrastMode, Preprocessing
from medsanitize.verifiers.reid.models.pretrained import default_config, imagenet_weights
from medsanitize.verifiers.reid.training.feature_cache import cached_features, name_of
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from numpy.typing import NDArray
from torch import Tensor, nn


class _Pooled(nn.Module):
    """Feature maps of some groups on a grid, concatenated."""

    def __init__(self, size: int, groups: Sequence[int], grid: int, rescaling: Rescaling | None) -> None:
        super().__init__()
        self.rescaling = rescaling or Rescaling(size, size)
        size = len(self.rescaling.matrix)
        self.backbone = Lite0()
        self.taken = tuple(groups)
        self.pools = nn.ModuleList(GridPool(size // STRIDES[group], grid) for group in groups)

    def forward(self, images: Tensor) -> Tensor:
        after, _ = self.backbone(self.rescaling(images))
        return torch.cat(
            [pool(after[group]).flatten(1) for group, pool in zip(self.taken, self.pools, strict=True)], 1
        )


def preprocessing_for(modality: Modality, size: int) -> Preprocessing:
    """Return the default preprocessing at this size; the contrast of radiographs is equalized."""
    look = ContrastMode.EVEN if modality.is_projection else ContrastMode.AS_IS
    return replace(default_config(modality).preprocessing, size=size, look=look)


def pooled_maps(
    examples: TrainingDataset,
    how: Preprocessing,
    groups: Sequence[int],
    grid: int,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
    rescaling: Rescaling | None = None,
) -> list[Tensor]:
    """Compute the feature maps of each group for all images, pooled to a grid.

    Parameters
    ----------
    examples : TrainingDataset
        The images.
    how : Preprocessing
        Their preprocessing.
    groups : sequence of int
        Groups whose feature maps are used.
    grid : int
        Size of the grid.
    unfinished : Path
        Folder of the cached features.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.
    rescaling : Rescaling, optional
        Further downscaling of the preprocessed images.

    Returns
    -------
    list of Tensor, shape (n, channels, grid, grid) each
        One entry per group.
    """
    network = _Pooled(how.size, groups, grid, rescaling).eval()
    network.backbone.load_state_dict(imagenet_weights())
    sizes = [GROUPS[group][4] * grid**2 for group in groups]
    rows = vectors_of(network, sum(sizes), examples, how, unfinished, progress, cancellation)
    parts = torch.from_numpy(rows).split(sizes, 1)  # type: ignore[no-untyped-call]
    return [part.reshape(len(examples), -1, grid, grid) for part in parts]


def vectors_of(
    network: nn.Module,
    length: int,
    examples: TrainingDataset,
    how: Preprocessing,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> NDArray[np.float32]:
    """Compute the output of a network for all images, shape (n, length), cached in ``unfinished``.

    Parameters
    ----------
    network : nn.Module
        Network in evaluation mode.
    length : int
        Length of its output.
    examples : TrainingDataset
        The images.
    how : Preprocessing
        Their preprocessing.
    unfinished : Path
        Folder of the cached features.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked before every batch.
    """
    graph = to_onnx(network, how.size)
    session = open_session(graph, os.cpu_count() or 1)
    progress.stage("features", len(examples))

    def rows(places: range) -> NDArray[np.float32]:
        return embed(session, [examples.picture(place) for place in places], how, length)

    file = unfinished / f"{name_of(examples, how, hashlib.sha256(graph).hexdigest())}.rows"
    return cached_features(file, (len(examples), length), BATCH, rows, progress, cancellation)
