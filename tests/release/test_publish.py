"""Publishing: RELEASE.json last, fixed times and modes, and repair after a crash at any point."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.release.build import write_evidence
from medsanitize.release.canonical_json import document_json
from medsanitize.release.publish import EPOCH, publish, staged_digest
from medsanitize.release.release_json import self_digest
from medsanitize.release.verify import verify_release

Make = Callable[..., Any]
CHANGING = ("replace", "chmod", "utime", "rmdir", "fsync", "sync")


class Killed(BaseException):
    """Simulates a killed process."""


def picture(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything a reader can compare: names, modes, times, contents."""
    seen = {}
    for path in [folder, *folder.rglob("*")]:
        facts = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        seen[path.relative_to(folder).as_posix()] = (facts.st_mode, facts.st_mtime_ns, content)
    return seen


def fail_at(monkeypatch: pytest.MonkeyPatch, nth: int, failure: BaseException) -> list[int]:
    """Make the nth change of the file system fail; return a counter of changes."""
    calls = [0]
    for name in CHANGING:
        real = getattr(os, name)

        def wrapped(*args: Any, _real: Any = real, **kwargs: Any) -> Any:
            calls[0] += 1
            if calls[0] == nth:
                raise failure
            return _real(*args, **kwargs)

        monkeypatch.setattr(os, name, wrapped)
    return calls


@pytest.fixture(autouse=True)
def _quick_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sync", lambda: None)


@pytest.fixture
def ready(tmp_path: Path, make_staging: Make, summary: Make, signing_key: Path) -> Make:
    """Stage a complete release with evidence below a folder of the given name."""

    def make(name: str) -> Path:
        staging: Path = make_staging(tmp_path / name / ".staging", [b"one", b"two", b"three"])
        write_evidence(staging, summary(), signing_key=signing_key)
        return staging

    return make


def test_a_published_release_is_intact_and_staging_is_removed(ready: Make, summary: Make) -> None:
    staging = ready("r")
    publish(staging, staging.parent, summary())
    assert not staging.exists()
    assert str(verify_release(staging.parent, key=None)) == "intact, signer not checked"


def test_times_and_modes_are_fixed_for_files_and_folders(ready: Make, summary: Make) -> None:
    staging = ready("r")
    victim = next((staging / "data").rglob("*.dcm"))
    victim.chmod(0o600)
    publish(staging, staging.parent, summary())
    for mode, modified, _ in picture(staging.parent).values():
        assert modified == EPOCH * 10**9
        assert mode in (0o100644, 0o040755)


def test_release_json_states_identity_and_digests(ready: Make, summary: Make) -> None:
    staging = ready("r")
    publish(staging, staging.parent, summary(supersedes="0.9"))
    content = (staging.parent / "RELEASE.json").read_bytes()
    root = json.loads(content)
    assert document_json(root) == content
    assert root["digest"] == self_digest(root)
    assert (root["name"], root["version"], root["mode"], root["supersedes"]) == (
        "chest-ct",
        "1.0",
        "pseudonymous",
        "0.9",
    )
    assert set(root["digests"]) == {
        "SHA256SUMS",
        "attestation.dsse.json",
        "manifest/objects.parquet",
        "manifest/patients.parquet",
    }


def test_a_crash_at_any_change_is_repaired_by_a_rerun(
    ready: Make, summary: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ready("whole")
    publish(whole, whole.parent, summary())
    expected = picture(whole.parent)
    nth, survived = 0, False
    while not survived:
        nth += 1
        staging = ready(f"crash{nth}")
        with monkeypatch.context() as patch:
            fail_at(patch, nth, Killed())
            try:
                publish(staging, staging.parent, summary())
                survived = True
            except Killed:
                pass
        if not survived and (staging.parent / "RELEASE.json").exists():
            assert verify_release(staging.parent, key=None).status == "intact"
        publish(staging, staging.parent, summary())
        assert picture(staging.parent) == expected
    assert nth > 30


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_failing_disk_publishes_nothing_and_is_retryable(
    ready: Make, summary: Make, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for nth in range(1, 29, 4):
        staging = ready(f"disk{nth}")
        with monkeypatch.context() as patch:
            fail_at(patch, nth, OSError(number, "no", "secret-name"))
            with pytest.raises(EnvironmentFailure) as caught:
                publish(staging, staging.parent, summary())
        assert caught.value.exit_code == 5
        assert "secret-name" not in str(caught.value)
        assert not (staging.parent / "RELEASE.json").exists()
        publish(staging, staging.parent, summary())
        assert verify_release(staging.parent, key=None).status == "intact"


def test_empty_folders_are_not_published(ready: Make, summary: Make) -> None:
    staging = ready("r")
    (staging / "data/P9/2.25.1/2.25.2").mkdir(parents=True)
    publish(staging, staging.parent, summary())
    assert not (staging.parent / "data/P9").exists()


@pytest.mark.parametrize("foreign", ["link", "top"])
def test_foreign_files_prevent_publication(ready: Make, summary: Make, foreign: str) -> None:
    staging = ready("r")
    if foreign == "link":
        (staging / "tables/link.csv").symlink_to("/etc/hostname")
    else:
        (staging / "notes.txt").write_text("x")
    with pytest.raises(IntegrityError):
        publish(staging, staging.parent, summary())
    assert not (staging.parent / "RELEASE.json").exists()


def test_an_incomplete_staging_folder_is_rejected(staged: Path, summary: Make) -> None:
    with pytest.raises(IntegrityError, match="not complete"):
        publish(staged, staged.parent, summary())
    assert not (staged.parent / "RELEASE.json").exists()


def test_another_release_in_the_output_is_not_overwritten(
    make_release: Make, make_staging: Make, summary: Make, tmp_path: Path
) -> None:
    release = make_release(tmp_path / "r")
    before = picture(release)
    staging = make_staging(release / ".staging", [b"other"])
    write_evidence(staging, summary(), signing_key=None)
    with pytest.raises(UsageError, match="another release"):
        publish(staging, release, summary())
    assert {
        name: facts[2] for name, facts in picture(release).items() if not name.startswith(".staging")
    } == {name: facts[2] for name, facts in before.items()}
    assert (staging / "data").exists()


def test_publishing_again_with_another_summary_is_rejected(
    make_release: Make, summary: Make, tmp_path: Path
) -> None:
    release = make_release(tmp_path / "r")
    with pytest.raises(UsageError, match="another release"):
        publish(release / ".staging", release, summary(supersedes="0.1"))


def test_the_staged_digest_covers_data_and_tables_but_not_the_report(staged: Path, summary: Make) -> None:
    before = staged_digest(staged)
    write_evidence(staged, summary(), signing_key=None)
    assert staged_digest(staged) == before
    (staged / "tables/labels.csv").write_text("patient,finding\n")
    assert staged_digest(staged) != before
