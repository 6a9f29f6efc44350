"""Recipe ``copies`` of a verification model, for a CPU: find copies of an image, however disguised.

Copies of the training images are made by the alterations of `medsanitize.verifiers.reid.alterations`. The
cells that they share with their originals must be near, those of other images far: of all linear maps of a
cell, the ratio of both deviations is largest for the discriminants of Fisher (1936), used for descriptors by
Mikolajczyk and Matas (2007). They follow from the images without steps or labels.

Only the scale of the score needs images of different patients, and these must be patients of whom nothing was
learned: cells that learned from two thirds of the patients compare those of the last third. Patients of whom
they learned look less alike than others, the more so the fewer there are, and the three similarities would be
worth different amounts. Only as the other half of a composite may the last third be among what they learned.

Detectors of memorized images (Dar et al. 2024; LCMem 2025) and of copies (Pizzi et al. 2022) train networks
on augmentations for the same purpose.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch
from medsanitize.errors import UsageError
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.alterations.composites import others_of
from medsanitize.verifiers.reid.alterations.kinds import ALTERED, JOINED
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.copy_matching import CopyMatching
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
# Folds of the patients. Every two in turn tell how alike strangers are, and the others learn, so that every
# two patients are compared.
FOLDS = 6
# Share of the strangers' pairs whose excess makes a tail, and the least number of them.
TAIL, FEWEST_IN_TAIL = 0.02, 10
# Share of the pairs of strangers that reach a score of zero; one unit above it, they are e times rarer.
RARE = 1e-4


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
        If the images are slides, or there are fewer than `FOLDS` patients.
    """
    if fit.modality is not Modality.RADIOGRAPH:
        raise UsageError("The recipe copies is for radiographs", "Use the recipe match for slides")
    draw = np.random.default_rng(recipe.seed)
    firsts = np.unique(fit.patients, return_index=True)[1]
    if len(firsts) < FOLDS:
        raise UsageError(
            f"The recipe copies learns from {len(firsts)} patients, but {FOLDS} are needed", "Add patients"
        )
    chosen = fit.part(np.sort(draw.permutation(firsts)[: recipe.most]))
    squares = _squares(chosen, recipe.pixels, progress, cancellation)
    how = replace(default_config(fit.modality).preprocessing, size=recipe.size, look=ContrastMode.LOCAL)
    facts: dict[str, Any] = {
        "size": recipe.size, "kept": recipe.kept, "fine": recipe.fine, "grid": recipe.grid,
    }  # fmt: skip
    network = LiteCopies(**facts).eval()
    network.backbone.load_state_dict(imagenet_weights())
    with torch.no_grad():
        seen, scatters = _see(network, squares, chosen.patients, how, progress, cancellation)
        learned = _learn(seen, scatters, recipe, tuple(range(FOLDS)))
        _adopt(network, learned)
        score = _scale(seen, scatters, recipe, progress, cancellation)
    matching = CopyMatching(recipe.kept, recipe.fine, recipe.grid)
    return TrainedModel(
        network={"name": "lite0-copies", **facts},
        weights=network.state_dict(),
        dimension=matching.dimension,
        preprocessing=how,
        scoring=Scoring.COPY,
        score=score,
        log=({"epoch": 1, "loss": learned.variance},),
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
    """Feature maps on the grid, flattened; of the enlarged middle if asked for."""

    def __init__(self, network: LiteCopies, *, enlarged: bool) -> None:
        super().__init__()
        self.network, self.enlarged = network, enlarged

    def forward(self, images: Tensor) -> Tensor:
        return self.network.pooled(self.network.enlarge(images) if self.enlarged else images).flatten(1)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What cells are made of: feature maps of the images and of their middles, and patches of pixels."""

    plain: Tensor
    enlarged: Tensor
    patches: Tensor

    def part(self, rows: NDArray[np.bool_]) -> _Seen:
        kept = torch.from_numpy(rows)
        return _Seen(self.plain[kept], self.enlarged[kept], self.patches[kept])


@dataclass(frozen=True, slots=True)
class _Learned:
    """Means at each location and directions of both kinds of cells; the mean variance within copies."""

    mean: Tensor
    directions: Tensor
    fine_mean: Tensor
    fine_directions: Tensor
    variance: float

    def vectors(self, seen: _Seen) -> NDArray[np.float32]:
        """Embeddings as those of the network."""
        cells = [
            torch.einsum("ndyx,kd->nkyx", maps - self.mean, self.directions)
            for maps in (seen.plain, seen.enlarged)
        ]
        fine = torch.einsum("ndyx,kd->nkyx", seen.patches, self.fine_directions) - self.fine_mean
        return torch.cat([F.normalize(one, dim=1).flatten(1) for one in (*cells, fine)], 1).numpy()


def _see(
    network: LiteCopies,
    squares: NDArray[np.uint8],
    patients: NDArray[np.int64],
    how: Preprocessing,
    progress: Progress,
    cancellation: Cancellation,
) -> tuple[_Seen, tuple[_Scatter, _Scatter]]:
    """Compute what cells of the images are made of, and how that differs between copies, by fold."""
    threads = os.cpu_count() or 1
    sessions = {
        enlarged: open_session(to_onnx(_Pooled(network, enlarged=enlarged), how.size), threads)
        for enlarged in (False, True)
    }
    channels, grid = sum(GROUPS[group][4] for group in TAKEN), network.cells.mean.shape[-1]

    def maps(images: NDArray[np.uint8], *, enlarged: bool = False) -> Tensor:
        rows = embed(sessions[enlarged], _pictures(images), how, channels * grid**2)
        return torch.from_numpy(rows).reshape(len(rows), channels, grid, grid)

    def patches(images: NDArray[np.uint8]) -> Tensor:
        return _patches(network, np.stack([prepare(picture, how)[:1] for picture in _pictures(images)]))

    seen = _Seen(maps(squares), maps(squares, enlarged=True), patches(squares))
    within, within_fine = _Scatter(channels), _Scatter(PATCH**2)
    others = squares[others_of(patients)]
    made = {name: partial(alter, squares) for name, alter in ALTERED.items()}
    made |= {name: partial(join, squares, others) for name, join in JOINED.items()}
    taught = [name for name in made if name not in ELSEWHERE]
    progress.stage("compare copies", len(taught))
    for name in taught:
        cancellation.check()
        images = made[name]()
        # A mirrored image has the cells of the original at the mirrored places.
        copied = maps(images).flip(3) if name == "mirrored" else maps(images)
        part = _inside(name, grid)
        within.add((copied - seen.plain)[part])
        if name not in NOT_FINE:
            within_fine.add(patches(images) - seen.patches)
        progress.advance(1)
    return seen, (within, within_fine)


def folds_of(count: int) -> NDArray[np.int64]:
    """Fold of each image; every image is of another patient."""
    return np.arange(count, dtype=np.int64) % FOLDS


def _learn(
    seen: _Seen, scatters: tuple[_Scatter, _Scatter], recipe: CopyRecipe, folds: tuple[int, ...]
) -> _Learned:
    """Learn mean and discriminants of both kinds of cells from some folds."""
    part = seen.part(np.isin(folds_of(len(seen.plain)), folds))
    within, within_fine = (one.covariance(folds) for one in scatters)
    cells, fine = part.plain, part.patches
    # Symmetric, so that a mirrored image is compared with the mirrored mean.
    mean = (cells.mean(0) + cells.mean(0).flip(2)) / 2
    directions = discriminants(within, _covariance(cells - mean), recipe.kept, CELL_FLOOR)
    of_fine = discriminants(within_fine, _covariance(fine - fine.mean(0)), recipe.fine, FINE_FLOOR)
    fine_mean = torch.einsum("dyx,kd->kyx", fine.mean(0), of_fine)
    exact = directions.double()
    variance = float((exact @ within @ exact.T).diagonal().mean())
    return _Learned(mean, directions, fine_mean, of_fine, variance)


def _adopt(network: LiteCopies, learned: _Learned) -> None:
    network.cells.mean.copy_(learned.mean)
    network.cells.whiten.weight.copy_(learned.directions[:, :, None, None])
    # Every channel shows the same gray image.
    kernel = learned.fine_directions.reshape(-1, 1, PATCH, PATCH).repeat(1, 3, 1, 1) / 3
    network.fine.project.weight.copy_(kernel)
    network.fine.mean.copy_(learned.fine_mean)


class _Scatter:
    """Mean of the covariances of several sets of differences, of each fold of the images."""

    def __init__(self, length: int) -> None:
        self._totals = torch.zeros(FOLDS, length, length, dtype=torch.float64)
        self._images, self._sets = np.zeros(FOLDS, np.int64), 0

    def add(self, differences: Tensor) -> None:
        folds = folds_of(len(differences))
        for fold in np.unique(folds).tolist():
            self._totals[fold] += _covariance(differences[torch.from_numpy(folds == fold)])
        self._images, self._sets = np.bincount(folds, minlength=FOLDS), self._sets + 1

    def covariance(self, folds: tuple[int, ...]) -> Tensor:
        """Covariance within copies of the images of some folds."""
        shares = torch.from_numpy(self._images[list(folds)] / self._images[list(folds)].sum())
        return torch.einsum("f,fij->ij", shares, self._totals[list(folds)]) / self._sets


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
    seen: _Seen,
    scatters: tuple[_Scatter, _Scatter],
    recipe: CopyRecipe,
    progress: Progress,
    cancellation: Cancellation,
) -> dict[str, Tensor]:
    """Zero and unit of each similarity, from strangers of whose images the compared cells did not learn."""
    matching = CopyMatching(recipe.kept, recipe.fine, recipe.grid)
    folds = folds_of(len(seen.plain))
    progress.stage("compare strangers", math.comb(FOLDS, 2))
    found = []
    for left_out in combinations(range(FOLDS), 2):
        cancellation.check()
        learned = _learn(seen, scatters, recipe, tuple(sorted(set(range(FOLDS)) - set(left_out))))
        vectors = learned.vectors(seen.part(np.isin(folds, left_out)))
        for place, others in _strangers(len(vectors)):
            alone = np.broadcast_to(vectors[place], (len(others), vectors.shape[1]))
            found.append(matching.similarities(alone, vectors[others]))
        progress.advance(1)
    zero, unit = rare_strangers(np.concatenate(found))
    return {
        WEIGHT: torch.from_numpy((1 / unit).astype(np.float32)),
        BIAS: torch.from_numpy((-zero / unit).astype(np.float32)),
    }


def rare_strangers(similarities: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Similarity that a share `RARE` of strangers reaches, and the excess that makes it e times rarer.

    Parameters
    ----------
    similarities : array, shape (pairs, k)
        Similarities of pairs of strangers; the tail of each is taken as exponential.

    Returns
    -------
    (array, array), shape (k,) each
        Zero and unit of each similarity.
    """
    count = min(max(FEWEST_IN_TAIL, int(TAIL * len(similarities))), len(similarities) - 1)
    tail = np.sort(similarities.astype(np.float64), axis=0)[::-1][: count + 1]
    unit = np.maximum((tail[:count] - tail[count]).mean(0), 1e-6)
    return tail[count] + max(np.log(count / len(similarities) / RARE), 0.0) * unit, unit


def _strangers(count: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Every image with all others; each is of another patient."""
    for place in range(count):
        yield place, np.delete(np.arange(count, dtype=np.int64), place)
