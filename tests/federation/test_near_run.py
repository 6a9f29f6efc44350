"""Near comparisons of a run, before it publishes: each is asked once, and the gate says what they found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner, Result
from medsanitize.cli import cli
from medsanitize.federation.near.install import SPU
from medsanitize.federation.private_overlap.budget import QUERIES
from medsanitize.pipeline.stages.partners import partners_gate
from medsanitize.pipeline.state.result_types import AskedPartner, AskedPartners
from medsanitize.policies.partners import Agreement, Near, Partners
from medsanitize.release.summary import GateResult

from tests.helpers.hospitals import NAMES, Hospital, serving, write_agreements

pytestmark = [pytest.mark.party, pytest.mark.verify]
NEAR = "{kind: ct-chest, reveal: count}"
# Tables of the terminal in one line.
WIDE = {"COLUMNS": "1000"}


@pytest.mark.parametrize(
    ("near", "common", "action", "result"),
    [
        (("exclusive", "exclusive"), 0, "fail", "passed"),
        (("exclusive", "inconclusive"), 0, "fail", "flagged"),
        (("exclusive", "overlapping"), 0, "fail", "failed"),
        (("exclusive", "overlapping"), 0, "flag", "flagged"),
        (("exclusive", "exclusive"), 1, "fail", "failed"),
        (("exclusive", ""), 0, "fail", "flagged"),
    ],
)
def test_the_gate_passes_only_if_no_partner_shares_a_patient(
    near: tuple[str, str], common: int, action: Literal["fail", "flag"], result: GateResult
) -> None:
    agreements = tuple(Agreement(partner=name, near=Near()) for name in NAMES)
    section = Partners(party=Path("party"), agreements=agreements, action=action)
    partners = tuple(AskedPartner(name, common, "", told) for name, told in zip(NAMES, near, strict=True))
    assert partners_gate(AskedPartners(partners, 12, 0), section).result == result


def test_partners_without_a_near_comparison_are_counted_apart() -> None:
    agreements = (Agreement(partner=NAMES[0], near=Near()), Agreement(partner=NAMES[1]))
    section = Partners(party=Path("party"), agreements=agreements)
    partners = (AskedPartner(NAMES[0], 0, "", "exclusive"), AskedPartner(NAMES[1], 0, ""))
    gate = partners_gate(AskedPartners(partners, 12, 0), section)
    assert "other images: 1 of 1; 0 overlapping, 0 inconclusive, 1 exclusive." in gate.detail
    assert "was not compared with every partner" in gate.detail


def run(north: Hospital, address: str, command: str = "run") -> Result:
    """Run another version of the release, which asks the partner before it is published."""
    path = write_agreements(north, [NAMES[1]], address=address, near=NEAR)
    text = path.read_text().replace("agreements:", "action: flag, agreements:")
    text = text.replace('version: "1.0"', 'version: "2.0"').replace("output: ./release", "output: ./new")
    path.write_text(text)
    return CliRunner(env=WIDE).invoke(
        cli, [command, str(path), *(["--workers", "1"] if command == "run" else [])]
    )


def paid(hospital: Hospital) -> list[str]:
    """What the comparisons were of that a party has paid for."""
    rows = (hospital.party / QUERIES).read_text().splitlines()
    return [next(iter(json.loads(row)["own"])) for row in rows]


def test_a_run_without_the_library_ends_before_anything_is_asked(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, _ = hospitals
    done = run(north, "https://127.0.0.1:9")
    assert (done.exit_code, "party install FOLDER --near" in done.output) == (2, True)


def test_a_plan_says_what_a_near_comparison_would_reveal(hospitals: tuple[Hospital, Hospital]) -> None:
    north, _ = hospitals
    SPU.of(north.party).mkdir()
    (SPU.of(north.party) / "spu").mkdir()
    told = " ".join(run(north, "https://127.0.0.1:9", "plan").output.split())
    assert "This party learns how many patients match among the images of one kind" in told


@pytest.mark.slow
def test_a_run_compares_other_images_with_a_partner_and_asks_nothing_twice(
    hospitals: tuple[Hospital, Hospital], near_library: Path
) -> None:
    """The partner agrees to it at the second try. Everybody matches everybody, which strangers explain."""
    north, south = hospitals
    for one in hospitals:
        SPU.of(one.party).symlink_to(near_library)
    write_agreements(south, [NAMES[0]])
    with serving(south) as address:
        refused = run(north, address)
    assert (refused.exit_code, "The partner refuses" in refused.output) == (2, True)
    assert not (north.folder / "new" / "RELEASE.json").exists()
    write_agreements(south, [NAMES[0]], near=NEAR)
    with serving(south) as address:
        done = run(north, address)
    told = " ".join(done.output.split())
    assert "other images: 1 of 1; 0 overlapping, 1 inconclusive, 0 exclusive." in told
    assert (north.folder / "new" / "RELEASE.json").exists()
    assert [paid(one) for one in hospitals] == [["pixels", "near"]] * 2
