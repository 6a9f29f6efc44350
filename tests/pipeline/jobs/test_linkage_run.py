"""The command attack linkage, on folders and on a release."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from PIL import Image

from tests.helpers.hospital import CANARIES, make_export, prepare, write_ct


def call(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["attack", "linkage", "--kind", "radiograph", *map(str, arguments)])
    return done.exit_code, done.stdout + done.stderr


def pictures(folder: Path, *, patients: range, visit: int) -> Path:
    """One picture per patient, slightly brighter at each visit, and the table required for a folder."""
    folder.mkdir()
    rows = ["file,patient_id"]
    for patient in patients:
        look = np.kron(np.random.default_rng(patient).integers(0, 200, (6, 6)), np.ones((16, 16)))
        Image.fromarray((look + 5 * visit).astype(np.uint8)).save(folder / f"{patient}.png")
        rows.append(f"{patient}.png,secret-{patient}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("linkage")
    return (
        pictures(base / "ours", patients=range(4), visit=0),
        pictures(base / "theirs", patients=range(1, 7), visit=1),
    )


def test_shared_patients_are_linked_and_the_page_names_no_patient(
    sides: tuple[Path, Path], tmp_path: Path
) -> None:
    code, text = call(sides[0], "--background", sides[1], "--json", "--output", tmp_path)
    facts = json.loads(text.splitlines()[0])
    assert code == facts["exit_code"] == 0
    assert facts["whole"]["rs"]["of"] == facts["whole"]["rs"]["errors"] == 3
    assert facts["crop"]["rs"]["of"] == 3
    assert (facts["release"]["images"], facts["background"]["images"]) == (4, 6)
    page = (tmp_path / "linkage.html").read_text()
    assert page.count("<svg") == 4
    for written in (page, (tmp_path / "linkage.json").read_text(), text):
        assert "secret" not in written
        assert ".png" not in written
    assert not re.search(r"url\((?!#)|@import|https?://|<script|<img|<link", page)


def test_unreadable_images_are_counted(sides: tuple[Path, Path], tmp_path: Path) -> None:
    folder = pictures(tmp_path / "more", patients=range(3), visit=2)
    (folder / "1.png").write_bytes(b"no picture")
    code, text = call(folder, "--background", sides[0])
    assert code == 1
    assert "Excluded: 1 images" in text
    assert "2 of 2 patients linked" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--background", "nowhere"), "no table of its patients"),
        (("--policy", "policy.yaml"), "guidelines apply to releases"),
        ((), "no patient has two images"),
    ],
)
def test_invalid_requests_give_a_one_line_error(
    sides: tuple[Path, Path], arguments: tuple[str, ...], said: str
) -> None:
    given = arguments if "--background" in arguments else (*arguments, "--background", str(sides[0]))
    code, text = call(sides[0], *given)
    assert code == 2
    assert said in text


def test_a_release_is_attacked_by_pseudonym_and_checked_against_guidelines(tmp_path: Path) -> None:
    make_export(tmp_path / "export")
    # An examination of its own for each slice: of one series only the middle slice is attacked.
    for number in range(12):
        patient = f"{CANARIES[1]}{number % 3}"
        path = tmp_path / "export" / f"p{number % 3}" / f"i{number:04d}"
        write_ct(path, number, patient, 100 + number, BodyPartExamined="HEAD")
    for name in ("again", "real0.dcm"):
        (tmp_path / "export" / name).unlink()
    prepare(tmp_path)
    done = CliRunner().invoke(cli, ["run", str(tmp_path / "policy.yaml"), "--workers", "1", "--json"])
    assert done.exit_code == 1
    release = tmp_path / "release"
    report = (release / "report.html").read_text()
    assert "A2 Dissociate from patient records" in report
    code, text = call(release, "--background", release, "--policy", tmp_path / "policy.yaml", "--json")
    facts = json.loads(text.splitlines()[0])
    assert code == 0  # a plan and a waveform have no image, so none is missing
    assert facts["itself"]
    assert facts["whole"]["rs"]["of"] == 3
    assert [one["code"] for one in facts["guidelines"]] == [f"A{n}" for n in range(1, 8)]
    assert {one["code"]: one["result"] for one in facts["guidelines"]}["A6"] in ("not_met", "needs_review")


def test_a_policy_of_another_release_is_not_used_for_the_guidelines(tmp_path: Path) -> None:
    make_export(tmp_path / "export")
    prepare(tmp_path)
    CliRunner().invoke(cli, ["run", str(tmp_path / "policy.yaml"), "--workers", "1"])
    prepare(tmp_path, preset="research")
    release = tmp_path / "release"
    code, text = call(release, "--background", release, "--policy", tmp_path / "policy.yaml")
    assert (code, "was made with another policy" in " ".join(text.split())) == (2, True)
