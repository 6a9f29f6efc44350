"""The demo of synthetic images: its hospital, its models, and what it says about the verdict."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import UsageError
from medsanitize.pipeline.demo.prepare import Demo
from medsanitize.pipeline.demo.synthetic import (
    SyntheticSizes,
    explanation_lines,
    prepare_synthetic_demo,
    verdict_lines,
)
from medsanitize.policies.load import load
from medsanitize.release.summary import SyntheticSummary
from medsanitize.verifiers.reid.labels import read_labels
from PIL import Image

pytestmark = pytest.mark.generate

SMALL = SyntheticSizes(training=6, holdout=4, calibration=3, elsewhere=4, side=32)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return prepare_synthetic_demo(tmp_path_factory.mktemp("demo") / "new", SMALL)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_splits_share_no_patient_and_have_one_image_each(demo: Demo) -> None:
    found = rows(demo.policy.parent / "labels.csv")
    by_split = {split: [row["patient_id"] for row in found if row["split"] == split] for split in
                ("train", "holdout", "calibration")}  # fmt: skip
    assert {split: len(set(patients)) for split, patients in by_split.items()} == {
        "train": 6,
        "holdout": 4,
        "calibration": 3,
    }
    assert len({patient for patients in by_split.values() for patient in patients}) == 13
    assert {split: len(patients) for split, patients in by_split.items()} == {
        "train": 6,
        "holdout": 4,
        "calibration": 3,
    }


def test_the_verification_model_learns_from_other_patients(demo: Demo) -> None:
    folder = demo.policy.parent
    own = {row["patient_id"] for row in rows(folder / "labels.csv")}
    assert not own & {row["patient_id"] for row in rows(folder / "elsewhere" / "labels.csv")}


def test_the_policy_releases_the_images_that_the_generator_learns_from(demo: Demo) -> None:
    folder, policy = demo.policy.parent, load(demo.policy)
    learned = {row["file"] for row in rows(folder / "labels.csv") if row["split"] == "train"}
    images = (folder / "hospital" / "train").rglob("*.png")
    assert {path.relative_to(folder / "hospital").as_posix() for path in images} == learned
    assert policy.synthesize is not None
    assert policy.synthesize.replace == "all"


def test_names_are_planted_in_the_metadata_of_the_training_images(demo: Demo) -> None:
    images = sorted((demo.policy.parent / "hospital" / "train").rglob("*.png"))
    found = set()
    for path in images:
        with Image.open(path) as image:
            found.add(image.info["Comment"])
    assert found == set(demo.planted)
    assert demo.files == len(images) == 6


def test_a_folder_in_use_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(UsageError, match="not empty"):
        prepare_synthetic_demo(tmp_path, SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_table_is_one_that_training_reads(demo: Demo) -> None:
    folder = demo.policy.parent
    assert len(read_labels(folder / "labels.csv", folder / "hospital", split="train").paths) == 6


def test_the_verdict_is_told_with_its_numbers() -> None:
    summary = SyntheticSummary(
        replaced=6, requested=6, released=5, removed=2, state="passed", label="", model="", bound=0.01,
        statement=("At most 1 % match.",), grid="",
    )  # fmt: skip
    lines = verdict_lines(summary)
    assert lines[:2] == ["Verdict of the privacy gate: passed.", "At most 1 % match."]
    assert "6 images were replaced: 6 synthetic ones requested, 5 released, 2 removed" in lines[2]


def test_without_images_there_is_no_explanation() -> None:
    assert verdict_lines(None) == ["No image was replaced."]
    assert explanation_lines(None) == ["No explanation: the release has no synthetic image."]


@pytest.mark.slow
@pytest.mark.pixels
def test_the_demo_runs_from_phantoms_to_an_explanation(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["demo", str(tmp_path / "demo"), "--synthetic", "--json"])
    facts = json.loads(result.stdout.splitlines()[-1])
    assert facts["surviving"] == 0
    # No image is released without a verdict that says so, and every released one can explain.
    passed = facts["verdict"]["state"] == "passed"
    assert bool(facts["verdict"]["released"]) is passed
    assert (facts["explanation"] is not None) is passed
    assert passed, facts["verdict"]["statement"]
