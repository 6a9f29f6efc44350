"""Partial files are written in separate folders: a worker that dies leaves nothing in the release."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pydicom
import pytest
from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.engines.partial_files import (
    PARTIAL_FOLDER,
    make_partial_folder,
    partial_files,
    remove_partial_folder,
)
from medsanitize.pipeline.engines.worker import Setup, Worker
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.stages import sanitize
from medsanitize.policies.model import Policy
from medsanitize.sanitize.pseudonyms import derive_sub_keys

from tests.helpers.hospital import KEY, prepare, write_ct

ONE = Options(workers=1)
MARK = bytes.fromhex("deadbeefdeadbeef")
# The worker that writes the marked object is killed half-way, as by the out-of-memory killer.
DEADLY = f"""
import os
from medsanitize.pipeline.stages import sanitize
real = sanitize._write_all
def deadly(descriptor, block):
    if bytes.fromhex("{MARK.hex()}") in bytes(block):
        os.write(descriptor, bytes(block)[: len(block) // 2])
        os.kill(os.getpid(), {int(signal.SIGKILL)})
    real(descriptor, block)
sanitize._write_all = deadly
"""


@pytest.fixture
def project(tmp_path: Path) -> Policy:
    for number in range(4):
        write_ct(tmp_path / "export" / f"i{number}.dcm", number)
    marked = tmp_path / "export" / "i2.dcm"
    data = pydicom.dcmread(marked)
    data.PixelData = MARK + data.PixelData[len(MARK) :]
    data.save_as(marked)
    return prepare(tmp_path)


@pytest.fixture
def staging(project: Policy) -> Path:
    folder = project.output / ".staging"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def worker(project: Policy, staging: Path) -> Worker:
    return Setup(project, derive_sub_keys(KEY, scope="project"), staging, keep_links=False).worker()


def test_a_worker_crash_during_a_write_costs_only_its_object(project: Policy, tmp_path: Path) -> None:
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(DEADLY)
    command = [sys.executable, "-m", "medsanitize", "run", "policy.yaml", "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "hook")}

    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)

    assert done.returncode == 1
    assert len(list(project.output.rglob("*.dcm"))) == 3
    assert not (project.output / ".staging").exists()


def test_a_failed_write_leaves_no_file(project: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sanitize._blocks

    def failing(*arguments: object) -> Iterator[bytes | memoryview]:
        for block in real(*arguments):  # type: ignore[arg-type]
            yield block
            if MARK in bytes(block):
                raise ValueError

    monkeypatch.setattr(sanitize, "_blocks", failing)
    done = run(project, ONE)

    assert (done.ending, dict(done.quarantined)) == ("published", {"internal-error": 1})
    assert len(list(project.output.rglob("*.dcm"))) == 3


def test_files_of_an_object_are_renamed_together(worker: Worker, staging: Path) -> None:
    make_partial_folder(staging)
    with partial_files(worker, 7) as drafts:
        assert drafts is not None
        for name in ("a", "b"):
            os.close(drafts.begin(f"{staging}/data/p/{name}"))
        assert not (staging / "data").exists()
        drafts.place()

    assert sorted(path.name for path in (staging / "data" / "p").iterdir()) == ["a", "b"]
    assert not list((staging / PARTIAL_FOLDER).iterdir())


def late(worker: Worker, staging: Path) -> None:
    with partial_files(worker, 7) as drafts:
        assert drafts is not None
        os.close(drafts.begin(f"{staging}/data/p/a"))


def elsewhere(worker: Worker, staging: Path) -> None:
    worker.ensure_folder(f"{staging}/data/p")


@pytest.mark.parametrize(("deed", "published"), [(late, False), (late, True), (elsewhere, True)])
def test_a_late_worker_writes_nothing(
    worker: Worker, staging: Path, deed: Callable[[Worker, Path], None], published: bool
) -> None:
    make_partial_folder(staging)
    remove_partial_folder(staging)
    if published:
        staging.rmdir()

    with pytest.raises(EnvironmentFailure, match="no longer exists"):
        deed(worker, staging)

    assert not staging.exists() or not list(staging.iterdir())
