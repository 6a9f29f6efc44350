"""A run that reads from a real archive makes the same release as from disk."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pydicom
import pytest
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.storage.open_store import reader_of
from medsanitize.pipeline.storage.pacs import dicomweb
from medsanitize.pipeline.storage.sources import address_of
from medsanitize.policies.model import Policy
from medsanitize.progress import NoProgress
from medsanitize.release.manifest import read_rows

from tests.helpers.hospital import CANARIES, prepare, write_ct
from tests.helpers.orthanc import VARIABLE, Orthanc

ONE = Options(workers=1)
Reads = Callable[..., Policy]
# Archives keep an idle association for half a minute: a process that waits for it is too late.
ASKS = """
import sys
from medsanitize.pipeline.storage.open_store import reader_of
root = sys.argv[1].encode()
reader_of(root).peer.find((), {"StudyDate": "20200101"})
"""


class When(NoProgress):
    """Do something once, when a stage begins."""

    def __init__(self, stage: str, deed: Callable[[], None]) -> None:
        self._stage, self._deed = stage, deed

    def stage(self, name: str, _total: int | None) -> None:
        if name == self._stage:
            self._deed()


def sums(policy: Policy) -> str:
    return (Path(policy.output) / "SHA256SUMS").read_text()


def studies(policy: Policy) -> int:
    return len({row.study for row in read_rows(Path(policy.output))})


@pytest.fixture(scope="module")
def from_disk(tmp_path_factory: pytest.TempPathFactory, hospital: Path) -> str:
    policy = prepare(tmp_path_factory.mktemp("disk"), inputs=f"[{hospital}]", validation="'off'")
    run(policy, ONE)
    return sums(policy)


@pytest.mark.parametrize("way", ["web", "get", "move"])
def test_a_release_from_an_archive_equals_one_from_disk(
    way: str, reads: Reads, everything: str, from_disk: str
) -> None:
    policy = reads(way, everything)
    run(policy, ONE)
    assert sums(policy) == from_disk


def test_concurrent_workers_make_the_same_release_from_an_archive(
    reads: Reads, everything: str, from_disk: str
) -> None:
    policy = reads("get", everything)
    run(policy, Options(workers=2))
    assert sums(policy) == from_disk


@pytest.mark.parametrize("way", ["web", "get"])
def test_an_archive_restart_does_not_change_the_release(
    way: str, reads: Reads, everything: str, from_disk: str, archive: Orthanc
) -> None:
    policy = reads(way, everything)
    again = threading.Thread(target=lambda: (time.sleep(1.5), archive.start()))

    def fall() -> None:
        archive.kill()
        again.start()

    run(policy, ONE, progress=When("sanitize", fall))
    again.join()
    assert sums(policy) == from_disk


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [2, 4, 6])
def test_a_killed_run_resumes(seconds: float, reads: Reads, everything: str, from_disk: str) -> None:
    policy = reads("web", everything)
    command = [sys.executable, "-m", "medsanitize", "run", str(Path(policy.output).parent / "policy.yaml")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        time.sleep(seconds)
        process.kill()
    run(policy, ONE)
    assert sums(policy) == from_disk


@pytest.mark.parametrize("way", ["web", "get"])
def test_a_worklist_of_accession_numbers_selects_only_its_studies(
    way: str, reads: Reads, tmp_path: Path
) -> None:
    (tmp_path / "list.csv").write_text("AccessionNumber\nACCESSION1\nACCESSION3\nACCESSION1\n")
    policy = reads(way, f"worklist: {tmp_path / 'list.csv'}")
    result = run(policy, ONE)
    assert (result.objects, studies(policy)) == (6, 2)


@pytest.mark.parametrize("way", ["web", "get"])
def test_a_query_selects_matching_studies(way: str, reads: Reads) -> None:
    policy = reads(way, "query: {StudyDate: 20200102-20200103, Modality: CT}")
    run(policy, ONE)
    assert studies(policy) == 2


@pytest.mark.parametrize(
    ("way", "query"), [("web", "StudyTime: 07-08"), ("get", f"StudyTime: 07-08, PatientName: {CANARIES[0]}*")]
)
def test_names_and_times_are_compared_with_the_responses_of_an_archive(
    way: str, query: str, reads: Reads
) -> None:
    root = address_of(reads(way, f"query: {{StudyDate: '20200102', {query}}}").inputs[0])
    assert len(list(reader_of(root).walk(root))) == 3


def test_a_query_narrows_a_worklist(reads: Reads, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("AccessionNumber\nACCESSION1\nACCESSION3\n")
    policy = reads("web", f"worklist: {tmp_path / 'list.csv'}, query: {{StudyDate: '20200104'}}")
    result = run(policy, ONE)
    assert (studies(policy), result.quarantined) == (1, {"not-at-peer": 1})


@pytest.mark.parametrize("way", ["web", "get"])
def test_a_study_missing_in_the_archive_is_reported_in_a_row(way: str, reads: Reads, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("AccessionNumber\nACCESSION1\nELSEWHERE\n")
    result = run(reads(way, f"worklist: {tmp_path / 'list.csv'}"), ONE)
    assert (result.outcomes["released"], result.quarantined) == (3, {"not-at-peer": 1})


@pytest.mark.parametrize("way", ["web", "get", "move"])
def test_an_object_deleted_since_the_inventory_is_quarantined(
    way: str, reads: Reads, tmp_path: Path, archive: Orthanc
) -> None:
    lost = write_ct(tmp_path / "lost.dcm", 501, "P9", 9, AccessionNumber="LOST1")
    kept = write_ct(tmp_path / "kept.dcm", 502, "P9", 9, AccessionNumber="LOST1")
    archive.put([lost, kept])
    (tmp_path / "list.csv").write_text("AccessionNumber\nLOST1\n")
    uid = str(pydicom.dcmread(lost).SOPInstanceUID)
    watch = When("sanitize", lambda: archive.remove(uid))
    result = run(reads(way, f"worklist: {tmp_path / 'list.csv'}"), ONE, progress=watch)
    assert (result.outcomes["released"], result.quarantined) == (1, {"not-given-by-peer": 1})


def test_an_object_changed_since_the_inventory_is_quarantined(
    reads: Reads, tmp_path: Path, archive: Orthanc
) -> None:
    first = write_ct(tmp_path / "one.dcm", 601, "P8", 8, AccessionNumber="SWAP1")
    other = write_ct(tmp_path / "two.dcm", 601, "P8", 8, AccessionNumber="SWAP1", StudyDescription="other")
    archive.put([first])
    (tmp_path / "list.csv").write_text("AccessionNumber\nSWAP1\n")

    def swap() -> None:
        archive.remove(str(pydicom.dcmread(first).SOPInstanceUID))
        archive.put([other])

    result = run(reads("web", f"worklist: {tmp_path / 'list.csv'}"), ONE, progress=When("sanitize", swap))
    assert result.quarantined == {"changed-since-inventory": 1}


def test_a_port_in_use_is_reported_before_reading(reads: Reads, archive: Orthanc) -> None:
    policy = reads("move", "query: {StudyDate: '20200101'}")
    with (
        socket.create_server(("", archive.move_port)),
        pytest.raises(EnvironmentFailure, match="Cannot bind"),
    ):
        run(policy, ONE)


@pytest.mark.parametrize("way", ["web", "get"])
def test_a_process_connected_to_an_archive_exits_immediately(way: str, reads: Reads) -> None:
    root = address_of(reads(way, "query: {StudyDate: '20200101'}").inputs[0])
    done = subprocess.run([sys.executable, "-c", ASKS, os.fsdecode(root)], check=False, timeout=25)
    assert done.returncode == 0


def test_a_paged_list_is_read_completely(
    reads: Reads, everything: str, hospital: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dicomweb, "_PAGE", 2)
    root = address_of(reads("web", everything).inputs[0])
    assert len(list(reader_of(root).walk(root))) == len(list(hospital.iterdir()))


@pytest.mark.parametrize("wrong", ["calling: STRANGER", "dimse: OTHER@{}"])
def test_a_wrong_ae_title_is_reported_with_the_rejection_reason(
    wrong: str, archive: Orthanc, tmp_path: Path
) -> None:
    peer = wrong.format(archive.peer.partition("@")[2]) if "{" in wrong else f"dimse: {archive.peer}, {wrong}"
    policy = prepare(tmp_path, inputs=f"[{{{peer}, query: {{StudyDate: '20200101'}}}}]")
    with pytest.raises(
        EnvironmentFailure, match=r"does not (know the calling|answer to the called) AE title"
    ):
        run(policy, ONE)


def test_a_wrong_password_is_distinguished_from_an_archive_that_is_down(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = reads("web", "query: {StudyDate: '20200101'}")
    monkeypatch.setenv(VARIABLE, "steward:guessed")
    with pytest.raises(EnvironmentFailure, match="denies access"):
        run(policy, ONE)


def test_a_missing_credential_is_reported_first(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = reads("web", "query: {StudyDate: '20200101'}")
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(UsageError, match="contains no valid credential"):
        run(policy, ONE)


@pytest.mark.parametrize("way", ["web", "get"])
def test_log_release_and_state_contain_no_names(
    way: str, reads: Reads, caplog: pytest.LogCaptureFixture
) -> None:
    policy = reads(way, "query: {StudyDate: '20200102'}")
    with caplog.at_level(logging.DEBUG):
        run(policy, ONE)
    files = (path for root in (policy.output, policy.state) for path in Path(root).rglob("*"))
    content = caplog.text.encode() + b"".join(path.read_bytes() for path in files if path.is_file())
    assert not [one for one in (*CANARIES, "ACCESSION1", "1.3.76.13.65829") if one.encode() in content]


@pytest.mark.parametrize("way", ["web", "get"])
def test_an_archive_that_is_down_exits_5_before_writing(way: str, reads: Reads, archive: Orthanc) -> None:
    policy = reads(way, "query: {StudyDate: '20200101'}")
    archive.kill()
    try:
        with pytest.raises(EnvironmentFailure, match="cannot be used") as raised:
            run(policy, ONE)
    finally:
        archive.start()
    assert (raised.value.exit_code, list(Path(policy.state).glob("*.sqlite"))) == (5, [])
