"""The demo of two hospitals: what it makes, and what its parties find as real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pydicom
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.federation.parties.identity import open_party
from medsanitize.federation.parties.trust import trusted_partners
from medsanitize.pipeline.demo.two_hospitals import NAMES, TwoHospitals, prepare_two_hospitals
from medsanitize.policies.load import load

pytestmark = pytest.mark.party


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> TwoHospitals:
    return prepare_two_hospitals(tmp_path_factory.mktemp("demo") / "new", patients=5, shared=2)


def images(export: Path) -> list[pydicom.Dataset]:
    return [pydicom.dcmread(path) for path in sorted(export.rglob("*.dcm"))]


def test_hospitals_share_one_image_of_each_shared_patient(prepared: TwoHospitals) -> None:
    pixels = [
        {one.PixelData for one in images(each.folder / "export")}
        for each in (prepared.asking, prepared.answering)
    ]
    assert (len(pixels[0]), len(pixels[1]), len(pixels[0] & pixels[1])) == (10, 10, 2)


def test_shared_patients_have_other_numbers_at_each_hospital(prepared: TwoHospitals) -> None:
    numbers = [
        {one.PatientID for one in images(each.folder / "export")}
        for each in (prepared.asking, prepared.answering)
    ]
    assert (len(numbers[0]), len(numbers[1]), numbers[0] & numbers[1]) == (5, 5, set())


def test_the_policies_agree_and_the_parties_trust_each_other(prepared: TwoHospitals) -> None:
    named = []
    for each in (prepared.asking, prepared.answering):
        section = load(each.policy).partners
        assert section is not None
        trusted = trusted_partners(open_party(section.party))
        named.append(([one.partner for one in section.agreements], list(trusted)))
    assert named == [([NAMES[1]], [NAMES[1]]), ([NAMES[0]], [NAMES[0]])]


def test_only_one_demo_runs_at_a_time(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["demo", str(tmp_path / "new"), "--synthetic", "--two-hospitals"])
    assert (done.exit_code, "several demos" in done.output) == (2, True)


@pytest.mark.slow
def test_the_parties_find_the_three_shared_patients_and_nobody_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "medsanitize", "demo", str(tmp_path / "new"), "--two-hospitals"]
    done = subprocess.run([*command, "--workers", "1", "--json"], capture_output=True, check=False)
    told = json.loads(done.stdout.splitlines()[-1])
    found = {name: told.get(name) for name in ("shared", "found", "others", "images", "result")}
    assert (done.returncode, found) == (
        0,
        {"shared": 3, "found": 3, "others": 0, "images": 3, "result": "overlapping"},
    )
    assert told["learned_sizes"] == {NAMES[0]: 80, NAMES[1]: 80}
