"""Recipe frozen of a classifier from sums of three sites, beside the training on all images together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels
from medsanitize.verifiers.reid.training.class_labels import balanced_weights

pytestmark = pytest.mark.verify
SITES, CLASSES = 3, ("PA", "AP")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chests(tmp_path_factory.mktemp("chests"), range(24), visits=(2, 2), size=128)


def test_all_classes_have_the_same_total_weight_and_an_empty_one_has_none() -> None:
    weights = balanced_weights(np.array([3.0, 0.0, 1.0]))
    assert weights.tolist() == pytest.approx([2 / 3, 0, 2])


def test_gradients_of_three_sites_train_the_classifier_of_all_images(table: Path, tmp_path: Path) -> None:
    from medsanitize.verifiers.reid.training.class_labels import ClassifiedDataset
    from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe, train_linear
    from medsanitize.verifiers.reid.training.linear_sums import ClassifiedSite, LinearSums
    from medsanitize.verifiers.reid.training.training_dataset import gather_images

    recipe = LinearRecipe(dimension=8, epochs=12, rate=3e-3)
    labels = read_labels(table, table.parent, LabelColumns()).of_kind(Modality.RADIOGRAPH)
    examples, _ = gather_images(labels, NoProgress(), Cancellation())
    classes = (examples.patients % 4 // 2).astype(np.int64)
    chosen = examples.patients >= 16
    images = ClassifiedDataset(examples, classes, CLASSES)
    fit, validation = images.part(np.flatnonzero(~chosen)), images.part(np.flatnonzero(chosen))
    pooled = train_linear(fit, validation, recipe, tmp_path / "pooled", NoProgress(), Cancellation())

    sites = []
    for place in range(SITES):
        own = [
            part.part(np.flatnonzero(part.examples.patients % SITES == place)) for part in (fit, validation)
        ]
        sites.append(
            ClassifiedSite(
                own[0].examples, own[1].examples, tmp_path / str(place), NoProgress(), Cancellation(),
                own[0].classes, own[1].classes,
            )
        )  # fmt: skip
    training = LinearSums(recipe, Modality.RADIOGRAPH, len(CLASSES), 1000)
    state = training.start()
    while wanted := training.asked(state):
        sent = {name: value for name, value in state.items() if not name.startswith("server.")}
        parts = [training.contribution(sent, site, 0) for site in sites]
        assert all(set(part) == set(wanted) for part in parts)
        assert all(
            (np.abs(part[name]) <= wanted[name].bound / SITES).all() for part in parts for name in wanted
        )
        state = training.following(state, {name: sum(part[name] for part in parts) for name in wanted})
    learned = training.trained(state)

    # The first row is the start, which the pooled training does not log.
    losses = [entry["validation_loss"] for entry in learned.log]
    expected = [entry["validation_loss"] for entry in pooled.log]
    assert len(losses) in (len(expected), len(expected) + 1)
    np.testing.assert_allclose(losses[1:][: len(expected)], expected[: len(losses) - 1], rtol=2e-3)
    assert min(losses) < losses[0]
    assert learned.network == pooled.network
    assert {name: value.shape for name, value in learned.score.items()} == {
        name: value.shape for name, value in pooled.score.items()
    }
