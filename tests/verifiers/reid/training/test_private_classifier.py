"""Classifiers with differential privacy: what they state, what they do not learn, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.load import open_classification
from medsanitize.verifiers.reid.training.class_labels import ClassifiedDataset
from medsanitize.verifiers.reid.training.keyed_noise import NoiseKey
from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe
from medsanitize.verifiers.reid.training.privacy_accounting import (
    PrivacyBudget,
    PrivacyPlan,
    SampledGaussian,
)
from medsanitize.verifiers.reid.training.private_classifier import (
    DIMENSION,
    learn_private_classes,
    random_map,
)
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from safetensors.numpy import load_file

pytestmark = pytest.mark.dp


def call(table: Path, output: Path, *arguments: str) -> tuple[int, dict[str, object]]:
    given = ["--images", str(table.parent), "--labels", str(table), "--class", "view", "--kind", "radiograph"]
    done = CliRunner().invoke(
        cli, ["train", "classifier", *given, "--output", str(output), *arguments, "--json"]
    )
    return done.exit_code, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chests(tmp_path_factory.mktemp("cohort") / "c", range(24), visits=(1, 2), size=64)


def test_the_model_states_its_bound_and_nothing_else_of_its_patients(table: Path, tmp_path: Path) -> None:
    code, told = call(table, tmp_path / "model", "--epsilon", "8")
    facts = json.loads((tmp_path / "model" / "training.json").read_text())
    card = (tmp_path / "model" / "README.md").read_text()
    assert code == 0
    assert told["privacy"] == facts["privacy"]
    assert 7 < facts["privacy"]["spent"]["pld"] <= 8
    assert "at delta 1e-05 (ceiling 8)" in card
    assert "accuracy on" not in card
    assert facts["counts"] == {"fit_patients": 24}
    assert {one.name for one in (tmp_path / "model").iterdir()} == {
        "README.md", "SHA256SUMS", "config.json", "model.onnx", "training.json", "weights.safetensors"
    }  # fmt: skip
    assert not (tmp_path / "model.training").exists()
    assert open_classification(tmp_path / "model").classes == ("AP", "PA")
    # The map depends on no image.
    weights = load_file(tmp_path / "model" / "weights.safetensors")
    drawn = random_map(weights["projection.weight"].shape[1], DIMENSION, LinearRecipe().seed)
    drawn = drawn.astype(np.float32)
    assert np.array_equal(weights["projection.weight"], drawn)


def test_recipes_with_batch_normalization_are_refused(table: Path, tmp_path: Path) -> None:
    code, told = call(table, tmp_path / "model", "--epsilon", "8", "--recipe", "tiny")
    assert (code, "mixes patients" in str(told["message"])) == (2, True)
    code, told = call(table, tmp_path / "model", "--delta", "1e-5")
    assert (code, "--epsilon" in str(told["message"])) == (2, True)


def learned(noise: float, key: NoiseKey) -> tuple[float, bytes]:
    """Accuracy on separable classes, and the weights."""
    draw = np.random.default_rng(0)
    patients = np.repeat(np.arange(80), 2)
    classes = (patients % 2).astype(np.int64)
    projected = draw.standard_normal((160, 16)).astype(np.float32)
    projected[:, 0] += 6 * classes - 3
    examples = TrainingDataset((Path(),) * 160, patients, Modality.RADIOGRAPH, "")
    plan = PrivacyPlan(PrivacyBudget(8, 1e-5), SampledGaussian(0.25, noise), 5.0, 80, 40)
    images = ClassifiedDataset(examples, classes, ("a", "b"))
    weight, bias = learn_private_classes(images, projected, LinearRecipe(), plan, key)
    unit = torch.nn.functional.normalize(torch.from_numpy(projected))
    right = (unit @ weight.T * LinearRecipe().sharpness + bias).argmax(1).numpy() == classes
    return float(right.mean()), weight.numpy().tobytes()


def test_classes_are_learned_through_the_noise_that_the_key_decides() -> None:
    one, other = NoiseKey(bytes(32)), NoiseKey(bytes([1] * 32))
    accuracy, weights = learned(1.0, one)
    assert accuracy > 0.9
    assert learned(1.0, one)[1] == weights
    assert learned(1.0, other)[1] != weights
