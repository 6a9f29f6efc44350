"""A registry of releases that members of a consortium ask whether a release shares images with any."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import PolicyError
from medsanitize.federation.psi.install import PSI
from medsanitize.policies.consortium import load_consortium

from tests.helpers.hospitals import COMMON, IMAGES, Hospital, started, third_party, write_agreements

pytestmark = pytest.mark.party
KEEPER = "west-hospital"


def consortium(folder: Path, hospital: Hospital, releases: list[Path], **changes: str) -> Path:
    """A registry of releases with one member, and its file."""
    third_party(folder / "party", hospital)
    shutil.copytree(PSI.of(hospital.party), PSI.of(folder / "party"))
    for release in releases:
        done = CliRunner().invoke(
            cli, ["registry", "add", str(release), "--registry", str(folder / "registry")]
        )
        assert done.exit_code == 0, done.output
    terms = "".join(f", {name}: {value}" for name, value in {"smallest": "5", **changes}.items())
    path = folder / "consortium.yaml"
    path.write_text(
        "version: 1\nregistry: ./registry\nparty: ./party\nlisten: '127.0.0.1:0'\n"
        f"members: [{{partner: north-hospital{terms}}}]\n"
    )
    return path


def ask(hospital: Hospital, served: Path) -> tuple[int, str]:
    with started(["registry", "serve", str(served)]) as (address, _):
        policy = write_agreements(hospital, [KEEPER], address=address)
        arguments = ["overlap", str(hospital.release), "--policy", str(policy), "--with", KEEPER, "--json"]
        done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.stdout.splitlines()[-1]


def test_a_member_learns_how_many_images_the_registered_releases_share_with_its_own(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    north, south = hospitals
    code, output = ask(north, consortium(tmp_path / "keeper", north, [south.release]))
    told = json.loads(output)
    assert (code, told["counts"], told["partner_items"]) == (3, {"pixels": COMMON}, {"pixels": IMAGES})


def test_the_member_s_own_releases_are_left_out(hospitals: tuple[Hospital, Hospital], tmp_path: Path) -> None:
    north, _ = hospitals
    served = consortium(tmp_path / "keeper", north, [north.release], own="[chest-ct]")
    code, output = ask(north, served)
    # Nothing is left to compare with, and a count of nothing would say so.
    assert (code, "smaller than the limit" in output) == (2, True)


def test_an_empty_registry_is_not_served(hospitals: tuple[Hospital, Hospital], tmp_path: Path) -> None:
    served = consortium(tmp_path / "keeper", hospitals[0], [])
    done = CliRunner().invoke(cli, ["registry", "serve", str(served)])
    assert (done.exit_code, "registry is empty" in done.output) == (2, True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "The key 'members' is missing"),
        ("members: [{partner: a, compare: [patients]}]", "The key 'members.1.compare"),
        ("members: [{partner: a, more: 1}]", "The key 'members.1.more' is unknown"),
    ],
    ids=["no member", "patients", "unknown key"],
)
def test_a_file_that_is_not_understood_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "consortium.yaml").write_text(f"version: 1\nregistry: r\nparty: p\n{text}\n")
    with pytest.raises(PolicyError) as refused:
        load_consortium(tmp_path / "consortium.yaml")
    assert told in refused.value.problems[0].message


def searched(policy: Path, hospital: Hospital, *more: str) -> tuple[int, str]:
    arguments = ["registry", "search", str(hospital.release), "--policy", str(policy), "--json", *more]
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.output.splitlines()[-1]


def test_a_search_tells_how_many_partners_have_items_and_spends_their_budget(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    north, south = hospitals
    served = consortium(tmp_path / "keeper", north, [south.release], runs="1")
    with started(["registry", "serve", str(served)]) as (address, _):
        policy = write_agreements(north, [KEEPER], address=address)
        code, output = searched(policy, north)
        again = searched(policy, north, "--with", KEEPER)
    told = json.loads(output)
    assert (code, told["result"], told["having"]) == (3, "overlapping", 1)
    assert told["partners"][0]["counts"] == {"pixels": COMMON}
    # The keeper's budget of one question is used up.
    refused = json.loads(again[1])
    assert (again[0] != 0, refused["partners"][0]["result"]) == (True, "not_compared")


def test_a_search_asks_nobody_whose_agreement_reveals_items(hospitals: tuple[Hospital, Hospital]) -> None:
    north, _ = hospitals
    policy = write_agreements(north, [KEEPER], address="https://127.0.0.1:1", reveal="items")
    code, output = searched(policy, north)
    assert (code, "learns counts only" in output) == (2, True)


def test_a_search_needs_addresses_before_anyone_is_asked(hospitals: tuple[Hospital, Hospital]) -> None:
    north, _ = hospitals
    code, output = searched(write_agreements(north, [KEEPER]), north)
    assert (code, "names no address" in output) == (2, True)
