"""Private comparison of two hospitals by real processes: what is found, and what is not given away."""

from __future__ import annotations

import csv
import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.federation.messages.transcript import TRANSCRIPTS
from medsanitize.federation.parties.identity import create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.release.manifest import read_rows

from tests.helpers.hospitals import COMMON, NAMES, Hospital, serving, write_agreements

pytestmark = pytest.mark.party
# Tables of the terminal in one line.
WIDE = {"COLUMNS": "1000"}


def write_policy(hospital: Hospital, partner: str, **changes: object) -> Path:
    return write_agreements(hospital, [partner], **changes)


def ask(hospital: Hospital, *more: str) -> tuple[int, dict[str, Any]]:
    arguments = ["overlap", str(hospital.release), "--policy", str(hospital.folder / "policy.yaml")]
    done = CliRunner().invoke(cli, [*arguments, *more, "--json"])
    return done.exit_code, json.loads(done.stdout.splitlines()[-1])


def test_two_hospitals_find_how_many_images_both_have(hospitals: tuple[Hospital, Hospital]) -> None:
    north, south = hospitals
    with serving(south) as address:
        write_policy(north, NAMES[1], address=address)
        code, told = ask(north, "--with", NAMES[1])
    assert (code, told["result"], told["counts"]) == (3, "overlapping", {"pixels": COMMON})


def test_the_result_names_the_common_images_where_both_policies_reveal_them(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, south = hospitals
    write_policy(south, NAMES[0], reveal="items")
    with serving(south) as address:
        write_policy(north, NAMES[1], address=address, reveal="items")
        _, told = ask(north, "--with", address, "--output", str(north.folder / "common"))
    path = north.folder / "common" / "common.csv"
    with path.open(newline="") as file:
        listed = {row["item"] for row in csv.DictReader(file)}
    theirs = {row.pixels_sha256 for row in read_rows(south.release)}
    assert listed == {row.path for row in read_rows(north.release) if row.pixels_sha256 in theirs}
    assert (told["written"], path.stat().st_mode & 0o777) == (COMMON, 0o600)


def test_common_items_are_never_printed(hospitals: tuple[Hospital, Hospital]) -> None:
    north, _ = hospitals
    write_policy(north, NAMES[1], address="https://127.0.0.1:9", reveal="items")
    code, told = ask(north, "--with", NAMES[1])
    assert (code, "Name a new folder with --output" in told["message"]) == (2, True)


def test_patient_identifiers_under_a_contract_are_those_of_released_patients(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, south = hospitals
    agreed = {"compare": "[patients]", "contract": '"DSA 2026-14"'}
    write_policy(south, NAMES[0], **agreed)
    with serving(south) as address:
        write_policy(north, NAMES[1], address=address, **agreed)
        _, told = ask(north, "--with", NAMES[1])
    assert told["counts"] == {"patients": COMMON}


def test_a_partner_with_other_terms_is_refused(hospitals: tuple[Hospital, Hospital]) -> None:
    north, south = hospitals
    with serving(south) as address:
        write_policy(north, NAMES[1], address=address, reveal="items")
        code, told = ask(north, "--with", NAMES[1], "--output", str(north.folder / "common"))
    assert (code, "Both policies must name" in told["message"]) == (2, True)


def test_a_server_with_other_keys_than_the_partners_is_not_asked(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, south = hospitals
    shutil.move(south.party / "psi", south.folder / "psi")
    shutil.rmtree(south.party)
    create_party(south.party, NAMES[1])
    identity = open_party(north.party).identity
    trust_partner(open_party(south.party), north.party / "identity.json", identity.fingerprint)
    with serving(south) as address:
        write_policy(north, NAMES[1], address=address)
        code, told = ask(north, "--with", NAMES[1])
    assert (code, "accept each other's certificates" in told["message"]) == (5, True)


def test_messages_in_a_folder_give_the_same_result(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    north, south = hospitals
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    results = []
    for _ in range(4):
        results.append(ask(north, "--with", NAMES[1], "--offline", str(exchange)))
        CliRunner().invoke(
            cli, ["party", "answer", str(south.folder / "policy.yaml"), "--offline", str(exchange)]
        )
    assert [code for code, _ in results] == [1, 1, 3, 3]
    assert results[3][1]["counts"] == {"pixels": COMMON}


def test_no_message_and_no_transcript_contains_an_item(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    north, south = hospitals
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    for _ in range(4):
        ask(north, "--with", NAMES[1], "--offline", str(exchange))
        CliRunner().invoke(
            cli, ["party", "answer", str(south.folder / "policy.yaml"), "--offline", str(exchange)]
        )
    kept = [
        *exchange.iterdir(),
        *(north.party / TRANSCRIPTS).iterdir(),
        *(south.party / TRANSCRIPTS).iterdir(),
    ]
    content = b"".join(path.read_bytes() for path in kept)
    digests = [bytes.fromhex(row.pixels_sha256 or "") for one in hospitals for row in read_rows(one.release)]
    # A digest of a digest can be guessed as well as the digest itself.
    forms = [
        form
        for one in digests
        for each in (one, sha256(one).digest())
        for form in (each, each.hex().encode())
    ]
    assert (len(kept), [form for form in forms if form in content]) == (8, [])


def test_both_parties_keep_a_transcript_with_both_signatures(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, south = hospitals
    with serving(south) as address:
        write_policy(north, NAMES[1], address=address)
        _, told = ask(north, "--with", NAMES[1])
    files = [one.party / TRANSCRIPTS / f"{told['session']}.json" for one in hospitals]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(json.loads(files[0].read_text())["signatures"]) == 2


def test_the_budget_of_a_partner_outlives_a_restart_of_the_server(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, south = hospitals
    write_policy(south, NAMES[0], runs=1)
    codes = []
    for _ in range(2):
        with serving(south) as address:
            write_policy(north, NAMES[1], address=address)
            codes.append(ask(north, "--with", NAMES[1])[0])
    assert codes == [3, 2]


def next_version(hospital: Hospital, address: str) -> Path:
    """A policy for another release of the same export, which asks the partner before it is published."""
    path = write_policy(hospital, NAMES[1], address=address)
    text = path.read_text().replace('version: "1.0"', 'version: "2.0"')
    path.write_text(text.replace("output: ./release", "output: ./new"))
    return path


def test_a_run_publishes_nothing_that_a_partner_has(hospitals: tuple[Hospital, Hospital]) -> None:
    north, south = hospitals
    with serving(south) as address:
        arguments = ["run", str(next_version(north, address)), "--workers", "1"]
        done = CliRunner(env=WIDE).invoke(cli, arguments)
    published = (north.folder / "new" / "RELEASE.json").exists()
    told = "Partners asked: 1 of 1; with items of this release: 1" in " ".join(done.output.split())
    assert (done.exit_code, told, published) == (3, True, False)


def test_a_run_whose_partner_cannot_be_reached_publishes_nothing(
    hospitals: tuple[Hospital, Hospital],
) -> None:
    north, _ = hospitals
    path = next_version(north, "https://127.0.0.1:9")
    done = CliRunner().invoke(cli, ["run", str(path), "--workers", "1", "--json"])
    assert (done.exit_code, (north.folder / "new" / "RELEASE.json").exists()) == (5, False)


def test_a_plan_says_what_a_partner_would_learn(hospitals: tuple[Hospital, Hospital]) -> None:
    path = next_version(hospitals[0], "https://127.0.0.1:9")
    done = CliRunner(env=WIDE).invoke(cli, ["plan", str(path)])
    told = " ".join(done.stdout.split())
    assert "learns the number of this party's items, and nothing about the result" in told
