"""The command ask between two hospitals, from images and models to answers."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.federation.near.install import SPU
from medsanitize.federation.private_overlap.budget import QUERIES
from PIL import Image

from tests.helpers.hospitals import IMAGES, NAMES, Hospital, serving, write_agreements

pytestmark = [pytest.mark.party, pytest.mark.verify]
ASK = "{kind: radiograph, models: [stripes], answers: 10}"
SEARCH = "{kind: ct-chest, search: true, answers: 10}"


def picture(folder: Path, kind: int, seed: int) -> Path:
    """Stripes across or down, with noise."""
    draw = np.random.default_rng(seed)
    stripes = 90 + 70 * (np.arange(48) // 6 % 2)
    pixels = np.broadcast_to(stripes if kind else stripes[:, None], (48, 48)) + draw.integers(0, 60, (48, 48))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"secret-{seed}.png"
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return path


def write_classifier(folder: Path) -> None:
    """Train a classifier of stripes as its hospital does it."""
    rows = [("file", "patient_id", "finding")]
    for place in range(16):
        path = picture(folder / "images", place % 2, place)
        rows.append((path.name, str(place), ("across", "down")[place % 2]))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    given = ["--images", str(folder / "images"), "--labels", str(folder / "labels.csv"), "--class", "finding"]
    options = ["--recipe", "frozen", "--kind", "radiograph", "--output", str(folder / "model")]
    done = CliRunner().invoke(cli, ["train", "classifier", *given, *options])
    assert done.exit_code == 0, done.output


def ask(hospital: Hospital, images: Sequence[Path], *more: str) -> tuple[int, dict[str, Any]]:
    policy = str(hospital.folder / "policy.yaml")
    arguments = ["ask", *map(str, images), "--with", NAMES[1], "--policy", policy, *more, "--json"]
    done = CliRunner().invoke(cli, arguments)
    assert "secret" not in done.output
    return done.exit_code, json.loads(done.stdout.splitlines()[-1])


def with_classifier(hospital: Hospital, folder: Path) -> None:
    path = hospital.folder / "policy.yaml"
    path.write_text(
        re.sub(r"(?m)^partners: \{", f"partners: {{classifiers: {{stripes: {folder}}}, ", path.read_text())
    )


@pytest.mark.slow
def test_a_hospital_learns_the_classes_of_images_that_the_other_does_not_see(
    hospitals: tuple[Hospital, Hospital], near_library: Path, tmp_path: Path
) -> None:
    north, south = hospitals
    for one in hospitals:
        SPU.of(one.party).symlink_to(near_library)
    write_classifier(tmp_path / "classifier")
    write_agreements(south, [NAMES[0]], ask=ASK)
    with_classifier(south, tmp_path / "classifier" / "model")
    images = [picture(tmp_path / "asked", kind, 100 + kind) for kind in (0, 1, 0)]
    with serving(south) as address:
        write_agreements(north, [NAMES[1]], address=address, ask=ASK)
        code, told = ask(north, images, "--classifier", "stripes")
        assert (code, told["answers"], told["classes"]) == (
            0,
            ["across", "down", "across"],
            ["across", "down"],
        )
        assert "Nobody learns features, weights or scores" in told["statement"]
        # Seven answers are left of ten.
        code, told = ask(north, images * 3, "--classifier", "stripes")
        assert (code, "do not suffice" in told["message"]) == (2, True)
        code, told = ask(north, images, "--search")
        assert (code, "allows no search" in told["message"]) == (2, True)
    shown = CliRunner().invoke(cli, ["party", "show", str(north.folder / "policy.yaml")])
    assert "3 of 10 answers in 30 days" in shown.output
    for one in hospitals:
        rows = [json.loads(row) for row in (one.party / QUERIES).read_text().splitlines()]
        assert [row["answers"] for row in rows] == [3]


@pytest.mark.slow
def test_a_hospital_learns_whether_the_other_knows_the_patient_of_an_image(
    hospitals: tuple[Hospital, Hospital], near_library: Path
) -> None:
    """The slices of all patients are nearly equal: each matches, and the errors say so."""
    north, south = hospitals
    for one in hospitals:
        SPU.of(one.party).symlink_to(near_library)
    write_agreements(south, [NAMES[0]], ask=SEARCH)
    image = min(north.release.rglob("*.dcm"))
    with serving(south) as address:
        write_agreements(north, [NAMES[1]], address=address, ask=SEARCH)
        code, told = ask(north, [image], "--search")
    assert (code, told["matches"], told["patients"], told["by_chance"]) == (0, [True], IMAGES, 1.0)
    assert "whether it matches a patient" in told["statement"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "either --classifier NAME or --search"),
        (("--search", "--classifier", "stripes"), "either --classifier NAME or --search"),
        (("--search",), "allows no questions"),
    ],
)
def test_a_question_that_is_not_agreed_ends_before_anything_is_sent(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    north, _ = hospitals
    write_agreements(north, [NAMES[1]], address="https://127.0.0.1:9")
    code, told = ask(north, [picture(tmp_path, 0, 1)], *more)
    assert (code, message in told["message"]) == (2, True)
    assert not (north.party / QUERIES).exists()


def test_an_image_that_cannot_be_read_is_named_by_its_place(
    hospitals: tuple[Hospital, Hospital], near_library: Path, tmp_path: Path
) -> None:
    north, _ = hospitals
    SPU.of(north.party).symlink_to(near_library)
    write_agreements(north, [NAMES[1]], address="https://127.0.0.1:9", ask=ASK)
    broken = tmp_path / "secret-name.png"
    broken.write_bytes(b"no image")
    code, told = ask(north, [picture(tmp_path, 0, 1), broken], "--classifier", "stripes")
    assert (code, "Image 2 cannot be read" in told["message"]) == (2, True)
    code, told = ask(north, [picture(tmp_path, 0, 1)], "--classifier", "other")
    assert (code, "does not name this classifier" in told["message"]) == (2, True)
