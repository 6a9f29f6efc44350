"""One release compared with several partners: one table, a row for each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli

from tests.helpers.hospitals import COMMON, IMAGES, NAMES, Hospital, serving, third_party

pytestmark = pytest.mark.party
WEST = "west-hospital"
NOWHERE = "https://127.0.0.1:9"


def name_partners(hospital: Hospital, addresses: dict[str, str]) -> Path:
    """Write an agreement with each partner into the policy."""
    rows = ", ".join(f"{{partner: {name}, smallest: 5, address: '{one}'}}" for name, one in addresses.items())
    section = f"partners: {{party: ./party, agreements: [{rows}]}}"
    path = hospital.folder / "policy.yaml"
    path.write_text(re.sub(r"(?m)^partners: .*$", section, path.read_text()))
    return path


def overlap(hospital: Hospital, *more: str) -> tuple[int, str]:
    arguments = ["overlap", str(hospital.release), "--policy", str(hospital.folder / "policy.yaml"), *more]
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.stdout


def rows(output: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(output.splitlines()[-1])["partners"]
    return found


@pytest.fixture
def north(hospitals: tuple[Hospital, Hospital], tmp_path: Path) -> Hospital:
    third_party(tmp_path / "west", hospitals[0])
    return hospitals[0]


def test_each_partner_of_the_policy_gets_a_row_and_the_worst_result_decides(
    north: Hospital, hospitals: tuple[Hospital, Hospital]
) -> None:
    with serving(hospitals[1]) as address:
        name_partners(north, {WEST: NOWHERE, NAMES[1]: address})
        code, output = overlap(north, "--json")
    found = [(one["partner"], one["result"], one["exit_code"]) for one in rows(output)]
    assert found == [(WEST, "not_compared", 5), (NAMES[1], "overlapping", 3)]
    row = rows(output)[1]
    assert (code, row["counts"], row["items"]) == (3, {"pixels": COMMON}, {"pixels": IMAGES})
    assert row["bound"] is None


def test_a_partner_that_was_not_compared_outweighs_one_without_common_items(north: Hospital) -> None:
    name_partners(north, {NAMES[1]: NOWHERE, WEST: NOWHERE})
    code, output = overlap(north, "--with", NAMES[1], "--with", WEST, "--json")
    told = json.loads(output.splitlines()[-1])
    assert (code, told["result"], len(told["partners"])) == (5, "not_compared", 2)


def test_the_table_has_one_line_for_each_partner(north: Hospital) -> None:
    name_partners(north, {NAMES[1]: NOWHERE, WEST: NOWHERE})
    _, output = overlap(north)
    lines = [line.split("  ")[0] for line in output.splitlines()[:3]]
    assert lines == ["partner", NAMES[1], WEST]


def test_messages_for_several_partners_travel_in_one_folder(north: Hospital, tmp_path: Path) -> None:
    name_partners(north, {NAMES[1]: NOWHERE, WEST: NOWHERE})
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    code, output = overlap(north, "--offline", str(exchange), "--json")
    assert (code, [one["result"] for one in rows(output)]) == (1, ["waiting", "waiting"])
    assert len(list(exchange.iterdir())) == 2


def test_a_partner_without_agreement_is_refused_before_any_is_asked(north: Hospital) -> None:
    name_partners(north, {NAMES[1]: NOWHERE})
    code, output = overlap(north, "--with", NAMES[1], "--with", "nobody", "--json")
    assert (code, "has no agreement" in output) == (2, True)
