"""Recipe ``moments`` of a retrieval model, for a CPU: second-order pooling of ImageNet features.

To a network that was trained on other images, all chest radiographs look alike. This recipe learns what they
have in common, to remove it: the mean chest at every location, the directions in which features vary in any
image, and those of their products. It uses no patient IDs: images of patients with one image count in full,
and no patient can be memorized.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.models.networks.layers import GridPool
from medsanitize.verifiers.reid.models.networks.moments import (
    COARSE,
    Branch,
    Cells,
    Coarse,
    LiteMoments,
    Rescaling,
    Scale,
)
from medsanitize.verifiers.reid.models.preprocess import Preprocessing
from medsanitize.verifiers.reid.models.pretrained import imagenet_weights
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel
from medsanitize.verifiers.reid.training.precomputed_features import (
    pooled_maps,
    preprocessing_for,
    vectors_of,
)
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from medsanitize.verifiers.reid.training.validation import mean_average_precision
from torch import Tensor
from torch.nn import functional as F

# Variances below these shares of the largest are noise, which whitening must not amplify.
CHANNEL_FLOOR, PRODUCT_FLOOR = 1e-4, 1e-4
# Smoothing of the mean chest in cells: a few hundred images do not determine a finer one.
SMOOTH = 1.0


@dataclass(frozen=True, slots=True)
class MomentsRecipe:
    """Hyperparameters of the recipe.

    Attributes
    ----------
    sizes, groups, kept, regions, products, scrambled, coarse
        Arguments of the network; see `LiteMoments`.
    whitening
        Power of the deviation by which coordinates on the coarse grid are divided.
    most
        Largest number of images for the statistics.
    """

    name: str = "moments"
    sizes: tuple[int, ...] = (512, 384)
    groups: tuple[int, ...] = (2, 4, 6)
    kept: tuple[int, ...] = (40, 64, 64)
    regions: int = 6
    products: int = 768
    scrambled: int = 4096
    coarse: int = 256
    whitening: float = 0.75
    most: int = 2000
    seed: int = 0


def train_moments(
    fit: TrainingDataset,
    validation: TrainingDataset,
    recipe: MomentsRecipe,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> TrainedModel:
    """Learn the statistics of the images, without their patients.

    The same images and recipe give the same weights; an interrupted training continues with the cached
    features.

    Parameters
    ----------
    fit, validation : TrainingDataset
        Training and validation split; the latter is only used for the measure in the log.
    recipe : MomentsRecipe
        Hyperparameters.
    unfinished : Path
        Folder of the cached features.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.
    """
    how = preprocessing_for(fit.modality, recipe.sizes[0])
    network, dimension = network_of(recipe), dimension_of(recipe)
    draw = np.random.default_rng(recipe.seed)
    chosen = fit.part(np.sort(draw.permutation(len(fit))[: recipe.most]))
    with torch.no_grad():
        for scale, rescaling in zip(network.scales, network.rescalings, strict=True):
            _learn_scale(scale, rescaling, chosen, how, recipe, unfinished, progress, cancellation)
    seen = vectors_of(network, dimension, validation, how, unfinished, progress, cancellation)
    found = mean_average_precision(seen, validation.patients)
    return TrainedModel(
        network=facts_of(recipe),
        weights=network.state_dict(),
        dimension=dimension,
        preprocessing=how,
        log=({"epoch": 1, "loss": 1 - found, "map_at_r": found},),
    )


def facts_of(recipe: MomentsRecipe) -> dict[str, Any]:
    """Return the network of a recipe, as a configuration names it."""
    return {
        "name": "lite0-moments", "sizes": list(recipe.sizes), "groups": list(recipe.groups),
        "kept": list(recipe.kept), "regions": recipe.regions,
        "products": recipe.products, "scrambled": recipe.scrambled, "coarse": recipe.coarse,
    }  # fmt: skip


def dimension_of(recipe: MomentsRecipe) -> int:
    """Return the length of an embedding."""
    return len(recipe.sizes) * (recipe.scrambled + len(recipe.groups) * recipe.coarse)


def network_of(recipe: MomentsRecipe) -> LiteMoments:
    """Build the network of a recipe with its packaged weights, before anything is learned."""
    arguments = {name: value for name, value in facts_of(recipe).items() if name != "name"}
    network = LiteMoments(**arguments).eval()
    network.backbone.load_state_dict(imagenet_weights())
    return network


def _learn_scale(
    scale: Scale,
    rescaling: Rescaling,
    examples: TrainingDataset,
    how: Preprocessing,
    recipe: MomentsRecipe,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> None:
    grid = scale.branches[0].cells.mean.shape[-1]
    pooled = pooled_maps(examples, how, recipe.groups, grid, unfinished, progress, cancellation, rescaling)
    progress.stage("statistics", len(pooled))
    for branch, coarse, maps in zip(scale.branches, scale.coarse, pooled, strict=True):
        cancellation.check()
        learn_cells(branch.cells, maps)
        learn_products(branch, maps)
        learn_coarse(coarse, maps, recipe.whitening)
        progress.advance(1)


def learn_cells(cells: Cells, pooled: Tensor) -> None:
    """Learn mean and channel whitening from pooled feature maps, shape (n, channels, grid, grid)."""
    mean = smoothed(pooled.mean(0))
    rows = (pooled - mean).permute(0, 2, 3, 1).flatten(0, 2).double()
    set_cells(cells, mean, rows.T @ rows / len(rows))


def set_cells(cells: Cells, mean: Tensor, covariance: Tensor) -> None:
    """Set the mean, and the channel whitening that belongs to a covariance (float64)."""
    values, directions = torch.linalg.eigh(covariance)
    kept = len(cells.whiten.weight)
    scale = values.clamp(min=float(values[-1]) * CHANNEL_FLOOR + 1e-12).rsqrt()
    cells.mean.copy_(mean)
    cells.whiten.weight.copy_((directions * scale)[:, -kept:].T[:, :, None, None].float())


def learn_products(branch: Branch, pooled: Tensor) -> None:
    """Learn the mean of each region's products, and one whitening for all regions."""
    found = torch.stack([products_of(branch, maps) for maps in pooled])
    mean = found.mean(0)
    covariance = torch.zeros(found.shape[-1], found.shape[-1])
    for part in torch.split((found - mean).flatten(0, 1), 4096):
        covariance += part.T @ part
    set_products(branch, mean, covariance.double() / (len(found) * len(branch.mean)))


def set_products(branch: Branch, mean: Tensor, covariance: Tensor) -> None:
    """Set the mean of each region's products (float32), and the whitening of a covariance (float64)."""
    channels = len(branch.cells.whiten.weight)
    one, other = torch.triu_indices(channels, channels)
    values, directions = torch.linalg.eigh(covariance)
    kept = min(branch.whiten.out_features, len(values))
    scale = values.clamp(min=float(values[-1]) * PRODUCT_FLOOR + 1e-12).rsqrt()
    half = (directions * scale)[:, -kept:].T.float() * _twice(one, other) / 2
    weight = torch.zeros(kept, channels, channels)
    weight[:, one, other] += half
    weight[:, other, one] += half
    # With fewer directions than outputs, the last ones stay zero.
    branch.whiten.weight.zero_()
    branch.mean.zero_()
    branch.whiten.weight[:kept].copy_(weight.flatten(1))
    branch.mean[:, :kept].copy_(mean @ (directions * scale)[:, -kept:].float())


def learn_coarse(coarse: Coarse, pooled: Tensor, whitening: float) -> None:
    """Learn the principal directions of the coarse grid, divided by a power of their deviations.

    With fewer images than directions, the last ones stay zero.
    """
    rows = GridPool(pooled.shape[-1], COARSE)(pooled).flatten(1).double()
    mean = rows.mean(0)
    _, deviations, directions = torch.linalg.svd(rows - mean, full_matrices=False)
    set_coarse(coarse, mean, deviations, directions, whitening)


def set_coarse(
    coarse: Coarse, mean: Tensor, deviations: Tensor, directions: Tensor, whitening: float
) -> None:
    """Set the principal directions (rows), in descending order of their deviations."""
    kept = min(coarse.project.out_features, int((deviations > 1e-6 * deviations[0]).sum()))
    weight = directions[:kept] / (deviations[:kept, None] / deviations[0]) ** whitening
    coarse.project.weight.zero_()
    coarse.project.bias.zero_()
    coarse.project.weight[:kept].copy_(weight.float())
    coarse.project.bias[:kept].copy_(-(weight @ mean).float())


def products_of(branch: Branch, maps: Tensor) -> Tensor:
    """Compute the products of channels in each region of an image, shape (regions, products).

    The moments contain every product of two different channels twice, hence their weight.
    """
    cells = branch.cells.whitened(maps[None])
    channels = cells.shape[1]
    one, other = torch.triu_indices(channels, channels)
    moments: Tensor = branch.moments(cells)[0]
    return moments.reshape(-1, channels, channels)[:, one, other] * _twice(one, other)


def _twice(one: Tensor, other: Tensor) -> Tensor:
    return torch.where(one == other, 1.0, 2**0.5)


def smoothed(maps: Tensor) -> Tensor:
    """Smooth rows and columns by a Gaussian, repeating the edge."""
    reach = 3
    line = torch.exp(-(torch.arange(-reach, reach + 1.0) ** 2) / (2 * SMOOTH**2))
    line = (line / line.sum())[None, None]
    for _ in range(2):
        flat = F.pad(maps.flatten(0, 1)[:, None], (reach, reach), mode="replicate")
        maps = F.conv1d(flat, line)[:, 0].reshape(maps.shape).transpose(1, 2)
    return maps
