"""Atomic writes and disk failures; names that are safe on all systems."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.errors import EnvironmentFailure, IntegrityError
from medsanitize.release.atomic_io import reserve_space, storage_errors, write_atomic
from medsanitize.release.canonical_json import canonical_json, document_json
from medsanitize.release.layout import is_safe, require_safe


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_replaced_atomically_without_leftovers(tmp_path: Path, sync: bool) -> None:
    write_atomic(tmp_path / "deep/file", b"old", sync=sync)
    write_atomic(tmp_path / "deep/file", b"new", sync=sync)
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "deep").iterdir()] == [("file", b"new")]


def test_a_full_disk_preserves_the_old_file_and_the_error_names_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "patient-name"
    write_atomic(target, b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "patient-name")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(EnvironmentFailure) as caught:
        write_atomic(target, b"new")
    assert str(caught.value) == "The disk is full. Free some space and run the same command again."
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("patient-name", b"old")]


def test_a_file_with_reserved_space_is_written_into_it(tmp_path: Path) -> None:
    reserve_space(tmp_path / "file")
    (taken,) = tmp_path.iterdir()
    room, inode = taken.stat().st_size, taken.stat().st_ino

    write_atomic(tmp_path / "file", b"new")

    assert room > 20_000
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"new")]
    assert (tmp_path / "file").stat().st_ino == inode


def test_space_that_cannot_be_reserved_is_not_yet_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    reserve_space(tmp_path / "file")
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize(
    "number",
    [
        errno.ESTALE,
        errno.ENOTCONN,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.EREMOTEIO,
        errno.ENOMEM,
        errno.ENFILE,
    ],
    ids=errno.errorcode.get,
)
def test_a_network_or_memory_failure_is_retryable(number: int) -> None:
    with pytest.raises(EnvironmentFailure, match="run the same command again"), storage_errors():
        raise OSError(number, os.strerror(number), "patient-name")


def test_a_defect_is_distinguished_from_a_failing_disk() -> None:
    with pytest.raises(FileNotFoundError), storage_errors():
        raise FileNotFoundError(errno.ENOENT, "gone")


@given(st.text(max_size=30))
def test_safe_paths_are_relative_and_need_no_quoting(path: str) -> None:
    if is_safe(path):
        assert path.isascii()
        assert path.isprintable()
        assert not set(path) & set(" \\:*?\"'<>|$`!;&()[]{}~#%^")
        assert not any(part.startswith(".") for part in path.split("/"))
        assert os.path.normpath(path) == path
        assert not os.path.isabs(path)


@pytest.mark.parametrize(
    "path", ["", "/x", "x/", "x//y", "..", "x/../y", ".x", "a b", "x\n", "é", "a\\b", "a" * 201]
)
def test_unsafe_paths_are_rejected_without_naming_them(path: str) -> None:
    with pytest.raises(IntegrityError) as caught:
        require_safe(path)
    assert len(path) < 4 or path not in str(caught.value)


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=5), st.none())))
def test_equal_json_gives_equal_bytes_in_any_key_order(content: dict[str, object]) -> None:
    turned = dict(reversed(content.items()))
    assert document_json(turned) == document_json(content)
    assert canonical_json(turned) == canonical_json(content)
