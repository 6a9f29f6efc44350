"""The commands attack gradients, membership and decoder: results, pictures and refusals."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.generators.phantoms.cohorts import write_chests

pytestmark = pytest.mark.verify


def call(*arguments: object) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(cli, ["attack", *map(str, arguments), "--json"])
    return done.exit_code, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chests(tmp_path_factory.mktemp("cohort") / "c", range(40), visits=(2, 2), size=64)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chests(tmp_path_factory.mktemp("single") / "c", range(60), visits=(1, 1), size=64)


def on(table: Path, *arguments: object) -> tuple[object, ...]:
    return ("--images", table.parent, "--labels", table, "--kind", "radiograph", *arguments)


QUICK = ("--recipe", "tiny", "--size", 32, "--iterations", 2, "--attacked", 4, "--sites", 2)


def test_gradients_are_attacked_in_every_setting(table: Path, tmp_path: Path) -> None:
    output = tmp_path / "private"
    view = on(table, "--class", "view")
    code, told = call("gradients", *view, *QUICK, "--batch", 1, "--batch", 3, "--output", output)
    assert code == 0
    assert [(one["setting"], one["batch"], one["steps"]) for one in told["settings"]] == [
        ("unprotected", 1, 4), ("aggregated", 1, 2), ("clipped", 1, 4),
        ("unprotected", 3, 1), ("aggregated", 3, 1), ("clipped", 3, 1),
    ]  # fmt: skip
    assert [one["ssim"]["images"] for one in told["settings"]] == [4, 4, 4, 3, 6, 3]
    assert (told["genuine"]["images"], told["patients"]) == (6, 40)
    assert json.loads((output / "report.json").read_text())["settings"] == told["settings"]
    assert stat.S_IMODE(output.stat().st_mode) == 0o700
    assert {stat.S_IMODE(one.stat().st_mode) for one in output.iterdir()} == {0o600}
    assert len(list(output.glob("*.png"))) == 6


def test_a_linear_first_layer_gives_a_single_image_away(table: Path) -> None:
    view = on(table, "--class", "view")
    perceptron = ("--recipe", "perceptron", "--size", 32, "--attacked", 6, "--sites", 1)
    code, told = call("gradients", *view, *perceptron, "--batch", 1)
    alone = told["settings"][0]
    assert (code, alone["setting"]) == (0, "unprotected")
    assert alone["ssim"]["reconstructed"]["value"] > 0.99
    assert (alone["identified"]["found"], alone["identified"]["chance"]) == (
        6,
        pytest.approx(6 / 240, abs=0.01),
    )


def test_the_output_is_never_replaced_and_images_need_classes(table: Path, tmp_path: Path) -> None:
    code, told = call("gradients", *on(table, "--class", "view"), *QUICK, "--output", tmp_path)
    assert (code, "exists" in told["message"]) == (2, True)
    code, told = call("gradients", *on(table), *QUICK)
    assert (code, "--class" in told["message"]) == (2, True)


def test_the_gradients_of_a_linear_map_contain_no_image(table: Path) -> None:
    code, told = call("gradients", *on(table, "--class", "view"), "--recipe", "frozen")
    assert (code, "linear map" in told["message"]) == (2, True)


def test_too_few_patients_are_refused(table: Path) -> None:
    view = on(table, "--class", "view")
    code, told = call("gradients", *view, *QUICK, "--batch", 32)
    assert (code, "128 are needed" in told["message"]) == (2, True)


@pytest.mark.dp
def test_steps_with_differential_privacy_state_their_noise(table: Path) -> None:
    view = on(table, "--class", "view")
    _, told = call("gradients", *view, *QUICK, "--batch", 2, "--sites", 1, "--epsilon", 8)
    facts = told["settings"][-1]
    assert [one["setting"] for one in told["settings"]] == ["unprotected", "clipped", "private"]
    assert 0 < facts["privacy"]["spent"]["pld"] <= 8
    assert facts["privacy"]["patients"] == 40


def test_membership_is_attacked_with_bounds(single: Path, tmp_path: Path) -> None:
    output = tmp_path / "private"
    view = on(single, "--class", "view")
    code, told = call("membership", *view, "--references", 2, "--output", output)
    (model,) = told["models"]
    assert (code, told["references"], model["model"], model["privacy"]) == (0, 2, "frozen", None)
    assert model["members"] + model["others"] == told["patients"]
    assert [one["false_positive_rate"] for one in model["rates"]] == [0.001, 0.01]
    assert all(one["lower"] <= one["share"] <= one["upper"] for one in model["rates"])
    assert json.loads((output / "report.json").read_text())["models"] == told["models"]


def test_embeddings_are_decoded(table: Path, tmp_path: Path) -> None:
    output = tmp_path / "private"
    code, told = call("decoder", *on(table), "--epochs", 1, "--output", output)
    assert (code, told["patients"], told["trained_on"], told["dimension"]) == (0, 13, 54, 8192)
    assert told["chance"] == pytest.approx(1 / 13)
    assert told["genuine"]["found"] >= told["decoded"]["found"]
    assert {one.name for one in output.iterdir()} == {"report.json", "decoded.png"}


def test_patients_with_one_image_cannot_be_decoded(single: Path) -> None:
    code, told = call("decoder", *on(single), "--epochs", 1)
    assert (code, "too few patients" in told["message"]) == (2, True)
