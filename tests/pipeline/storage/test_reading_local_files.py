"""Local files: errors of a single file, and errors of the machine or a mount."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from typing import Any

import pytest
from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.storage.local import local_root
from medsanitize.pipeline.storage.protocol import LARGE
from medsanitize.pipeline.storage.slide_files import is_slide_part
from medsanitize.pipeline.storage.sources import SourceProblem, open_source, stamp_of, walk
from medsanitize.sanitize.pseudonyms import derive_sub_keys

SEAL = Seal(derive_sub_keys(bytes(range(64)), scope="project"))
NOT_OF_A_FILE = (
    errno.ESTALE,
    errno.ENOTCONN,
    errno.ETIMEDOUT,
    errno.EHOSTDOWN,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
)
OF_A_FILE = (errno.EIO, errno.EACCES, errno.ENOENT, errno.ELOOP)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    (tmp_path / "export" / "p").mkdir(parents=True)
    (tmp_path / "export" / "p" / "a").write_bytes(b"bytes")
    (tmp_path / "export" / "b").write_bytes(b"others")
    return tmp_path / "export"


def fail(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, number: int, ending: str = "") -> None:
    """Let a function fail for paths with this ending."""
    real = getattr(place, name)

    def failing(first: Any, *arguments: Any, **settings: Any) -> Any:
        if isinstance(first, int) or os.fsdecode(first).endswith(ending):
            raise OSError(number, os.strerror(number))
        return real(first, *arguments, **settings)

    monkeypatch.setattr(place, name, failing)


def read(export: Path) -> bytes:
    """Read the file of the folder p as found by the walk."""
    found = next(one for one in walk([export]) if one.path.endswith(b"/p/a"))
    with open_source(found.path, SEAL, stamp_of(SEAL, found)) as content:
        return bytes(content)


def sorts(export: Path) -> dict[str, str]:
    root = os.fsencode(export) + b"/"
    return {os.fsdecode(one.path.removeprefix(root)): one.sort for one in walk([export])}


@pytest.mark.parametrize("number", NOT_OF_A_FILE, ids=errno.errorcode.get)
@pytest.mark.parametrize("name", ["open", "fstat", "read"])
def test_a_machine_or_mount_error_is_no_file_error(
    export: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    with monkeypatch.context() as failing:
        fail(failing, os, name, number)
        with pytest.raises(EnvironmentFailure):
            read(export)


@pytest.mark.parametrize("number", OF_A_FILE, ids=errno.errorcode.get)
@pytest.mark.parametrize("name", ["open", "read"])
def test_a_damaged_file_is_a_file_error(
    export: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    fail(monkeypatch, os, name, number)
    with pytest.raises(SourceProblem, match="unreadable"):
        read(export)


def test_lack_of_memory_is_no_error_of_a_large_file(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (export / "p" / "a").write_bytes(bytes(LARGE + 1))
    fail(monkeypatch, mmap, "mmap", errno.ENOMEM)
    with pytest.raises(EnvironmentFailure, match="Out of memory"):
        read(export)


@pytest.mark.parametrize("number", NOT_OF_A_FILE, ids=errno.errorcode.get)
@pytest.mark.parametrize("name", ["lstat", "listdir"])
def test_a_machine_or_mount_error_is_no_folder_error(
    export: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    fail(monkeypatch, os, name, number, "/p")
    with pytest.raises(EnvironmentFailure):
        sorts(export)


@pytest.mark.parametrize("number", OF_A_FILE, ids=errno.errorcode.get)
@pytest.mark.parametrize("name", ["lstat", "listdir"])
def test_a_damaged_folder_is_a_folder_error(
    export: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    fail(monkeypatch, os, name, number, "/p")
    assert sorts(export) == {"p": "unlisted", "b": "file"}


@pytest.mark.parametrize("name", ["lstat", "listdir"])
def test_an_input_that_cannot_be_listed_ends_the_walk(
    export: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fail(monkeypatch, os, name, errno.EIO, "/export")
    with pytest.raises(EnvironmentFailure, match="input"):
        sorts(export)


def test_messages_contain_no_path(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, os, "open", errno.ESTALE)
    with pytest.raises(EnvironmentFailure) as failure:
        read(export)
    assert "export" not in str(failure.value)


def test_an_unlistable_folder_does_not_hide_a_slide_next_to_a_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "case1.svs").write_bytes(b"")
    label = os.fsencode(tmp_path / "case1_label.jpg")
    with monkeypatch.context() as failing:
        fail(failing, os, "listdir", errno.ESTALE)
        with pytest.raises(EnvironmentFailure):
            is_slide_part(label)
    assert is_slide_part(label)


def test_entries_common_to_file_systems_do_not_identify_an_input(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "a").mkdir()
    assert [name for name, _ in local_root(os.fsencode(tmp_path)).entries] == [b"a"]


# -- slides of several files --------------------------------------------------------------

VMS = b"[Virtual Microscope Specimen]\nMapFile=map.jpg\nMacroImage=macro.jpg\nImageFile=a.jpg\n"
MIRAX = b"[GENERAL]\n[HIERARCHICAL]\nINDEXFILE=Index.dat\n[DATAFILE]\nFILE_0=Data0000.dat\n"
TRANSIENT = (errno.EIO, errno.EACCES, errno.EAGAIN, errno.EINTR)


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """A Hamamatsu slide next to a picture, and a MIRAX slide in another folder."""
    files = {
        "export/h/s.vms": VMS,
        **{f"export/h/{name}.jpg": b"jpeg" for name in ("map", "macro", "a", "other")},
        "export/m/s.mrxs": b"",
        "export/m/s/Slidedat.ini": MIRAX,
        "export/m/s/Index.dat": b"index",
        "export/m/s/Data0000.dat": b"data",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path / "export"


def read_as(export: Path) -> dict[str, tuple[str, int, bool]]:
    """Results of the walk: kind, number of further files, and whether it is near a slide."""
    root = os.fsencode(export) + b"/"
    return {
        os.fsdecode(one.path.removeprefix(root)): (one.sort, len(one.parts), one.near_slide)
        for one in walk([export])
    }


def test_each_multi_file_slide_is_one_object(scans: Path) -> None:
    assert read_as(scans) == {
        "h/s.vms": ("file", 3, False),
        "h/other.jpg": ("file", 0, False),
        "m/s.mrxs": ("file", 3, False),
    }


@pytest.mark.parametrize("number", TRANSIENT, ids=errno.errorcode.get)
def test_an_unreadable_description_does_not_turn_slide_parts_into_pictures(
    scans: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    fail(monkeypatch, os, "open", number, "s.vms")
    found = read_as(scans)
    pictures = [name for name in found if name.endswith(".jpg")]
    assert found["h/s.vms"][0] == "unlisted"
    assert [found[name] for name in pictures] == [("file", 0, True)] * 4


def test_only_pictures_in_the_folder_of_such_a_description_are_affected(
    scans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scans / "s.vms").write_bytes(VMS)
    (scans / "p").mkdir()
    for name in ("a.jpg", "p/a.jpg"):
        (scans / name).write_bytes(b"jpeg")
    fail(monkeypatch, os, "open", errno.EIO, "s.vms")
    found = read_as(scans)
    assert [found[name][2] for name in ("a.jpg", "h/a.jpg", "p/a.jpg")] == [True, True, False]


@pytest.mark.parametrize("number", TRANSIENT, ids=errno.errorcode.get)
@pytest.mark.parametrize(
    ("name", "ending"), [("open", "s/Slidedat.ini"), ("listdir", "m/s"), ("lstat", "Index.dat")]
)
def test_a_slide_with_an_unreadable_part_is_quarantined_with_all_its_files(
    scans: Path, monkeypatch: pytest.MonkeyPatch, name: str, ending: str, number: int
) -> None:
    fail(monkeypatch, os, name, number, ending)
    found = {name: sort for name, (sort, *_) in read_as(scans).items() if name.startswith("m/")}
    assert found == {"m/s.mrxs": "unlisted", "m/s": "unlisted"}


@pytest.mark.parametrize("number", NOT_OF_A_FILE, ids=errno.errorcode.get)
@pytest.mark.parametrize(("name", "ending"), [("open", "s.vms"), ("listdir", "m/s"), ("lstat", "Index.dat")])
def test_a_machine_or_mount_error_is_no_slide_error(
    scans: Path, monkeypatch: pytest.MonkeyPatch, name: str, ending: str, number: int
) -> None:
    fail(monkeypatch, os, name, number, ending)
    with pytest.raises(EnvironmentFailure):
        read_as(scans)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ELOOP], ids=errno.errorcode.get)
def test_without_a_description_files_are_handled_separately(
    scans: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    fail(monkeypatch, os, "open", number, "s.vms")
    assert read_as(scans)["h/a.jpg"] == ("file", 0, False)
