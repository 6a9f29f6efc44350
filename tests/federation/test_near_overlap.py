"""The near comparison of two hospitals by their commands, from releases to the verdict."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.federation.near.install import SPU
from medsanitize.release.manifest import read_rows

from tests.helpers.hospitals import COMMON, IMAGES, NAMES, Hospital, serving, write_agreements

pytestmark = [pytest.mark.party, pytest.mark.verify]


@pytest.fixture
def near_hospitals(hospitals: tuple[Hospital, Hospital], near_library: Path) -> tuple[Hospital, Hospital]:
    """Both hospitals with the library of near comparisons, which is large, by a link."""
    for one in hospitals:
        SPU.of(one.party).symlink_to(near_library)
    return hospitals


def ask(hospital: Hospital, *more: str) -> tuple[int, dict[str, Any]]:
    arguments = ["overlap", str(hospital.release), "--policy", str(hospital.folder / "policy.yaml")]
    done = CliRunner().invoke(cli, [*arguments, "--with", NAMES[1], *more, "--json"])
    return done.exit_code, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_two_hospitals_learn_whether_other_images_show_the_same_patients(
    near_hospitals: tuple[Hospital, Hospital],
) -> None:
    """The slices of all patients are nearly equal: everybody matches, which strangers explain."""
    north, south = near_hospitals
    near = "{kind: ct-chest, reveal: patients}"
    write_agreements(south, [NAMES[0]], near=near)
    with serving(south) as address:
        write_agreements(north, [NAMES[1]], address=address, near=near)
        code, told = ask(north, "--output", str(north.folder / "common"))
    assert (code, told["result"], told["counts"]) == (3, "overlapping", {"pixels": COMMON})
    found = told["near"]
    assert (found["result"], found["number"], found["patients"]) == ("inconclusive", IMAGES, [IMAGES] * 2)
    assert "Nobody learns embeddings or scores" in found["statement"]
    with (north.folder / "common" / "common.csv").open(newline="") as file:
        listed = {row["item"] for row in csv.DictReader(file) if row["compared"] == "near"}
    assert listed == {row.patient for row in read_rows(north.release)}


def test_common_items_stay_found_if_the_near_comparison_fails(
    near_hospitals: tuple[Hospital, Hospital],
) -> None:
    """The partner agrees to a comparison of equal images only."""
    north, south = near_hospitals
    write_agreements(south, [NAMES[0]])
    with serving(south) as address:
        write_agreements(north, [NAMES[1]], address=address, near="{kind: ct-chest}")
        code, told = ask(north)
    assert (code, told["result"], told["counts"]) == (3, "overlapping", {"pixels": COMMON})
    # The server answers as it would if another partner had such an agreement.
    assert (told["near"], "The partner refuses" in told["near_message"]) == (None, True)


def test_near_comparisons_are_not_made_by_files(
    near_hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    north, _ = near_hospitals
    write_agreements(north, [NAMES[1]], near="{kind: ct-chest}")
    code, told = ask(north, "--offline", str(tmp_path))
    assert (code, "needs a connection" in told["message"]) == (2, True)


def test_a_library_that_is_not_installed_ends_the_command_before_anything_is_asked(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, _ = hospitals
    write_agreements(north, [NAMES[1]], address="https://127.0.0.1:9", near="{kind: ct-chest}")
    code, told = ask(north)
    assert (code, "party install FOLDER --near" in told["message"]) == (2, True)


def test_the_party_shows_what_a_near_comparison_would_reveal(hospitals: tuple[Hospital, Hospital]) -> None:
    north, _ = hospitals
    path = write_agreements(north, [NAMES[1]], near="{kind: ct-chest}")
    done = CliRunner().invoke(cli, ["party", "show", str(path)])
    assert "This party learns whether any patient matches among the images of one kind" in done.stdout


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="SPU has wheels for Python 3.11 only")
def test_the_library_of_near_comparisons_is_installed_once(
    hospitals: tuple[Hospital, Hospital], near_library: Path
) -> None:
    north, _ = hospitals
    SPU.of(north.party).symlink_to(near_library)
    done = CliRunner().invoke(cli, ["party", "install", str(north.party), "--near"])
    assert (done.exit_code, "installed already" in done.output) == (2, True)
