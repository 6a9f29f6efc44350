"""Training a generator with differential privacy: what it states, where it ends, what it refuses."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.generators.diffusion import train_private
from medsanitize.generators.diffusion.config import read_config
from medsanitize.generators.diffusion.generator import open_generator, training_of
from medsanitize.generators.diffusion.recipes import Autoencoding, Recipe, recipe_for
from medsanitize.generators.diffusion.train import GeneratorTrainingResult, train_generator
from medsanitize.generators.phantoms.random_fields import stream
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.labels import read_labels
from medsanitize.verifiers.reid.training.keyed_noise import FILE as KEY
from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget, PrivacyPlan, plan_training
from PIL import Image

pytestmark = pytest.mark.dp

BUDGET = PrivacyBudget(8.0, 1e-3)


class Killed(Exception):
    """The process died."""


class Dying(NoProgress):
    """Dies after some steps of the denoiser, as a killed process does."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after, self._now = after, ""

    def stage(self, name: str, total: int | None) -> None:  # noqa: ARG002
        self._now = name

    def advance(self, objects: int) -> None:
        if self._now == "denoiser":
            self._after -= objects
            if self._after < 0:
                raise Killed


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    """Seven private steps of four patients, in the mean."""
    tiny = recipe_for("tiny")
    return replace(
        tiny,
        autoencoder=Autoencoding((8,), 1, 4, 3, 1e-3, kl=0.0, latents=8, patch=4),
        denoiser=replace(tiny.denoiser, channels=(16, 16), steps=28, batch=4),
        every=3,
        sampling_steps=2,
    )


def images(folder: Path, population: int, patients: int = 14) -> Path:
    """Patients with one to three images, of two classes; the first has a rare one."""
    folder.mkdir()
    rows = []
    for patient in range(patients):
        for visit in range(1 + patient % 3):
            name = f"{patient}-{visit}.png"
            coarse = stream(population, patient, visit).integers(0, 255, (4, 4)).astype(np.uint8)
            Image.fromarray(coarse).resize((40, 40), Image.Resampling.BICUBIC).save(folder / name)
            rows.append((name, f"person-{patient}", ("one", "two")[patient % 2] if patient else "rare"))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "patient_id", "finding"), *rows])
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images(tmp_path_factory.mktemp("data") / "images", 7)


def train(
    root: Path, output: Path, recipe: Recipe, progress: NoProgress | None = None, **other: Any
) -> GeneratorTrainingResult:
    labels = read_labels(root / "labels.csv", root)
    budget, pipeline = other.get("budget", BUDGET), other.get("pipeline")
    told = progress or NoProgress()
    return train_generator(labels, "finding", recipe, pipeline, output, told, Cancellation(), budget)


def keyed(output: Path) -> Path:
    """Give the training a key that is known, so that two trainings can be compared."""
    unfinished = output.with_name(output.name + ".training")
    unfinished.mkdir()
    (unfinished / KEY).write_bytes(bytes(range(32)))
    return output


@pytest.fixture(scope="module")
def made(
    root: Path, recipe: Recipe, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, GeneratorTrainingResult]:
    folder = keyed(tmp_path_factory.mktemp("made") / "model")
    return folder, train(root, folder, recipe)


def test_the_model_states_its_bound(made: tuple[Path, GeneratorTrainingResult]) -> None:
    facts = open_generator(made[0]).privacy
    assert facts is not None
    assert (facts["unit"], facts["epsilon"], facts["delta"], facts["steps"]) == ("patient", 8.0, 1e-3, 7)
    # The patient of the rare class is left out; all others take part, and nobody is held out.
    assert facts["patients"] == 13
    assert 7.8 < facts["spent"]["pld"] <= 8.0 < facts["spent"]["rdp"]
    assert f"noise multiplier {facts['noise_multiplier']:.3f}" in (made[0] / "README.md").read_text()


def test_the_model_has_nothing_else_that_depends_on_patients(
    made: tuple[Path, GeneratorTrainingResult],
) -> None:
    folder = made[0]
    training = training_of(folder)
    assert not {"classes", "excluded"} & set(training)
    assert training["counts"] == {"patients": 13, "fit_patients": 13}
    lines = (folder / "log.jsonl").read_text().splitlines()
    assert {json.loads(line)["part"] for line in lines} == {1}
    assert "nobody" in (folder / "README.md").read_text()


def test_neither_key_nor_images_remain(made: tuple[Path, GeneratorTrainingResult]) -> None:
    left = {path.suffix for path in made[0].with_name("model.training").iterdir()}
    assert left == {".png"}


def test_the_autoencoder_and_its_scale_come_from_no_patient(
    made: tuple[Path, GeneratorTrainingResult], recipe: Recipe, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    train(images(tmp_path / "images", 8), other, recipe)
    name = "autoencoder.safetensors"
    assert (other / name).read_bytes() == (made[0] / name).read_bytes()
    configs = [read_config((one / "config.json").read_bytes()).autoencoder for one in (other, made[0])]
    assert configs[0] == configs[1]
    assert (other / "denoiser.safetensors").read_bytes() != (made[0] / "denoiser.safetensors").read_bytes()


def test_a_killed_training_resumes_to_the_same_bytes(
    made: tuple[Path, GeneratorTrainingResult], root: Path, recipe: Recipe, tmp_path: Path
) -> None:
    output = keyed(tmp_path / "model")
    with pytest.raises(Killed):
        train(root, output, recipe, Dying(5))
    assert train(root, output, recipe).digest == made[1].digest


def test_a_training_without_its_key_is_not_resumed(root: Path, recipe: Recipe, tmp_path: Path) -> None:
    output = tmp_path / "model"
    with pytest.raises(Killed):
        train(root, output, recipe, Dying(5))
    (tmp_path / "model.training" / KEY).unlink()
    with pytest.raises(UsageError, match="belongs to a training with other"):
        train(root, output, recipe)


def test_a_training_ends_at_its_ceiling(
    root: Path, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_less_noise(*given: Any) -> PrivacyPlan:
        return plan_training(*given, noise=1.0)

    monkeypatch.setattr(train_private, "plan_training", with_less_noise)
    result = train(root, tmp_path / "model", recipe, budget=PrivacyBudget(3.0, 1e-3))
    assert result.privacy is not None
    assert result.privacy["steps"] == 4
    assert result.privacy["spent"]["pld"] <= 3.0


def test_a_recipe_whose_autoencoder_learns_from_patients_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="learns from no patient"):
        train(root, tmp_path / "model", recipe_for("tiny"))


def test_a_pipeline_is_refused(
    made: tuple[Path, GeneratorTrainingResult], root: Path, recipe: Recipe, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="does not cover what a pipeline has learned"):
        train(root, tmp_path / "model", recipe, pipeline=made[0])


def test_a_delta_that_gives_a_patient_away_is_refused(root: Path, recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one in the number of patients"):
        train(root, tmp_path / "model", recipe, budget=PrivacyBudget(8.0, 0.1))


@pytest.mark.parametrize(
    "wrong", [{"spent": {"pld": -1, "prv": 1, "rdp": 1}}, {"delta": 0}, {"epsilon": "8"}, {"unit": None}]
)
def test_a_damaged_statement_is_refused(
    made: tuple[Path, GeneratorTrainingResult], wrong: dict[str, object]
) -> None:
    facts = json.loads((made[0] / "config.json").read_bytes())
    facts["privacy"] |= wrong
    if wrong == {"unit": None}:
        del facts["privacy"]["unit"]
    with pytest.raises(IntegrityError, match=r"config\.json"):
        read_config(json.dumps(facts).encode())
