"""Recipe ``copies`` of a verification model, for a CPU: find copies of an image, however disguised.

Copies of the training images are made by the alterations of `medsanitize.verifiers.reid.alterations`. The
cells that they share with their originals must be near, those of other images far: of all linear maps of a
cell, the ratio of both deviations is largest for the discriminants of Fisher (1936), used for descriptors by
Mikolajczyk and Matas (2007). They follow from the images without steps or labels; only the scale of the score
needs images of different patients. Detectors of memorized images (Dar et al. 2024; LCMem 2025) and of copies
(Pizzi et al. 2022) train networks on augmentations for the same purpose.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from medsanitize.errors import UsageError
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.alterations.composites import others_of
from medsanitize.verifiers.reid.alterations.kinds import ALTERED, JOINED
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.copy_matching import SIMILARITIES, CopyMatching
from medsanitize.verifiers.reid.models.networks.copies import AVERAGED, PATCH, TAKEN, LiteCopies
from medsanitize.verifiers.reid.models.networks.lite import GROUPS
from medsanitize.verifiers.reid.models.onnx_export import to_onnx
from medsanitize.verifiers.reid.models.onnx_session import embed, open_session
from medsanitize.verifiers.reid.models.preprocess import Channels, ContrastMode, Fit, Preprocessing, prepare
from medsanitize.verifiers.reid.models.pretrained import default_config, imagenet_weights
from medsanitize.verifiers.reid.models.scoring import BIAS, WEIGHT, Scoring
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

# Variances within copies below these shares of the largest are noise, which must not be amplified.
CELL_FLOOR, FINE_FLOOR = 1e-3, 1e-2
# A copy whose cells lie elsewhere than the original's teaches nothing cell by cell.
# Fine cells follow neither a displacement nor a mirror.
ELSEWHERE = ("rotated", "cropped", "cropped off center", "zoomed out", "patch")
HALVES = ("left half", "right half", "upper half", "lower half")
NOT_FINE = (*ELSEWHERE, *HALVES, "mirrored", "moved", "inverted")
# Quantiles of the nearest stranger's similarity, which set zero and unit of the score.
MIDDLE_STRANGER, NEAR_STRANGER = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class CopyRecipe:
    """Hyperparameters of the recipe.

    Attributes
    ----------
    size, kept, fine, grid
        Arguments of the network; see `LiteCopies`.
    pixels
        Size at which images are altered: that of the generators whose images will be compared.
    most
        Largest number of images, one per patient.
    """

    name: str = "copies"
    size: int = 256
    kept: int = 64
    fine: int = 48
    grid: int = 16
    pixels: int = 128
    most: int = 150
    seed: int = 0


def train_copies(
    fit: TrainingDataset, recipe: CopyRecipe, progress: Progress, cancellation: Cancellation
) -> TrainedModel:
    """Learn the discriminants, and zero and unit of each similarity.

    The same images and recipe give the same weights. An interrupted training starts again.

    Parameters
    ----------
    fit : TrainingDataset
        Training split.
    recipe : CopyRecipe
        Hyperparameters.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.

    Raises
    ------
    UsageError
        If the images are slides.
    """
    if fit.modality is not Modality.RADIOGRAPH:
        raise UsageError("The recipe copies is for radiographs", "Use the recipe match for slides")
    draw = np.random.default_rng(recipe.seed)
    firsts = np.unique(fit.patients, return_index=True)[1]
    chosen = fit.part(np.sort(draw.permutation(firsts)[: recipe.most]))
    squares = _squares(chosen, recipe.pixels, progress, cancellation)
    how = replace(default_config(fit.modality).preprocessing, size=recipe.size, look=ContrastMode.LOCAL)
    facts: dict[str, Any] = {
        "size": recipe.size, "kept": recipe.kept, "fine": recipe.fine, "grid": recipe.grid,
    }  # fmt: skip
    network = LiteCopies(**facts).eval()
    network.backbone.load_state_dict(imagenet_weights())
    with torch.no_grad():
        loss = _learn(network, squares, chosen.patients, how, progress, cancellation)
    matching = CopyMatching(recipe.kept, recipe.fine, recipe.grid)
    vectors = embed(
        open_session(to_onnx(network, recipe.size), os.cpu_count() or 1),
        _pictures(squares), how, matching.dimension,
    )  # fmt: skip
    score = _scale(vectors, matching, progress, cancellation)
    return TrainedModel(
        network={"name": "lite0-copies", **facts},
        weights=network.state_dict(),
        dimension=matching.dimension,
        preprocessing=how,
        scoring=Scoring.COPY,
        score=score,
        log=({"epoch": 1, "loss": loss},),
    )


def _squares(
    chosen: TrainingDataset, pixels: int, progress: Progress, cancellation: Cancellation
) -> NDArray[np.uint8]:
    """The middle of every image as 8-bit gray, ``(n, pixels, pixels)``, as generators see it."""
    how = Preprocessing(pixels, Fit.CROP, Channels.GRAY, (0.0,) * 3, (1.0,) * 3)
    progress.stage("scale images", len(chosen))
    squares = np.empty((len(chosen), pixels, pixels), np.uint8)
    for place in range(len(chosen)):
        cancellation.check()
        plane = prepare(chosen.picture(place), how)[0]
        squares[place] = np.rint(np.clip(plane, 0, 1) * 255)
        progress.advance(1)
    return squares


def _pictures(squares: NDArray[np.uint8]) -> list[ImageArray]:
    return [ImageArray(one / np.float32(255), Modality.RADIOGRAPH) for one in squares]


class _Pooled(nn.Module):
    """Feature maps on the grid, flattened."""

    def __init__(self, network: LiteCopies) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.pooled(images).flatten(1)


def _learn(
    network: LiteCopies,
    squares: NDArray[np.uint8],
    patients: NDArray[np.int64],
    how: Preprocessing,
    progress: Progress,
    cancellation: Cancellation,
) -> float:
    """Learn mean and discriminants of both kinds of cells; returns the variance within copies."""
    session = open_session(to_onnx(_Pooled(network), how.size), os.cpu_count() or 1)
    channels, grid = sum(GROUPS[group][4] for group in TAKEN), network.cells.mean.shape[-1]

    def seen(images: NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
        pictures = _pictures(images)
        rows = embed(session, pictures, how, channels * grid**2)
        planes = np.stack([prepare(picture, how)[:1] for picture in pictures])
        return torch.from_numpy(rows).reshape(len(rows), channels, grid, grid), _patches(network, planes)

    cells, fine = seen(squares)
    within, within_fine = _Scatter(channels), _Scatter(PATCH**2)
    others = squares[others_of(patients)]
    made = {name: partial(alter, squares) for name, alter in ALTERED.items()}
    made |= {name: partial(join, squares, others) for name, join in JOINED.items()}
    taught = [name for name in made if name not in ELSEWHERE]
    progress.stage("compare copies", len(taught))
    for name in taught:
        cancellation.check()
        copied, copied_fine = seen(made[name]())
        # A mirrored image has the cells of the original at the mirrored places.
        copied = copied.flip(3) if name == "mirrored" else copied
        part = _inside(name, grid)
        within.add((copied - cells)[part])
        if name not in NOT_FINE:
            within_fine.add(copied_fine - fine)
        progress.advance(1)
    # Symmetric, so that a mirrored image is compared with the mirrored mean.
    network.cells.mean.copy_((cells.mean(0) + cells.mean(0).flip(2)) / 2)
    total, kept = _covariance(cells - network.cells.mean), network.cells.whiten.out_channels
    weight = discriminants(within.covariance, total, kept, CELL_FLOOR)
    network.cells.whiten.weight.copy_(weight[:, :, None, None])
    total, kept = _covariance(fine - fine.mean(0)), network.fine.project.out_channels
    weight = discriminants(within_fine.covariance, total, kept, FINE_FLOOR)
    # Every channel shows the same gray image.
    kernel = weight.reshape(-1, 1, PATCH, PATCH).repeat(1, 3, 1, 1) / 3
    network.fine.project.weight.copy_(kernel)
    network.fine.mean.copy_(torch.einsum("dyx,kd->kyx", fine.mean(0), weight))
    directions = network.cells.whiten.weight[:, :, 0, 0].double()
    return float((directions @ within.covariance @ directions.T).diagonal().mean())


class _Scatter:
    """Mean of the covariances of several sets of differences."""

    def __init__(self, length: int) -> None:
        self._total, self._sets = torch.zeros(length, length, dtype=torch.float64), 0

    def add(self, differences: Tensor) -> None:
        self._total += _covariance(differences)
        self._sets += 1

    @property
    def covariance(self) -> Tensor:
        return self._total / self._sets


def _covariance(maps: Tensor) -> Tensor:
    rows = maps.transpose(0, 1).flatten(1).double()
    return rows @ rows.T / rows.shape[1]


def discriminants(within: Tensor, total: Tensor, kept: int, floor: float) -> Tensor:
    """Find the directions that differ most between images relative to copies of one, shape (kept, length).

    Along each, all images together have unit variance.

    Parameters
    ----------
    within, total
        Covariance of the differences between copies and originals, and of the originals.
    kept
        Number of directions.
    floor
        Smallest variance within copies as a share of the largest.
    """
    values, directions = torch.linalg.eigh(within)
    white = directions * values.clamp(min=float(values[-1]) * floor + 1e-12).rsqrt()
    ratios, turned = torch.linalg.eigh(white.T @ total @ white)
    scaled: Tensor = (white @ turned)[:, -kept:] * ratios[-kept:].clamp(min=1e-12).rsqrt()
    return scaled.T.float()


def _patches(network: LiteCopies, planes: NDArray[np.float32]) -> Tensor:
    """The patches that fine cells are made of: (n, 1, size, size) to (n, PATCH^2, grid, grid)."""
    small = F.avg_pool2d(torch.from_numpy(planes), AVERAGED)
    stride = PATCH // 3
    grid = network.fine.mean.shape[-1]
    columns: Tensor = F.unfold(small, PATCH, padding=stride, stride=stride)
    return columns.reshape(len(planes), -1, grid, grid)


def _inside(name: str, grid: int) -> tuple[slice, ...]:
    """Cells that show the original only, a cell away from the seam."""
    half, rest = slice(0, grid // 2 - 1), slice(grid // 2 + 1, None)
    everything = slice(None)
    places = {
        "left half": (everything, half),
        "right half": (everything, rest),
        "upper half": (half, everything),
        "lower half": (rest, everything),
    }
    return (everything, everything, *places.get(name, (everything, everything)))


def _scale(
    vectors: NDArray[np.float32], matching: CopyMatching, progress: Progress, cancellation: Cancellation
) -> dict[str, Tensor]:
    """Zero and unit of each similarity, from the nearest stranger of every image."""
    progress.stage("compare strangers", len(vectors))
    nearest = np.full((len(vectors), SIMILARITIES), -1, np.float32)
    for place, others in _strangers(len(vectors)):
        cancellation.check()
        alone = np.broadcast_to(vectors[place], (len(others), vectors.shape[1]))
        nearest[place] = matching.similarities(alone, vectors[others]).max(0)
        progress.advance(1)
    middle, near = np.quantile(nearest, (MIDDLE_STRANGER, NEAR_STRANGER), axis=0)
    unit = 1 / np.maximum(near - middle, 1e-6)
    return {
        WEIGHT: torch.from_numpy(unit.astype(np.float32)),
        BIAS: torch.from_numpy((-near * unit).astype(np.float32)),
    }


def _strangers(count: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Every image with all others; each is of another patient."""
    for place in range(count):
        yield place, np.delete(np.arange(count, dtype=np.int64), place)
