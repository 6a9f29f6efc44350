"""Source files as items of a comparison: equal before de-identification, byte for byte."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import UsageError
from medsanitize.federation.private_overlap.statement import statement_of
from medsanitize.federation.private_overlap.terms import Comparison
from medsanitize.pipeline.resume import open_for_reading
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.stages.source_digests import digests_of_sources
from medsanitize.policies.model import Policy

from tests.helpers.hospital import prepare, write_ct
from tests.helpers.hospitals import COMMON, IMAGES, NAMES, Hospital, serving, write_agreements

pytestmark = pytest.mark.party


def ask(hospital: Hospital, release: Path, *more: str) -> tuple[int, dict[str, object]]:
    policy = str(hospital.folder / "policy.yaml")
    arguments = ["overlap", str(release), "--policy", policy, "--with", NAMES[1], *more, "--json"]
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, json.loads(done.stdout.splitlines()[-1])


def test_equal_source_files_are_found_where_both_policies_name_them(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, south = hospitals
    agreed = {"compare": "[files, pixels]", "reveal": "items"}
    write_agreements(south, [NAMES[0]], **agreed)
    with serving(south) as address:
        write_agreements(north, [NAMES[1]], address=address, **agreed)
        _, told = ask(north, north.release, "--output", str(north.folder / "common"))
    assert told["counts"] == {"files": COMMON, "pixels": COMMON}
    assert told["items"] == {"files": IMAGES, "pixels": IMAGES}
    listed = (north.folder / "common" / "common.csv").read_text().splitlines()
    assert sum(line.startswith("files,") and line.endswith(".dcm") for line in listed) == COMMON


def test_files_are_not_compared_if_the_partner_s_policy_does_not_name_them(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, south = hospitals
    with serving(south) as address:
        write_agreements(north, [NAMES[1]], address=address, compare="[files, pixels]")
        code, told = ask(north, north.release)
    assert (code, "Both policies must name" in str(told["message"])) == (2, True)


def test_files_of_another_release_than_the_policy_s_are_refused(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, south = hospitals
    write_agreements(north, [NAMES[1]], address="https://127.0.0.1:9", compare="[files]")
    code, told = ask(north, south.release)
    assert (code, "release of the policy only" in str(told["message"])) == (2, True)


@pytest.fixture
def ran(tmp_path: Path) -> Policy:
    policy = prepare(tmp_path)
    for number in range(2):
        write_ct(tmp_path / "export" / f"{number}.dcm", number, f"PATIENT{number}", number)
    run(policy, Options(workers=1))
    return policy


def test_digests_are_those_of_the_files_as_received(ran: Policy, tmp_path: Path) -> None:
    files = sorted((tmp_path / "export").iterdir())
    with closing(open_for_reading(ran)) as state:
        found = digests_of_sources(state)
    assert found == {hashlib.sha256(one.read_bytes()).digest(): [str(one)] for one in files}


def test_a_source_that_has_changed_since_the_run_is_refused(ran: Policy, tmp_path: Path) -> None:
    with (tmp_path / "export" / "0.dcm").open("ab") as file:
        file.write(b"more")
    with closing(open_for_reading(ran)) as state, pytest.raises(UsageError, match="has changed"):
        digests_of_sources(state)


def test_a_plan_says_that_source_files_are_compared() -> None:
    told = statement_of("south", [Comparison(what="files", reveal="count", contract="")])
    assert "the number of common equal source files" in told
