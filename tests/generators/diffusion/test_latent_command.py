"""The command train generator on phantoms, with the recipe for continuous integration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from medsanitize.cli import cli
from medsanitize.generators.diffusion.generator import open_generator
from medsanitize.generators.diffusion.preprocess import preprocess_image
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.read import read_image

pytestmark = pytest.mark.generate


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chests(tmp_path_factory.mktemp("chests") / "images", range(45), size=48)


def call(table: Path, model: Path, *arguments: str) -> Result:
    given = ["--images", str(table.parent), "--labels", str(table), "--output", str(model), "--json"]
    return CliRunner().invoke(cli, ["train", "generator", *given, *arguments])


def test_the_tiny_recipe_learns_the_appearance_of_chests(table: Path, tmp_path: Path) -> None:
    done = call(table, tmp_path / "model", "--split", "train", "--class", "finding", "--recipe", "tiny")
    facts = json.loads(done.stdout)
    assert done.exit_code == facts["exit_code"] == bool(facts["excluded"])
    generator = open_generator(tmp_path / "model")
    assert facts["digest"] == generator.digest
    made = generator.sample([place % len(generator.classes) for place in range(8)], list(range(8)))
    read = [replace(read_image(path), modality=Modality.RADIOGRAPH) for path in table.parent.glob("*/*.png")]
    real = np.stack([preprocess_image(image, 32) for image in read])
    mean = real.mean(0).ravel()
    assert min(np.corrcoef(mean, image.ravel())[0, 1] for image in made) > 0.7
    assert made.std(0).mean() > 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--recipe", "huge"), "The recipe is unknown"),
        (("--recipe", "tiny", "--prediction", "color"), "The prediction type is unknown"),
        (("--recipe", "tiny", "--class", "nothing"), "no such class column"),
        (("--recipe", "tiny", "--pipeline", "nowhere"), "does not contain a model"),
        (("--pipeline", "nowhere", "--prediction", "noise"), "--prediction has no effect with --pipeline"),
        (("--delta", "1e-5"), "--delta has no effect without --epsilon"),
    ],
)
def test_invalid_requests_are_reported(
    table: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = call(table, tmp_path / "model", *arguments)
    assert done.exit_code == 2
    assert said in json.loads(done.stdout)["message"]
