"""A run opens containers: every file in them has an outcome, as if it were in a folder."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import shutil
import socket
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pydicom
import pytest
from medsanitize.pipeline.jobs.export_ledger import export_ledger
from medsanitize.pipeline.plan import plan
from medsanitize.pipeline.review.pages import make_review
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.stages import inventory
from medsanitize.pipeline.state.shards import Shard
from medsanitize.pipeline.storage.containers import reader
from medsanitize.pipeline.storage.sources import walk
from medsanitize.policies.model import Policy
from medsanitize.policies.other_files import ContainerLimits
from medsanitize.progress import Cancellation, Cancelled
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, MediaStorageDirectoryStorage

from tests.helpers.account import account
from tests.helpers.containers import disk_image, seven_zip, tarred
from tests.helpers.hospital import prepare, write_ct
from tests.helpers.other_files import KINDS, zipped

ONE = Options(workers=1)


def ct(number: int, folder: Path, **changes: object) -> bytes:
    return write_ct(folder / f"made{number}", number, **changes).read_bytes()  # type: ignore[arg-type]


@pytest.fixture
def images(tmp_path: Path) -> dict[str, bytes]:
    """Four slices by their path in an export."""
    return {f"DICOM/S{number % 2}/IM{number}": ct(number, tmp_path / "made") for number in range(4)}


@pytest.fixture
def policy_of(tmp_path: Path) -> Callable[..., Policy]:
    """Make a policy whose inputs are given files, in a folder of its own."""

    def made(files: dict[str, bytes], name: str = "w", **sections: str) -> Policy:
        for path, content in files.items():
            target = tmp_path / name / "export" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return prepare(tmp_path / name, **sections)

    return made


def released(policy: Policy) -> dict[str, str]:
    root = policy.output
    assert isinstance(root, Path)
    files = [path for path in (root / "data").rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_files_in_nested_containers_are_released_as_files_in_folders_are(
    images: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    plain = policy_of(images, "plain")
    names = list(images)
    inner = gzip.compress(tarred({name: images[name] for name in names[:2]}))
    outer = zipped({"inner.tar.gz": inner, names[2]: images[names[2]]})
    packed = policy_of({"export.zip": outer, names[3] + ".gz": gzip.compress(images[names[3]])}, "packed")
    assert (run(plain, ONE).exit_code, run(packed, ONE).exit_code) == (0, 0)
    assert released(packed) == released(plain)


def test_every_file_in_a_container_has_one_row_with_a_path_that_says_where(
    images: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    name = next(iter(images))
    inner = tarred({name: images[name], "../up": b"1"})
    policy = policy_of({"a.zip": zipped({"b.tar": inner, "viewer.exe": KINDS["windows-program"]})})
    run(policy, ONE)
    assert account(policy) == [
        ("a.zip", "dropped", "container-opened"),
        ("a.zip!/b.tar", "dropped", "container-opened"),
        ("a.zip!/viewer.exe", "quarantined", "other-file:windows-program"),
        ("a.zip!/b.tar!/../up", "quarantined", "member-name-unsafe"),
        (f"a.zip!/b.tar!/{name}", "released", ""),
    ]


@pytest.mark.containers
@pytest.mark.parametrize("form", ["iso", "7z"])
def test_a_disk_image_and_a_7z_are_opened(
    images: dict[str, bytes], policy_of: Callable[..., Policy], form: str
) -> None:
    content = (
        disk_image({name.split("/")[-1]: one for name, one in images.items()})
        if form == "iso"
        else seven_zip(images)
    )
    assert run(policy_of({"patient": content}), ONE).outcomes == {
        "released": 4,
        "dropped": 1,
        "quarantined": 0,
    }


def test_unpacked_files_are_removed_when_a_run_ends(
    images: dict[str, bytes], policy_of: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = policy_of({"a.zip": zipped(images)})
    seen = []
    inspect = inventory.peek_batch

    def spy(*args: object) -> object:
        done = inspect(*args)  # type: ignore[arg-type]
        paths = list(workspace_of(policy).unpacked.rglob("*"))
        seen.extend(path.stat().st_mode & 0o077 for path in (workspace_of(policy).unpacked, *paths))
        return done

    monkeypatch.setattr(inventory, "peek_batch", spy)
    run(policy, ONE)
    assert (len(seen) > 4, set(seen)) == (True, {0})
    assert not workspace_of(policy).unpacked.exists()


def test_a_plan_opens_containers_and_leaves_nothing(
    images: dict[str, bytes], policy_of: Callable[..., Policy], tmp_path: Path
) -> None:
    policy = policy_of({"a.zip": zipped({**images, "note": b"text\n"})})
    result = plan(policy, ONE)
    assert (result.outcomes, result.dropped, result.quarantined) == (
        {"released": 4, "dropped": 1, "quarantined": 1},
        {"container-opened": 1},
        {"other-file:text": 1},
    )
    assert {path.name for path in (tmp_path / "w").iterdir()} == {"export", "policy.yaml", "release.key"}


@pytest.mark.parametrize("action", ["drop", "quarantine"])
def test_a_policy_may_leave_containers_closed(
    images: dict[str, bytes], policy_of: Callable[..., Policy], action: str
) -> None:
    files = {"a.zip": zipped(images), "b": next(iter(images.values()))}
    result = run(policy_of(files, containers=f"{{action: {action}}}"), ONE)
    assert (result.dropped or result.quarantined) == {"container": 1}
    assert result.exit_code == (action == "quarantine")


def test_containers_are_opened_up_to_the_depth_of_the_policy(
    images: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    content = next(iter(images.values()))
    for number in range(3):
        content = zipped({f"{number}": content})
    result = run(
        policy_of({"a": content, "b": images["DICOM/S1/IM1"]}, containers="{limits: {depth: 2}}"), ONE
    )
    assert (result.dropped, result.quarantined) == ({"container-opened": 2}, {"container-too-deep": 1})


def test_a_bomb_is_one_quarantined_file(images: dict[str, bytes], policy_of: Callable[..., Policy]) -> None:
    files = {"bomb": zipped({"a": bytes(80 * 2**20), "b": b"1"}), "b": next(iter(images.values()))}
    result = run(policy_of(files), ONE)
    assert (result.outcomes["released"], result.quarantined) == (1, {"container-too-large": 1})


def test_a_bomb_in_harmless_layers_is_one_quarantined_file(
    images: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    layer = zipped({f"{number}": bytes(100_000) for number in range(2)})
    files = {
        "bomb": zipped({f"{number}": layer + bytes([number]) for number in range(9)} | images),
        "good": zipped({"inner": layer, **images}),
    }
    policy = policy_of(files, containers="{limits: {bytes: 1000000}}")
    result = run(policy, ONE)
    assert (result.quarantined["container-too-large"], result.outcomes["released"]) == (1, 4)
    assert [path for path, _, _ in account(policy) if path.startswith("bomb")] == ["bomb"]


class StopAfter(Cancellation):
    """Stops the run at the n-th check."""

    def __init__(self, checks: int) -> None:
        super().__init__()
        self.left = checks

    def check(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Cancelled(15)


@pytest.mark.parametrize("checks", [2, 3, 4, 5, 6, 8])
def test_an_interrupted_run_resumes_to_the_same_release(
    images: dict[str, bytes], policy_of: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch, checks: int
) -> None:
    monkeypatch.setattr(inventory, "BATCH", 1)
    files = {"a.zip": zipped({**images, "b.zip": zipped({"c": b"text\n"})})}
    whole, stopped = policy_of(files, "whole"), policy_of(files, "stopped")
    run(whole, ONE)
    with pytest.raises(Cancelled):
        run(stopped, ONE, cancellation=StopAfter(checks))
    result = run(stopped, ONE)
    assert (released(stopped), account(stopped)) == (released(whole), account(whole))
    assert result.objects == 7


@pytest.mark.parametrize("checks", [3, 4, 5, 6])
def test_files_added_after_an_interruption_are_found(
    images: dict[str, bytes], policy_of: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch, checks: int
) -> None:
    monkeypatch.setattr(inventory, "BATCH", 1)
    policy = policy_of({"a.zip": zipped(images)})
    with pytest.raises(Cancelled):
        run(policy, ONE, cancellation=StopAfter(checks))
    policy_of({"b": b"a note\n"})
    result = run(policy, ONE)
    assert (result.objects, result.quarantined) == (6, {"other-file:text": 1})


def test_what_a_killed_run_unpacked_under_other_limits_is_not_used(
    images: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    files = {"a.zip": zipped(images), "b": next(iter(images.values()))}
    run(policy_of(files), Options(workers=1, inventory_only=True))
    result = run(policy_of(files, containers="{limits: {members: 2}}"), ONE)
    assert result.quarantined == {"container-too-many-members": 1}


def test_two_processes_that_unpack_one_container_do_not_disturb_each_other(
    images: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = zipped(images)
    (tmp_path / "a.zip").write_bytes(content)
    monkeypatch.setattr(reader, "_folder", tmp_path / "unpacked")
    monkeypatch.setattr(reader, "_limits", ContainerLimits())
    found = next(walk((tmp_path / "a.zip",)))
    made, unpack = [], reader.unpack

    def slow(*args: object) -> object:
        # Meanwhile, another process completes the same.
        monkeypatch.setattr(reader, "unpack", unpack)
        reader._unpack_into_place(found.path, content, reader._mark(found.size, found.times))
        made.extend(path.stat().st_ino for path in (tmp_path / "unpacked").glob("*/mark"))
        return unpack(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "unpack", slow)
    reader.open_container(found, content)
    assert [path.stat().st_ino for path in (tmp_path / "unpacked").glob("*/mark")] == made


def test_shards_read_the_files_that_the_inventory_unpacked(
    images: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    files = {"a.zip": zipped(images)}
    whole, parted = policy_of(files, "whole"), policy_of(files, "parted")
    run(whole, ONE)
    run(parted, Options(workers=1, inventory_only=True))
    assert workspace_of(parted).unpacked.exists()
    for index in (1, 2):
        run(parted, Options(workers=1, shard=Shard(index, 2)))
    run(parted, ONE)
    assert released(parted) == released(whole)
    assert not workspace_of(parted).unpacked.exists()


def test_a_container_that_changed_after_the_inventory_is_not_read(
    images: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    policy = policy_of({"a.zip": zipped(images)})
    run(policy, Options(workers=1, inventory_only=True))
    shutil.rmtree(workspace_of(policy).unpacked)
    (policy.state.parent / "export" / "a.zip").write_bytes(zipped(dict(list(images.items())[:3])))
    assert run(policy, ONE).outcomes == {"released": 3, "dropped": 1, "quarantined": 0}


# -- files that are no images -------------------------------------------------------------------------


def test_kinds_are_counted_and_the_policy_leaves_some_out(
    images: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    files = {"b": images["DICOM/S0/IM0"], **{f"{kind}.dcm": content for kind, content in KINDS.items()}}
    result = run(policy_of(files, ignore="[pdf, text, ds-store]"), ONE)
    assert result.dropped == {"ignored:ds-store": 1, "ignored:pdf": 1, "ignored:text": 1}
    assert result.quarantined == {
        f"other-file:{kind}": 1 for kind in sorted(KINDS) if kind not in ("pdf", "text", "ds-store")
    }


def test_sockets_and_unreadable_files_are_said_and_nothing_hangs(
    images: dict[str, bytes],
    policy_of: Callable[..., Policy],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = policy_of({"a": images["DICOM/S0/IM0"]})
    export = policy.state.parent / "export"
    os.mkfifo(export / "pipe")
    os.link(export / "a", export / "hard-link")
    (export / "empty").write_bytes(b"")
    monkeypatch.chdir(export)  # the address of a socket may have 107 bytes
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
    result = run(policy, ONE)
    assert result.quarantined == {"empty-file": 1, "other-file:special": 2}
    assert (result.dropped, result.outcomes["released"]) == ({"duplicate-bytes": 1}, 1)


# -- DICOMDIR -----------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> dict[str, bytes]:
    """The files of a patient disk: three slices and their DICOMDIR, the last without UID in its record."""
    files = {f"DICOM/IM{number}": ct(number, tmp_path / "disk") for number in range(3)}
    directory = Dataset()
    directory.FileSetID = "DISK"
    directory.DirectoryRecordSequence = []
    for path, content in files.items():
        record = Dataset()
        record.RecordInUseFlag, record.DirectoryRecordType = 0xFFFF, "IMAGE"
        record.ReferencedFileID = path.split("/")
        if path != "DICOM/IM2":
            record.ReferencedSOPInstanceUIDInFile = pydicom.dcmread(BytesIO(content)).SOPInstanceUID
        directory.DirectoryRecordSequence.append(record)
    return {**files, "DICOMDIR": dicomdir(directory)}


def dicomdir(directory: Dataset) -> bytes:
    directory.file_meta = FileMetaDataset()
    directory.file_meta.MediaStorageSOPClassUID = MediaStorageDirectoryStorage
    directory.file_meta.MediaStorageSOPInstanceUID = "1.2.3"
    directory.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    target = BytesIO()
    directory.save_as(target, enforce_file_format=True)
    return target.getvalue()


def gate_of(result: RunResult) -> tuple[str, str]:
    return next(
        (gate.result, gate.detail) for gate in result.gates if gate.name == "files that a DICOMDIR lists"
    )


def test_a_complete_disk_passes(disk: dict[str, bytes], policy_of: Callable[..., Policy]) -> None:
    result = run(policy_of(dict(disk)), ONE)
    assert gate_of(result) == ("passed", "1 DICOMDIR of the inputs lists 3 files; all are in the inputs.")
    assert (result.exit_code, result.dropped) == (0, {"ignored:dicomdir": 1})


@pytest.mark.parametrize("lost", ["DICOM/IM1", "DICOM/IM2"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_is_listed_and_missing_flags_the_gate(
    disk: dict[str, bytes], policy_of: Callable[..., Policy], packed: bool, lost: str
) -> None:
    files = dict(disk)
    files.pop(lost)
    result = run(policy_of({"cd.zip": zipped(files)} if packed else files), ONE)
    assert gate_of(result) == (
        "flagged",
        "1 DICOMDIR of the inputs lists 3 files; 1 of them is not in the inputs.",
    )


def test_the_account_and_the_review_page_name_what_is_missing(
    disk: dict[str, bytes], policy_of: Callable[..., Policy], tmp_path: Path
) -> None:
    files = dict(disk)
    lost = "DICOM/IM1"
    files.pop(lost)
    policy = policy_of({"cd.zip": zipped({**files, "a.pdf": KINDS["pdf"]})})
    run(policy, ONE)
    counts = export_ledger(policy, uids=None, patients=None, files=tmp_path / "files.csv")
    rows = list(csv.reader((tmp_path / "files.csv").read_text().splitlines()))
    root = f"{policy.inputs[0]}/cd.zip"
    assert rows[:2] == [
        ["path", "kind", "outcome", "rule"],
        [root, "container", "dropped", "container-opened"],
    ]
    assert rows[-1] == [f"{root}!/{lost}", "", "missing", "listed-but-missing"]
    assert [f"{root}!/a.pdf", "other", "quarantined", "other-file:pdf"] in rows
    assert counts == {"files": 6}
    page = make_review(policy, Cancellation(), "").pages[0].read_text()
    assert f"cd.zip!/{lost}" in page
    assert "cd.zip!/a.pdf" in page


def test_a_dicomdir_that_lists_no_file_is_not_compared(
    disk: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    directory = Dataset()
    directory.DirectoryRecordSequence = []
    result = run(policy_of({**disk, "DICOMDIR": dicomdir(directory)}), ONE)
    assert gate_of(result) == ("not_applicable", "1 DICOMDIR of the inputs lists 0 files.")


def test_files_that_were_moved_are_found_by_their_uid_and_damaged_ones_by_their_path(
    disk: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    files = dict(disk)
    first, second, _ = sorted(name for name in files if name != "DICOMDIR")
    files["elsewhere"] = files.pop(first)
    files[second.lower()] = files.pop(second)[:200]
    result = run(policy_of(files), ONE)
    assert gate_of(result)[0] == "passed"
    assert result.outcomes["quarantined"] == 1


def test_a_dicomdir_that_cannot_be_read_is_quarantined(
    disk: dict[str, bytes], policy_of: Callable[..., Policy]
) -> None:
    files = dict(disk)
    files["DICOMDIR"] = files["DICOMDIR"][:-20]
    assert run(policy_of(files), ONE).quarantined == {"dicomdir-unreadable": 1}
