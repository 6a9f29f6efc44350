"""The recipe ``copies``: what is learned from altered images, and that the model finds copies of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from medsanitize.errors import UsageError
from medsanitize.generators.phantoms.chest import chest_phantom
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.alterations.kinds import ALTERED, JOINED
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.labels import read_labels
from medsanitize.verifiers.reid.models.config import ModelKind
from medsanitize.verifiers.reid.models.load import open_verification
from medsanitize.verifiers.reid.models.protocols import Verification
from medsanitize.verifiers.reid.training.recipes import recipe_for
from medsanitize.verifiers.reid.training.train import train
from medsanitize.verifiers.reid.training.train_copies import CopyRecipe, discriminants, train_copies
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from numpy.typing import NDArray

pytestmark = pytest.mark.pixels
Squares = NDArray[np.uint8]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Verification:
    folder: Path = tmp_path_factory.mktemp("copies")
    table = write_chests(folder / "images", range(16), visits=(2, 2), seed=1, size=128)
    labels = read_labels(table, folder / "images")
    recipe = recipe_for(ModelKind.VERIFICATION, "copies")
    train(ModelKind.VERIFICATION, labels, recipe, None, folder / "model", NoProgress(), Cancellation())
    return open_verification(folder / "model")


@pytest.fixture(scope="module")
def strangers() -> Squares:
    """People of whom the model saw nothing."""
    planes = [chest_phantom(patient, 0, size=128, seed=77) for patient in range(8)]
    return np.asarray(np.rint(np.stack(planes) * 255), np.uint8)


def embedded(model: Verification, images: Squares) -> NDArray[np.float32]:
    return model.embed([ImageArray(one / np.float32(255), Modality.RADIOGRAPH) for one in images])


@pytest.mark.slow
def test_copies_score_higher_than_other_people(model: Verification, strangers: Squares) -> None:
    seen = embedded(model, strangers)
    pairs = [(a, b) for a in range(len(seen)) for b in range(len(seen)) if a != b]
    first, second = np.array(pairs).T
    highest = model.raw(seen[first], seen[second]).max()
    others = np.roll(strangers, 1, 0)
    copies = {name: alter(strangers) for name, alter in ALTERED.items()}
    copies |= {name: join(strangers, others) for name, join in JOINED.items()}
    lowest = {name: float(model.raw(embedded(model, made), seen).min()) for name, made in copies.items()}
    assert {name: score for name, score in lowest.items() if score <= highest} == {}


def test_a_score_is_the_logistic_function_of_the_unbounded_one(
    model: Verification, strangers: Squares
) -> None:
    seen = embedded(model, strangers)
    raw = model.raw(seen, np.roll(seen, 1, 0)).astype(np.float64)
    assert model.score(seen, np.roll(seen, 1, 0)) == pytest.approx(1 / (1 + np.exp(-raw)), abs=1e-5)


def test_discriminants_ignore_what_differs_between_copies() -> None:
    # Copies differ along the first axis only; images differ along both.
    within, total = torch.diag(torch.tensor([4.0, 0.01])), torch.diag(torch.tensor([9.0, 1.0]))
    found = discriminants(within.double(), total.double(), 1, 1e-6)[0]
    assert abs(found[1]) == pytest.approx(1, rel=1e-3)
    assert abs(found[0]) < 1e-3


def test_slides_are_rejected() -> None:
    slides = TrainingDataset((), np.zeros(0, np.int64), Modality.SLIDE, "")
    with pytest.raises(UsageError, match="radiographs"):
        train_copies(slides, CopyRecipe(), NoProgress(), Cancellation())
