"""Recipe ``match`` of a verification model, for a CPU: region matching, with a fitted score.

As in recipe ``moments`` (`second_order_pooling`), what all chests have in common is learned and removed. A
cohort of training images measures how well an image matches other people. Only the score uses the patients.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.models.networks.match import LiteMatch
from medsanitize.verifiers.reid.models.networks.moments import Cells
from medsanitize.verifiers.reid.models.pretrained import imagenet_weights
from medsanitize.verifiers.reid.models.region_matching import Matching
from medsanitize.verifiers.reid.models.scoring import Scoring
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel, fit_line
from medsanitize.verifiers.reid.training.precomputed_features import pooled_maps, preprocessing_for
from medsanitize.verifiers.reid.training.second_order_pooling import learn_cells
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from numpy.typing import NDArray
from torch import Tensor

# Largest number of impostor pairs for the fit of the score; genuine pairs are few, and all are used.
IMPOSTORS = 20_000


@dataclass(frozen=True, slots=True)
class MatchRecipe:
    """Hyperparameters of the recipe.

    Attributes
    ----------
    size, groups, kept, grid, reach
        Arguments of the network; see `LiteMatch`.
    cohort
        Largest number of images of the cohort, one per patient.
    most
        Largest number of training images.
    """

    name: str = "match"
    size: int = 512
    groups: tuple[int, ...] = (4, 5)
    # All channels of each group: the weak ones tell patients apart, too.
    kept: tuple[int, ...] = (112, 192)
    grid: int = 14
    reach: int = 4
    cohort: int = 128
    most: int = 2000
    seed: int = 0


def train_match(
    fit: TrainingDataset,
    recipe: MatchRecipe,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> TrainedModel:
    """Learn statistics and cohort, and fit the score of a match.

    The same images and recipe give the same weights; an interrupted training continues with the cached
    features.

    Parameters
    ----------
    fit : TrainingDataset
        Training split.
    recipe : MatchRecipe
        Hyperparameters.
    unfinished : Path
        Folder of the cached features.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.
    """
    draw = np.random.default_rng(recipe.seed)
    chosen = fit.part(np.sort(draw.permutation(len(fit))[: recipe.most]))
    cohort = _one_a_patient(chosen.patients, recipe.cohort, draw)
    how = preprocessing_for(fit.modality, recipe.size)
    facts: dict[str, Any] = {
        "size": recipe.size, "groups": list(recipe.groups), "kept": list(recipe.kept),
        "grid": recipe.grid, "reach": recipe.reach, "cohort": len(cohort),
    }  # fmt: skip
    network = LiteMatch(**facts).eval()
    network.backbone.load_state_dict(imagenet_weights())
    with torch.no_grad():
        pooled = pooled_maps(chosen, how, recipe.groups, recipe.grid, unfinished, progress, cancellation)
        for own, maps in zip(network.cells, pooled, strict=True):
            learn_cells(cast(Cells, own), maps)
        cells = network.whitened(pooled)
        network.cohort.cells.copy_(cells[cohort].flatten(2))
        vectors = _vectors(network, cells, chosen.patients, chosen.patients[cohort])
    matching = Matching(sum(recipe.kept), recipe.grid, recipe.reach)
    one, other = _pairs(chosen.patients, draw)
    progress.stage("score", None)
    cancellation.check()
    same = chosen.patients[one] == chosen.patients[other]
    score, loss = fit_line(matching.match(vectors[one], vectors[other]), same)
    return TrainedModel(
        network={"name": "lite0-match", **facts},
        weights=network.state_dict(),
        dimension=matching.dimension,
        preprocessing=how,
        scoring=Scoring.MATCH,
        score=score,
        log=({"epoch": 1, "loss": loss},),
    )


def _vectors(
    network: LiteMatch, cells: Tensor, patients: NDArray[np.int64], shown: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Embeddings whose cohort statistics exclude the patient of the image."""
    vectors = []
    for own, patient in zip(cells, patients, strict=True):
        # A genuine match in the statistics would not occur with a new patient and would bias the score.
        others = network.cohort.matches(own[None])[0][torch.from_numpy(shown != patient)]
        statistics = torch.stack([others.mean(), others.std(correction=0)])
        vectors.append(torch.cat([own.flatten(), statistics]).numpy())
    return np.stack(vectors)


def _one_a_patient(patients: NDArray[np.int64], most: int, draw: np.random.Generator) -> NDArray[np.intp]:
    """Indices of one image each of at most ``most`` patients."""
    _, first = np.unique(patients, return_index=True)
    return np.sort(draw.permutation(first)[:most])


def _pairs(
    patients: NDArray[np.int64], draw: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of all genuine pairs and of some impostor pairs."""
    one, other = np.triu_indices(len(patients), 1)
    same = patients[one] == patients[other]
    impostors = draw.permutation(np.flatnonzero(~same))[:IMPOSTORS]
    taken = np.concatenate([np.flatnonzero(same), impostors])
    return one[taken], other[taken]
