"""Verification of a release in a store: every byte, by the same rules as in a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.storage.remote_release import verify_in_store
from medsanitize.release import layout

from tests.helpers.hospital import prepare
from tests.helpers.s3_server import Answer, Front, web_server
from tests.helpers.stores import Store


@pytest.fixture(scope="module")
def release(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    policy = prepare(tmp_path_factory.mktemp("made"), inputs=f"[{few}]")
    run(policy, Options(workers=1))
    return policy.output


@pytest.fixture
def address(store: Store, release: Path) -> str:
    return store.fill(release, "out")


def a_data_file(release: Path) -> str:
    return min(str(path.relative_to(release)) for path in (release / layout.DATA).rglob("*.dcm"))


def test_an_uploaded_release_is_intact(address: str) -> None:
    done = CliRunner().invoke(cli, ["verify", address])
    assert (done.exit_code, done.output.split(",")[0]) == (0, "intact")


@pytest.mark.parametrize("fault", ["changed", "missing", "added"])
def test_every_fault_is_reported_with_its_file(fault: str, address: str, release: Path, store: Store) -> None:
    path = "data/left.dcm" if fault == "added" else a_data_file(release)
    if fault == "missing":
        store.client.delete_object(Bucket=store.bucket, Key=f"out/{path}")
    else:
        store.put(f"out/{path}", b"DICM")
    assert verify_in_store(address, key=None).problems == ((path, fault),)


@pytest.mark.parametrize("name", [layout.ROOT, layout.SUMS, layout.OBJECTS, layout.PATIENTS])
def test_missing_evidence_is_reported(name: str, address: str, store: Store) -> None:
    store.client.delete_object(Bucket=store.bucket, Key=f"out/{name}")
    assert (name, "missing") in verify_in_store(address, key=None).problems


def test_a_change_is_reported_with_exit_4(address: str, store: Store) -> None:
    store.put(f"out/{layout.OBJECTS}", b"PAR1")
    done = CliRunner().invoke(cli, ["verify", address])
    assert (done.exit_code, f"changed: {layout.OBJECTS}" in done.output) == (4, True)


def test_an_invalid_address_is_rejected() -> None:
    with pytest.raises(UsageError, match="no bucket"):
        verify_in_store("s3://", key=None)


def test_an_empty_address_has_no_release(store: Store) -> None:
    with pytest.raises(UsageError, match="No release"):
        verify_in_store(f"s3://{store.bucket}/nothing", key=None)


def test_denied_access_gives_no_verdict(address: str, front: Front) -> None:
    front.instead = lambda _method, _path, _headers: Answer(403, [], b"")
    with pytest.raises(EnvironmentFailure):
        verify_in_store(address, key=None)


def test_a_listing_web_server_can_be_verified(release: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(release, tmp_path / "chest ct" / "1.0")
    server = web_server(tmp_path)
    place = f"http://127.0.0.1:{server.port}/chest%20ct/1.0/"
    try:
        whole = verify_in_store(place, key=None)
        (copy / a_data_file(release)).write_bytes(b"DICM")
        changed = verify_in_store(place, key=None)
        (copy / layout.DATA / "empty").mkdir()
        with pytest.raises(UsageError, match="remove empty folders"):
            verify_in_store(place, key=None)
    finally:
        server.kill()
    assert (whole.status, changed.problems) == ("intact", ((a_data_file(release), "changed"),))
