"""Audit of a release in a store: the same findings as in its folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.pipeline.jobs.export_ledger import audit_with_state
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.load import load
from medsanitize.policies.model import Policy
from medsanitize.release import layout
from medsanitize.sanitize.result import CheckResult, Finding

from tests.helpers.hospital import CANARIES, make_export, prepare
from tests.helpers.s3_server import Answer, Front, web_server
from tests.helpers.slide_exports import fill
from tests.helpers.stores import Store


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """A release of single-file objects, and of slides of one and of several files."""
    base = tmp_path_factory.mktemp("made")
    made = prepare(base)
    fill(made.inputs[0], ["aperio", "mirax"])
    shutil.copytree(make_export(base / "few", objects=6), made.inputs[0] / "few")
    run(made, Options(workers=1))
    return made


@pytest.fixture
def address(store: Store, policy: Policy) -> str:
    return store.fill(policy.output, "out")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def policy_file(policy: Policy) -> Path:
    return policy.state.parent / "policy.yaml"


def a_data_file(policy: Policy, suffix: str = "dcm") -> str:
    return min(str(path.relative_to(policy.output)) for path in (policy.output / "data").rglob(f"*.{suffix}"))


@pytest.mark.parametrize("searched", [False, True], ids=["alone", "with the state"])
def test_auditing_a_store_gives_the_same_result_as_a_folder(
    address: str, policy: Policy, *, searched: bool
) -> None:
    named = load(policy_file(policy)) if searched else None

    there = audit_with_state(address, named)

    assert there == audit_with_state(str(policy.output), named)
    assert (there.passed, there.identifiers is CheckResult.PASSED) == (True, searched)


@pytest.mark.parametrize("fault", ["changed", "missing", "unlisted", "of a slide"])
def test_faults_are_found_as_in_a_folder(
    fault: str, address: str, policy: Policy, store: Store, tmp_path: Path
) -> None:
    folder = shutil.copytree(policy.output, tmp_path / "copy")
    path = {"unlisted": "data/left.dcm", "of a slide": a_data_file(policy, "dat")}.get(fault)
    path = path or a_data_file(policy)
    if fault == "missing":
        store.client.delete_object(Bucket=store.bucket, Key=f"out/{path}")
        (folder / path).unlink()
    else:
        store.put(f"out/{path}", b"DICM")
        (folder / path).write_bytes(b"DICM")

    there = audit_with_state(address, None)

    assert there == audit_with_state(str(folder), None)
    assert not there.passed


def test_a_known_name_in_the_evidence_is_found(address: str, policy: Policy, store: Store) -> None:
    store.put(f"out/{layout.REPORT}", f"<p>{CANARIES[0]}^A</p>".encode())

    found = audit_with_state(address, load(policy_file(policy)))

    assert (layout.REPORT, Finding("file", "audit:name")) in found.findings
    assert found.identifiers is CheckResult.FLAGGED


def test_files_next_to_the_release_are_searched_too(address: str, policy: Policy, store: Store) -> None:
    store.put("out/NOTES.txt", f"seen: {CANARIES[0]}^A".encode())

    found = audit_with_state(address, load(policy_file(policy)))

    assert found.findings == (("NOTES.txt", Finding("file", "audit:name")),)


def test_a_file_with_an_impossible_name_is_not_fetched(address: str, policy: Policy, store: Store) -> None:
    store.put("out/notes (old).txt", b"left behind")

    found = audit_with_state(address, load(policy_file(policy)))

    assert found.findings == (("notes (old).txt", Finding("file", "audit:missing")),)


def test_an_object_below_the_name_of_a_file_is_a_finding(address: str, policy: Policy, store: Store) -> None:
    store.put(f"out/{a_data_file(policy)}/below.dcm", b"DICM")

    found = audit_with_state(address, None)

    assert (f"{a_data_file(policy)}/below.dcm", Finding("file", "audit:unlisted")) in found.findings


def test_an_empty_address_has_no_release_to_audit(store: Store) -> None:
    with pytest.raises(UsageError, match="No release"):
        audit_with_state(f"s3://{store.bucket}/nothing", None)


def test_fetched_files_are_deleted(address: str, scratch: Path) -> None:
    audit_with_state(address, None)

    assert list(scratch.iterdir()) == []


def test_the_command_accepts_an_address(address: str, policy: Policy) -> None:
    done = CliRunner().invoke(cli, ["audit", address, "--policy", str(policy_file(policy))])

    assert (done.exit_code, "Nothing was found." in done.output) == (0, True)


def test_a_release_without_manifest_cannot_be_audited(address: str, store: Store) -> None:
    store.client.delete_object(Bucket=store.bucket, Key=f"out/{layout.OBJECTS}")

    with pytest.raises(IntegrityError, match="manifest"):
        audit_with_state(address, None)


def test_denied_access_is_an_error_and_no_finding(address: str, front: Front, scratch: Path) -> None:
    front.instead = lambda _method, _path, _headers: Answer(403, [], b"")

    with pytest.raises(EnvironmentFailure):
        audit_with_state(address, None)

    assert list(scratch.iterdir()) == []


def test_a_listing_web_server_can_be_audited(policy: Policy, tmp_path: Path) -> None:
    shutil.copytree(policy.output, tmp_path / "chest ct" / "1.0")
    server = web_server(tmp_path)
    try:
        there = audit_with_state(f"http://127.0.0.1:{server.port}/chest%20ct/1.0/", None)
    finally:
        server.kill()

    assert there == audit_with_state(str(policy.output), None)
