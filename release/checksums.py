"""SHA256SUMS in the format of ``sha256sum -c``, in the order in which a walk visits the files.

Writing it and comparing it with the folder merge two ordered streams, so memory does not grow with the number
of objects.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import IntegrityError
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.manifest import read_objects
from medsanitize.release.multi_file_objects import read_parts

# Two spaces: sha256sum's text mode marker. Names that it would escape are excluded by layout.is_safe.
_LINE: Final = re.compile(r"([0-9a-f]{64})  (.+)\n")
_RUN_AGAIN: Final = "Run the same command again; if it fails again, report a bug"


@dataclass(frozen=True, slots=True)
class Checksum:
    """A file of a release: relative path and SHA-256 (hex)."""

    path: str
    sha256: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """An entry found by a walk: ``kind`` is ``file``, ``folder`` (empty) or ``other`` (such as a link)."""

    path: str
    kind: str
    size: int = 0


def digest_file(path: Path) -> str:
    """Return the SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def walk_files(root: Path, under: str = "") -> Iterator[FolderEntry]:
    """Yield all files and empty folders below ``root``, in the order of `layout.path_order`.

    Parameters
    ----------
    root : Path
        The folder; links in it are reported as ``other`` and not followed.
    under : str
        Subfolder to start at, relative to ``root``.
    """
    with os.scandir(root / under) as entries:
        names = sorted(entries, key=lambda entry: entry.name)
    # Published releases have no empty folders, so one is a finding of verification.
    if under and not names:
        yield FolderEntry(under, "folder")
    for entry in names:
        path = f"{under}/{entry.name}" if under else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from walk_files(root, path)
        elif entry.is_file(follow_symlinks=False):
            yield FolderEntry(path, "file", entry.stat(follow_symlinks=False).st_size)
        else:
            yield FolderEntry(path, "other")


def manifest_checksums(release: Path) -> Iterator[Checksum]:
    """Yield the checksums of the data files that the object manifest states, in path order.

    Raises
    ------
    IntegrityError
        The manifest is damaged, or rows of one folder are not adjacent.
    """
    rows = (
        row
        for batch in read_objects(release, ["path", "sha256", "bytes", "parts"])
        for row in batch.to_pylist()
    )
    before: tuple[str, ...] = ()
    # Rows are ordered by pseudonym, files by name: only the files of one folder need sorting.
    for folder, group in groupby(rows, key=lambda row: str(row["path"]).rpartition("/")[0]):
        if layout.path_order(folder) <= before:
            raise IntegrityError("The object manifest is not ordered by path", _RUN_AGAIN)
        before = layout.path_order(folder)
        sums = (one for row in group for one in _sums_of(row))
        yield from sorted(sums, key=lambda one: layout.path_order(one.path))


def _sums_of(row: dict[str, Any]) -> Iterator[Checksum]:
    """Yield the files of one object, after checking that they agree with its row."""
    if row["parts"] is None:
        yield Checksum(row["path"], row["sha256"], row["bytes"])
        return
    try:
        listed = list(read_parts(row["path"], row["parts"]))
    except (ValueError, TypeError, IndexError):
        raise IntegrityError("The file list of an object is malformed", _RUN_AGAIN) from None
    if sum(size for _, size, _ in listed) != row["bytes"] or listed[0][0] != row["path"]:
        raise IntegrityError("The file list of an object contradicts its row", _RUN_AGAIN)
    for path, size, digest in listed:
        layout.require_safe(path)
        yield Checksum(path, digest, size)


def write_checksums(staging: Path) -> None:
    """Write SHA256SUMS. The digests of data files are taken from the manifest.

    Raises
    ------
    IntegrityError
        data/ does not contain exactly the files of the manifest, each of the stated size.
    EnvironmentFailure
        The disk is full or fails.
    """
    # Data files were digested when they were written; large releases are not read again.
    data = _matched(manifest_checksums(staging), staging)
    rest = [
        Checksum(found.path, digest_file(staging / found.path))
        for top in sorted(set(layout.TOP_LEVEL) - {layout.DATA} - layout.NOT_IN_SUMS)
        for found in _files_of(staging, top)
    ]
    rest.sort(key=lambda entry: layout.path_order(entry.path))
    merged = heapq.merge(data, rest, key=lambda entry: layout.path_order(entry.path))
    temporary = staging / f".{layout.SUMS}.tmp"
    with storage_errors():
        with temporary.open("w", encoding="ascii", newline="\n") as file:
            file.writelines(f"{entry.sha256}  {layout.require_safe(entry.path)}\n" for entry in merged)
        temporary.replace(staging / layout.SUMS)


def read_checksums(path: Path) -> Iterator[Checksum]:
    """Read SHA256SUMS strictly: safe paths, in order, and nothing else.

    Raises
    ------
    IntegrityError
        A line is not as `write_checksums` writes it.
    """
    before: tuple[str, ...] = ()
    with path.open("r", encoding="ascii", errors="replace", newline="") as file:
        for line in file:
            match = _LINE.fullmatch(line)
            if match is None or not layout.is_safe(match[2]) or layout.path_order(match[2]) <= before:
                raise IntegrityError(f"{layout.SUMS} is damaged", "Fetch the release again")
            before = layout.path_order(match[2])
            yield Checksum(match[2], match[1])


def _files_of(staging: Path, top: str) -> Iterator[FolderEntry]:
    path = staging / top
    if path.is_dir():
        yield from (found for found in walk_files(staging, top) if found.kind != "folder")
    elif path.exists():
        yield FolderEntry(top, "file")


def _matched(expected: Iterable[Checksum], staging: Path) -> Iterator[Checksum]:
    """Pass expected checksums on, checking that the staged files are exactly these."""
    staged = _files_of(staging, layout.DATA)
    for entry in expected:
        found = next(staged, None)
        if found is None or (found.path, found.kind, found.size) != (entry.path, "file", entry.size):
            raise IntegrityError("The staged files do not match the manifest", _RUN_AGAIN)
        yield entry
    if next(staged, None) is not None:
        raise IntegrityError("A staged file is not in the manifest", _RUN_AGAIN)
