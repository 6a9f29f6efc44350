"""Classifiers: from a table with a class column to a model folder."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from medsanitize.cli import cli
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels
from PIL import Image


def picture(kind: int, seed: int) -> Image.Image:
    """Stripes across or down, with noise."""
    draw = np.random.default_rng(seed)
    stripes = 90 + 70 * (np.arange(48) // 6 % 2)
    pixels = np.broadcast_to(stripes if kind else stripes[:, None], (48, 48)) + draw.integers(0, 60, (48, 48))
    return Image.fromarray(pixels.astype(np.uint8))


def write_table(folder: Path, classes: Sequence[str]) -> Path:
    """One image per patient and class, with alternating appearance."""
    rows = [("file", "patient_id", "finding", "view")]
    for place, name in enumerate(classes):
        picture(place % 2, place).save(folder / f"{place}.png")
        rows.append((f"{place}.png", f"secret-{place}", name, "PA" if place % 2 else "AP"))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder / "labels.csv"


def call(table: Path, *arguments: str) -> Result:
    given = ["--images", str(table.parent), "--labels", str(table), "--json"]
    given += ["--output", str(table.parent / "model"), *arguments]
    return CliRunner().invoke(cli, ["train", "classifier", *given])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("classifier")
    table = write_table(folder, ["across", "down"] * 8 + ["", "odd"])
    done = call(table, "--class", "finding", "--recipe", "frozen")
    return folder / "model", json.loads(done.stdout)


def test_training_reports_its_result_and_exclusions(model: tuple[Path, dict[str, Any]]) -> None:
    facts = model[1]
    assert facts["kind"] == "classification"
    assert facts["counts"]["fit_images"] + facts["counts"]["validation_images"] == 16
    assert facts["excluded"] == {"no class named": 1, "of a class with fewer than 4 patients": 1}
    assert facts["exit_code"] == 1


def test_the_classifier_predicts_the_classes_of_images(model: tuple[Path, dict[str, Any]]) -> None:
    from medsanitize.verifiers.reid.images.image import ImageArray, Modality
    from medsanitize.verifiers.reid.models.load import open_classification

    opened = open_classification(model[0])
    asked = [
        ImageArray(np.asarray(picture(kind, 100 + kind), np.float32) / 255, Modality.RADIOGRAPH)
        for kind in (0, 1, 0, 1)
    ]
    shares = opened.probabilities(opened.embed(asked))
    assert opened.classes == ("across", "down")
    assert shares.argmax(1).tolist() == [0, 1, 0, 1]
    assert shares.sum(1) == pytest.approx(1, abs=1e-6)


def test_the_folder_contains_no_patient_and_no_file_names(model: tuple[Path, dict[str, Any]]) -> None:
    for name in ("README.md", "config.json", "training.json", "log.jsonl"):
        text = (model[0] / name).read_text()
        assert "secret" not in text
        assert ".png" not in text


def test_a_classifier_is_rejected_as_retrieval_model(model: tuple[Path, dict[str, Any]]) -> None:
    from medsanitize.verifiers.reid.models.load import open_retrieval

    with pytest.raises(UsageError, match="contains a classification model"):
        open_retrieval(model[0])


def test_classes_that_do_not_match_the_weights_are_rejected(
    model: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    from medsanitize.verifiers.reid.models.load import open_classification
    from medsanitize.verifiers.reid.models.model_folder import read_folder, write_folder

    content = dict(read_folder(model[0]).content)
    content["config.json"] = content["config.json"].replace(b'"down"', b'"down",\n  "third"')
    write_folder(tmp_path / "other", content)
    with pytest.raises(IntegrityError, match="no weights for its classes"):
        open_classification(tmp_path / "other")


def test_a_densenet_is_trained_and_opened(tmp_path: Path) -> None:
    from medsanitize.verifiers.reid.models.load import open_classification

    table = write_table(tmp_path, ["across", "down"] * 6)
    done = call(table, "--class", "finding", "--recipe", "tiny")
    assert done.exit_code == 0, done.output
    opened = open_classification(tmp_path / "model")
    assert opened.classes == ("across", "down")
    assert not (tmp_path / "model.training").exists()


def test_the_same_images_give_the_same_densenet(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        table = write_table(tmp_path / name, ["across", "down"] * 6)
        digests.append(json.loads(call(table, "--class", "finding", "--recipe", "tiny").stdout)["digest"])
    assert digests[0] == digests[1]


def test_an_interrupted_training_gives_the_same_result_as_an_uninterrupted_one(tmp_path: Path) -> None:
    from medsanitize.verifiers.reid.models.model_folder import read_folder
    from medsanitize.verifiers.reid.training.train_classifier import class_recipe_for, train_classification

    rows = read_labels(write_table(tmp_path, ["across", "down"] * 8), tmp_path)
    recipe = class_recipe_for("tiny")

    class Stopping:
        """A signal that arrives before some step."""

        def __init__(self, step: int) -> None:
            self._left = step

        @property
        def number(self) -> int:
            self._left -= 1
            return int(self._left < 0)

        def check(self) -> None:
            if self._left < 0:
                raise InterruptedError

    def train(name: str, cancellation: Any) -> None:
        classes = (LabelColumns(), "finding")
        train_classification(rows, classes, recipe, None, tmp_path / name, NoProgress(), cancellation)

    train("whole", Cancellation())
    with pytest.raises(InterruptedError):
        train("stopped", Stopping(2))
    train("stopped", Cancellation())
    assert read_folder(tmp_path / "whole").digest == read_folder(tmp_path / "stopped").digest


@pytest.mark.parametrize(
    ("classes", "column", "message"),
    [
        (["a", "b"] * 4, "diagnosis", "no class column 'diagnosis'"),
        ([""] * 8, "finding", "class column is empty"),
        (["a"] * 8, "finding", "1 of 1 classes"),
        (["a"] * 5 + ["b"] * 3, "finding", "1 of 2 classes"),
    ],
)
def test_classes_that_cannot_be_learned_are_an_error(
    tmp_path: Path, classes: list[str], column: str, message: str
) -> None:
    done = call(write_table(tmp_path, classes), "--class", column, "--recipe", "tiny")
    assert done.exit_code == 2
    assert message in json.loads(done.stdout)["message"]


def test_the_view_can_be_the_class(tmp_path: Path) -> None:
    done = call(write_table(tmp_path, ["x"] * 12), "--class", "view", "--recipe", "tiny")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--recipe", "paper"), "ImageNet weights of a DenseNet-121"),
        (("--recipe", "other"), "recipe is unknown"),
        (("--recipe", "frozen", "--weights", "random"), "uses packaged weights"),
    ],
)
def test_recipes_state_the_weights_they_accept(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = call(write_table(tmp_path, ["a", "b"] * 4), "--class", "finding", *arguments)
    assert done.exit_code == 2
    assert message in json.loads(done.stdout)["message"]


def test_patients_are_split_class_by_class() -> None:
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.training.class_labels import ClassifiedDataset, split_classes
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset

    patients = np.repeat(np.arange(40), 2)
    classes = (patients % 10 == 0).astype(np.int64)
    examples = TrainingDataset((Path(),) * 80, patients, Modality.RADIOGRAPH, "")
    fit, validation = split_classes(ClassifiedDataset(examples, classes, ("most", "few")), 0)
    assert not set(fit.examples.patients) & set(validation.examples.patients)
    assert len(np.unique(validation.examples.patients[validation.classes == 1])) == 1
    assert len(np.unique(validation.examples.patients[validation.classes == 0])) == 5


def test_every_class_has_the_same_weight() -> None:
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.training.class_labels import ClassifiedDataset
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset

    examples = TrainingDataset((Path(),) * 4, np.arange(4), Modality.RADIOGRAPH, "")
    weights = ClassifiedDataset(examples, np.array([0, 0, 0, 1]), ("a", "b")).weights()
    assert weights.tolist() == pytest.approx([2 / 3, 2])


def test_densenet_121_has_the_parameters_of_the_paper() -> None:
    import torch
    from medsanitize.verifiers.reid.models.networks.densenet import DenseFeatures

    with torch.device("meta"):
        network = DenseFeatures()
        assert tuple(network(torch.empty(2, 3, 320, 320)).shape) == (2, 1024)
    # 7,978,856 with the classifier of 1,000 classes, as torchvision counts.
    assert sum(one.numel() for one in network.parameters()) == 7_978_856 - 1000 * 1025
