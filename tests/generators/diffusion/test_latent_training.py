"""Training a generator: results, resume after a stop, and rejected input."""

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
from diffusers import UNet2DModel
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.generators.diffusion import dataset
from medsanitize.generators.diffusion.dataset import split_dataset
from medsanitize.generators.diffusion.generator import open_generator, trained_on_dataset, training_of
from medsanitize.generators.diffusion.networks import (
    autoencoder_facts,
    autoencoder_kind,
    build_model,
    denoiser_facts,
    latent_shape,
    with_amounts,
)
from medsanitize.generators.diffusion.recipes import RECIPES, Prediction, Recipe, recipe_for
from medsanitize.generators.diffusion.train import GeneratorTrainingResult, train_generator
from medsanitize.generators.phantoms.random_fields import stream
from medsanitize.pipeline.synthesis.reference_images import ReferenceTable, reference_splits
from medsanitize.progress import Cancellation, Cancelled, NoProgress
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels
from PIL import Image

pytestmark = pytest.mark.generate


class Ear(NoProgress, Cancellation):
    """Records all progress, and stops or dies at one step of one stage."""

    def __init__(self, part: str = "", at: int = -1, *, dies: bool = False) -> None:
        super().__init__()
        self.messages: list[str] = []
        self._part, self._at, self._dies = part, at, dies
        self._now, self._done = "", 0

    def stage(self, name: str, total: int | None) -> None:  # noqa: ARG002
        self._now, self._done = name, 0

    def advance(self, objects: int) -> None:
        self._done += objects
        if (self._now, self._done) == (self._part, self._at):
            if self._dies:
                raise OSError
            self.number = 2

    def message(self, text: str) -> None:
        self.messages.append(text)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    """The tiny recipe with only a few steps."""
    tiny = recipe_for("tiny")
    return replace(
        tiny,
        autoencoder=replace(tiny.autoencoder, steps=5, batch=4),
        denoiser=replace(tiny.denoiser, steps=7, batch=4),
        every=3,
        sampling_steps=3,
    )


def picture(patient: int, visit: int, size: int = 40) -> Image.Image:
    """A smooth square that is specific to a patient."""
    coarse = stream(7, patient, visit).integers(0, 255, (4, 4)).astype(np.uint8)
    return Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen patients with two images each, of two classes; a third class is rare."""
    folder = tmp_path_factory.mktemp("images")
    rows = []
    for patient in range(14):
        for visit in range(2):
            name = f"{patient}-{visit}.png"
            picture(patient, visit).save(folder / name)
            finding = "rare" if patient == 13 else ("one", "two")[patient % 2]
            rows.append((name, f"person-{patient}", "train", finding, "same"))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "patient_id", "split", "finding", "constant"), *rows])
    return folder


def train(
    root: Path, output: Path, recipe: Recipe, ear: Ear | None = None, **other: Any
) -> GeneratorTrainingResult:
    ear = ear or Ear()
    labels = read_labels(root / "labels.csv", root, split=other.get("split"))
    column, pipeline = other.get("column", "finding"), other.get("pipeline")
    return train_generator(labels, column, recipe, pipeline, output, ear, ear)


@pytest.fixture(scope="module")
def made(
    root: Path, recipe: Recipe, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, GeneratorTrainingResult]:
    folder = tmp_path_factory.mktemp("made") / "model"
    return folder, train(root, folder, recipe)


def test_a_rare_class_is_excluded_and_counted(made: tuple[Path, GeneratorTrainingResult]) -> None:
    _, what = made
    assert what.classes == {"one": 14, "two": 12}
    assert what.excluded == {"of a class with fewer than 5 patients": 2}


def test_held_out_patients_are_not_trained_on(made: tuple[Path, GeneratorTrainingResult]) -> None:
    counts = made[1].counts
    assert counts["patients"] == counts["fit_patients"] + counts["held_patients"] == 13


def table_of(root: Path, classes: dict[str, int], unreadable: tuple[str, ...] = ()) -> None:
    """One image per patient, a number of training patients per class; two more splits."""
    rows, number = list[tuple[str, str, str, str]](), 0
    counts = {"train": classes, "holdout": {"one": 2, "two": 2}, "calibration": {"one": 2, "two": 2}}
    for part, of in counts.items():
        for finding, count in of.items():
            for place in range(count):
                name, number = f"{number}.png", number + 1
                picture(number, 0).save(root / name)
                if part == "train" and place == 0 and finding in unreadable:
                    (root / name).write_bytes(b"no picture")
                rows.append((name, f"p{number}", part, finding))
    with (root / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "patient_id", "split", "finding"), *rows])


def test_a_class_with_too_few_readable_patients_is_rare(recipe: Recipe, tmp_path: Path) -> None:
    table_of(tmp_path, {"one": 8, "two": 8, "three": 5}, unreadable=("one", "three"))
    what = train(tmp_path, tmp_path / "model", recipe, split="train")
    assert what.classes == {"one": 7, "two": 8}
    assert what.excluded == {"image not readable": 1, "of a class with fewer than 5 patients": 5}


def test_a_class_with_too_few_training_patients_is_rare(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "HELD_SHARE", 0.5)
    table_of(tmp_path, {"one": 20, "two": 20, "three": 5})
    what = train(tmp_path, tmp_path / "model", recipe, split="train")
    assert what.classes == {"one": 20, "two": 20}
    assert what.excluded == {"of a class with fewer than 5 patients": 5}
    assert (what.counts["held_patients"], what.counts["fit_patients"]) == (20, 20)


def test_held_out_patients_of_an_excluded_class_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "HELD_SHARE", 0.001)
    table_of(tmp_path, {"one": 7, "two": 7, "three": 5})
    labels = read_labels(tmp_path / "labels.csv", tmp_path, split="train")
    found = [split_dataset(labels, "finding", seed, Ear(), Ear()) for seed in range(12)]
    assert {len(set(one.classes.values())) for one in found} == {2, 3}
    assert {int(one.held.sum()) for one in found} == {1}


def test_too_few_classes_after_holding_out_patients_is_an_error(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "HELD_SHARE", 0.5)
    table_of(tmp_path, {"one": 5, "two": 20})
    with pytest.raises(UsageError, match="has 1 values"):
        train(tmp_path, tmp_path / "model", recipe, split="train")


def test_the_gate_accepts_the_table_of_a_training_that_excluded_images(
    recipe: Recipe, tmp_path: Path
) -> None:
    table_of(tmp_path, {"one": 8, "two": 8, "three": 5, "four": 2}, unreadable=("one", "three"))
    train(tmp_path, tmp_path / "model", recipe, split="train")
    table = ReferenceTable(
        tmp_path, tmp_path / "labels.csv", LabelColumns(), "finding", ("train", "holdout", "calibration")
    )
    model = tmp_path / "model"
    sides = reference_splits(table, open_generator(model), training_of(model), frozenset(), Ear(), Ear())
    assert len(sides.training) == 15


def test_provenance_contains_no_file_and_no_patient(made: tuple[Path, GeneratorTrainingResult]) -> None:
    facts = training_of(made[0])
    assert (facts["counts"]["images"], len(facts["images"])) == (26, 64)
    every = b"".join(path.read_bytes() for path in made[0].iterdir())
    assert b"person-" not in every
    assert b".png" not in every.replace(b"samples.png", b"")


def test_the_log_has_an_entry_per_checkpoint_and_the_folder_shows_samples(
    made: tuple[Path, GeneratorTrainingResult],
) -> None:
    entries = [json.loads(line) for line in (made[0] / "log.jsonl").read_text().splitlines()]
    assert [(entry["part"], entry["step"]) for entry in entries] == [(1, 3), (1, 5), (2, 3), (2, 6), (2, 7)]
    with Image.open(made[0] / "samples.png") as image:
        assert image.size == (8 * 32, 2 * 32)
    assert "<svg" in (made[0] / "curves.svg").read_text()


def test_only_contact_sheets_remain_in_the_training_folder(
    made: tuple[Path, GeneratorTrainingResult],
) -> None:
    beside = made[0].with_name("model.training")
    assert {path.suffix for path in beside.iterdir()} == {".png"}


@pytest.mark.parametrize(("part", "at"), [("autoencoder", 4), ("denoiser", 5)])
def test_a_stopped_training_gives_the_same_result_as_an_uninterrupted_one(
    root: Path, recipe: Recipe, made: tuple[Path, GeneratorTrainingResult], tmp_path: Path, part: str, at: int
) -> None:
    with pytest.raises(Cancelled):
        train(root, tmp_path / "model", recipe, Ear(part, at))
    assert train(root, tmp_path / "model", recipe).digest == made[1].digest


def test_a_killed_training_resumes_from_its_last_checkpoint(
    root: Path, recipe: Recipe, made: tuple[Path, GeneratorTrainingResult], tmp_path: Path
) -> None:
    with pytest.raises(OSError, match=r"^$"):
        train(root, tmp_path / "model", recipe, Ear("denoiser", 5, dies=True))
    ear = Ear("denoiser", 4)
    with pytest.raises(Cancelled):
        train(root, tmp_path / "model", recipe, ear)
    assert not any("autoencoder" in message or "step 3" in message for message in ear.messages)
    assert train(root, tmp_path / "model", recipe).digest == made[1].digest


def test_an_unfinished_training_of_another_recipe_is_not_continued(
    root: Path, recipe: Recipe, tmp_path: Path
) -> None:
    with pytest.raises(Cancelled):
        train(root, tmp_path / "model", recipe, Ear("autoencoder", 2))
    other = replace(recipe, autoencoder=replace(recipe.autoencoder, channels=(16, 16)))
    with pytest.raises(UsageError, match="training with other images"):
        train(root, tmp_path / "model", other)


def test_a_damaged_checkpoint_is_reported(root: Path, recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        train(root, tmp_path / "model", recipe, Ear("autoencoder", 2))
    (tmp_path / "model.training" / "checkpoint.safetensors").write_bytes(b"\x80\x04pickle")
    with pytest.raises(IntegrityError, match="checkpoint of the training is damaged"):
        train(root, tmp_path / "model", recipe)


def test_a_nan_loss_stops_the_training(root: Path, recipe: Recipe, tmp_path: Path) -> None:
    wild = replace(recipe, autoencoder=replace(recipe.autoencoder, rate=1e30))
    with pytest.raises(UsageError, match="the training diverged"):
        train(root, tmp_path / "model", wild)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("prediction", [Prediction.NOISE, Prediction.ZERO_SNR])
def test_all_prediction_types_can_be_trained_and_sampled(
    root: Path, recipe: Recipe, tmp_path: Path, prediction: Prediction
) -> None:
    how = replace(recipe, denoiser=replace(recipe.denoiser, prediction=prediction))
    train(root, tmp_path / "model", how)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["schedule"]["rescale_betas_zero_snr"] is (prediction is Prediction.ZERO_SNR)
    assert open_generator(tmp_path / "model").sample([0], [1]).std() > 0


def patches(recipe: Recipe) -> Recipe:
    """The recipe with an autoencoder in closed form, and a denoiser that is told the augmentation."""
    return replace(
        recipe,
        autoencoder=replace(recipe.autoencoder, channels=(8,), patch=8, latents=6, kl=0.0),
        denoiser=replace(recipe.denoiser, channels=(16, 16), augmentation=2.0, min_snr=5.0),
    )


def test_patches_and_told_augmentation_resume_to_the_same_bytes(
    root: Path, recipe: Recipe, tmp_path: Path
) -> None:
    whole = train(root, tmp_path / "whole", patches(recipe))
    for part, at in (("autoencoder", 2), ("denoiser", 4)):
        with pytest.raises(Cancelled):
            train(root, tmp_path / "stopped", patches(recipe), Ear(part, at))
    assert train(root, tmp_path / "stopped", patches(recipe)).digest == whole.digest
    assert open_generator(tmp_path / "whole").sample([0, 1], [1, 2]).shape == (2, 32, 32)


@pytest.mark.parametrize("name", ["gpu-256", "gpu-512"])
def test_a_recipe_for_gpus_resumes_to_the_same_bytes_with_fewer_channels(
    root: Path, recipe: Recipe, tmp_path: Path, name: str
) -> None:
    large = recipe_for(name)
    small = replace(
        large,
        size=recipe.size,
        autoencoder=replace(large.autoencoder, channels=(8, 8, 16), steps=5, batch=4, adversarial_from=2),
        denoiser=replace(
            large.denoiser, channels=(8, 8, 16, 16), heads=8, steps=5, batch=4, average=0.9, warmup=2
        ),
        every=3,
        sampling_steps=2,
    )
    whole = train(root, tmp_path / "whole", small)
    for part, at in (("autoencoder", 4), ("denoiser", 4)):
        with pytest.raises(Cancelled):
            train(root, tmp_path / "stopped", small, Ear(part, at))
    assert train(root, tmp_path / "stopped", small).digest == whole.digest


@pytest.mark.parametrize("name", RECIPES)
def test_the_networks_of_every_recipe_fit_together(name: str) -> None:
    recipe = RECIPES[name]
    facts = autoencoder_facts(recipe)
    # The meta device computes shapes only: the large recipes would take minutes and gigabytes.
    with torch.device("meta"):
        autoencoder = build_model(facts, autoencoder_kind(facts))
        denoiser = build_model(denoiser_facts(recipe, 3), UNet2DModel)
        images = torch.zeros((2, 1, recipe.size, recipe.size))
        latents = autoencoder.encode(images).latent_dist.mean
        steps, classes = torch.zeros(2), torch.zeros(2, dtype=torch.long)
        guess = denoiser(with_amounts(denoiser, latents), steps, classes).sample
    assert latents.shape == guess.shape == latent_shape(autoencoder, 2, recipe.size)
    assert autoencoder.decode(guess).sample.shape == images.shape


def test_the_discriminator_is_stored_in_the_checkpoint(root: Path, recipe: Recipe, tmp_path: Path) -> None:
    how = replace(recipe, autoencoder=replace(recipe.autoencoder, adversarial=0.1, adversarial_from=2))
    whole = train(root, tmp_path / "whole", how)
    with pytest.raises(Cancelled):
        train(root, tmp_path / "model", how, Ear("autoencoder", 4))
    assert "judging" in whole.log[1]
    assert train(root, tmp_path / "model", how).digest == whole.digest


def test_a_stage_stops_early_without_a_better_held_out_loss(
    root: Path, recipe: Recipe, tmp_path: Path
) -> None:
    still = replace(recipe.denoiser, rate=0.0, steps=60)
    found = train(root, tmp_path / "model", replace(recipe, denoiser=still, patience=2))
    assert [entry["step"] for entry in found.log if entry["part"] == 2] == [3, 6, 9]


def test_a_generator_can_be_trained_further_with_other_classes(
    root: Path, recipe: Recipe, made: tuple[Path, GeneratorTrainingResult], tmp_path: Path
) -> None:
    train(root, tmp_path / "model", recipe, column=None, pipeline=made[0])
    found = open_generator(tmp_path / "model")
    before = open_generator(made[0])
    images = found.sample([0], [3])
    assert found.classes == ()
    assert np.array_equal(found.reconstruct(images), before.reconstruct(images))
    assert training_of(tmp_path / "model")["start"] == made[1].digest


def test_the_training_data_of_initial_weights_is_recorded(
    root: Path, recipe: Recipe, made: tuple[Path, GeneratorTrainingResult], tmp_path: Path
) -> None:
    train(root, tmp_path / "model", recipe, column=None, pipeline=made[0])
    before, after = training_of(made[0]), training_of(tmp_path / "model")
    assert before["images_before"] == []
    assert after["images_before"] == [before["images"]] != [after["images"]]
    assert trained_on_dataset(after) == {before["images"], after["images"]}
    assert "on other images too" in (tmp_path / "model" / "README.md").read_text()


def test_a_generator_can_be_trained_further_on_the_same_images(
    root: Path, recipe: Recipe, made: tuple[Path, GeneratorTrainingResult], tmp_path: Path
) -> None:
    train(root, tmp_path / "model", recipe, pipeline=made[0])
    assert trained_on_dataset(training_of(tmp_path / "model")) == {training_of(made[0])["images"]}
    assert "on these images only" in (tmp_path / "model" / "README.md").read_text()


@pytest.mark.parametrize(
    ("facts", "images"),
    [
        ({}, None),
        ({"images": "a"}, None),
        ({"images": "a", "start": "random"}, {"a"}),
        ({"images": "a", "start": "f"}, None),
        ({"images": "a", "start": "f", "images_before": "unknown"}, None),
        ({"images": "a", "start": "f", "images_before": ["a", "b"]}, {"a", "b"}),
        ({"start": "random", "images_before": []}, None),
    ],
)
def test_training_data_missing_in_the_provenance_is_unknown(
    facts: dict[str, Any], images: set[str] | None
) -> None:
    assert trained_on_dataset(facts) == images


def test_the_prediction_type_of_the_pipeline_is_recorded(
    root: Path, recipe: Recipe, made: tuple[Path, GeneratorTrainingResult], tmp_path: Path
) -> None:
    noise = replace(recipe, denoiser=replace(recipe.denoiser, prediction=Prediction.NOISE))
    train(root, tmp_path / "model", noise, pipeline=made[0])
    assert training_of(tmp_path / "model")["recipe"]["denoiser"]["prediction"] == "velocity"


def test_without_a_column_there_are_no_classes(root: Path, recipe: Recipe, tmp_path: Path) -> None:
    found = train(root, tmp_path / "model", recipe, column=None)
    assert (found.classes, found.counts["images"]) == ({}, 28)
    assert open_generator(tmp_path / "model").sample([0, 0], [1, 2]).shape == (2, 32, 32)


@pytest.mark.parametrize(
    ("column", "message"), [("nothing", "no such class column"), ("constant", "has 1 values")]
)
def test_at_least_two_classes_are_required(
    root: Path, recipe: Recipe, tmp_path: Path, column: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        train(root, tmp_path / "model", recipe, column=column)


def small_table(folder: Path, images: dict[str, Image.Image], patients: int) -> Path:
    rows = [(name, str(place % patients)) for place, name in enumerate(images)]
    for name, image in images.items():
        image.save(folder / name)
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "patient_id"), *rows])
    return folder


def test_images_smaller_than_the_recipe_are_rejected(recipe: Recipe, tmp_path: Path) -> None:
    images = {f"{number}.png": picture(number, 0, 40 if number else 20) for number in range(4)}
    small_table(tmp_path, images, 4)
    with pytest.raises(UsageError, match="1 images are smaller than 32 pixels"):
        train(tmp_path, tmp_path / "model", recipe, column=None)


def test_color_images_are_rejected(recipe: Recipe, tmp_path: Path) -> None:
    images = {f"{number}.png": picture(number, 0) for number in range(4)}
    images["0.png"] = Image.merge("RGB", [picture(channel, 0) for channel in range(3)])
    small_table(tmp_path, images, 4)
    with pytest.raises(UsageError, match="slides or color images"):
        train(tmp_path, tmp_path / "model", recipe, column=None)


def test_a_single_patient_is_rejected(recipe: Recipe, tmp_path: Path) -> None:
    small_table(tmp_path, {f"{number}.png": picture(number, 0) for number in range(4)}, 1)
    with pytest.raises(UsageError, match="of one patient"):
        train(tmp_path, tmp_path / "model", recipe, column=None)


def test_a_model_is_never_overwritten(
    root: Path, recipe: Recipe, made: tuple[Path, GeneratorTrainingResult]
) -> None:
    with pytest.raises(UsageError, match="The output folder already contains a model"):
        train(root, made[0], recipe)
