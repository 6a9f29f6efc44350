"""The commands train retrieval and train verification."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from medsanitize.cli import cli
from PIL import Image


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Eight patients with two images each, in a table with nonstandard column names."""
    rows = []
    for place in range(16):
        pixels = np.random.default_rng(place // 2).integers(0, 255, (24, 24)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{place}.png")
        rows.append((f"{place}.png", place // 2, "fit"))
    with (tmp_path / "people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "subject", "split"), *rows])
    return tmp_path / "people.csv"


def call(table: Path, *arguments: str) -> Result:
    given = ["--images", str(table.parent), "--labels", str(table), "--split", "fit"]
    given += ["--output", str(table.parent / "model"), "--recipe", "tiny", "--kind", "radiograph", "--json"]
    return CliRunner().invoke(cli, ["train", *arguments, *given])


def test_training_prints_its_result(table: Path) -> None:
    done = call(table, "retrieval", "--column", "patient_id=subject")
    facts = json.loads(done.stdout)
    assert done.exit_code == facts["exit_code"] == 0
    assert facts["counts"]["fit_images"] + facts["counts"]["validation_images"] == 16
    assert len(facts["digest"]) == 64


def test_excluded_images_change_the_exit_code(table: Path) -> None:
    (table.parent / "3.png").write_bytes(b"")
    done = call(table, "verification", "--column", "patient_id=subject")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["excluded"] == {"image not readable": 1}


def test_a_missing_column_is_a_usage_error(table: Path) -> None:
    done = call(table, "retrieval")
    assert done.exit_code == 2
    assert "patient" in json.loads(done.stdout)["message"]
