"""The command attack generator: a generator that memorized is found, and one that did not is not."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.generators.diffusion.recipes import Autoencoding, recipe_for
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels

pytestmark = pytest.mark.generate


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def call(*arguments: object) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(cli, ["attack", "generator", *map(str, arguments), "--json"])
    return done.exit_code, json.loads(done.stdout.splitlines()[-1])


def write_table(root: Path, training: int, others: int) -> Path:
    """Phantoms with an image each: the first train, the next are the holdout."""
    table = write_chests(root, range(training + others), visits=(1, 1), size=64)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    patients = sorted({row["patient_id"] for row in rows})
    learned = set(patients[:training])
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "part"])
        writer.writeheader()
        writer.writerows(
            {**row, "part": "learned" if row["patient_id"] in learned else "other"} for row in rows
        )
    return table


def train(table: Path, output: Path, steps: int, rate: float = 2e-3) -> Path:
    """A small generator whose autoencoder is sharp from the start, and whose images are never augmented."""
    from medsanitize.generators.diffusion.train import train_generator

    tiny = recipe_for("tiny")
    recipe = replace(
        tiny,
        autoencoder=Autoencoding((16,), 1, 8, 10, 2e-3, kl=0.0, patch=4),
        denoiser=replace(tiny.denoiser, channels=(32, 64), steps=steps, copies=1, rate=rate),
    )
    labels = read_labels(table, table.parent, LabelColumns(split="part"), "learned")
    train_generator(labels, None, recipe, None, output, NoProgress(), Cancellation())
    return output


def on(table: Path) -> tuple[object, ...]:
    named = ("--images", table.parent, "--labels", table, "--column", "split=part")
    return (*named, "--training", "learned", "--holdout", "other")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("cohort") / "c", 12, 10)


@pytest.fixture(scope="module")
def barely_trained(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(table, tmp_path_factory.mktemp("trained") / "model", 4)


def test_a_generator_that_has_hardly_learned_gives_nobody_away(
    table: Path, barely_trained: Path, tmp_path: Path
) -> None:
    output = tmp_path / "private"
    code, told = call(barely_trained, *on(table), "--count", 40, "--output", output)
    found = told["found"]
    assert (code, told["samples"], told["size"]) == (0, 40, 32)
    # One of the twelve was held out by the training itself.
    assert (found["patients"], found["others"]) == (11, 11)
    assert (found["extraction"]["extracted"], found["extraction"]["veto"]) == (0, False)
    assert not found["membership"]["above_chance"]
    assert {one.name for one in output.iterdir()} >= {"report.json", "nearest.png"}
    assert {stat.S_IMODE(one.stat().st_mode) for one in output.iterdir()} == {0o600}
    assert json.loads((output / "report.json").read_text())["found"] == found


def test_without_a_table_the_attack_is_blind(barely_trained: Path) -> None:
    code, told = call(barely_trained, "--count", 20)
    assert (code, told["found"], told["repeated"]["confirmed"]) == (0, None, None)


def test_a_table_of_other_patients_is_refused(table: Path, barely_trained: Path) -> None:
    code, told = call(barely_trained, *on(table)[:-4], "--training", "other", "--count", 20)
    assert (code, "not what the generator was trained on" in told["message"]) == (2, True)


def test_other_patients_are_needed(table: Path, barely_trained: Path) -> None:
    code, told = call(barely_trained, *on(table)[:-2], "--count", 20)
    assert (code, "--holdout" in told["message"]) == (2, True)


@pytest.mark.slow
def test_a_generator_trained_on_few_patients_for_long_is_found(tmp_path: Path) -> None:
    few = write_table(tmp_path / "few", 6, 20)
    code, told = call(train(few, tmp_path / "m", 500, 5e-3), *on(few), "--count", 100)
    found = told["found"]
    assert code == 0
    assert told["repeated"]["confirmed"] >= 1
    assert found["extraction"]["extracted"] >= 3
    assert found["extraction"]["extracted_others"] == 0
    assert found["extraction"]["restored"] > found["extraction"]["restored_others"] == 0
    assert found["chance"] < 0.01
    assert found["extraction"]["chance"] < 0.05
    assert found["membership"]["auc"] > 0.9
    assert found["membership"]["above_chance"]


@pytest.mark.slow
def test_a_generator_trained_on_many_patients_is_not(tmp_path: Path) -> None:
    many = write_table(tmp_path / "many", 80, 40)
    _, told = call(train(many, tmp_path / "m", 200), *on(many), "--count", 100)
    found = told["found"]
    assert told["repeated"]["groups"] == 0
    assert (found["extraction"]["extracted"], found["extraction"]["veto"]) == (0, False)
    assert not found["membership"]["above_chance"]


def test_samples_whose_distances_fill_the_memory_are_refused(tmp_path: Path) -> None:
    # Every two samples have a distance: those of 100,000 are 80 GB.
    done = CliRunner().invoke(cli, ["attack", "generator", str(tmp_path), "--count", "10001"])
    assert done.exit_code == 2
    assert "20<=x<=10000" in done.output
