"""The objects of a release with what their headers say, and their bytes, verified while they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from medsanitize.errors import IntegrityError
from medsanitize.release import layout
from medsanitize.release.manifest import read_objects
from medsanitize.release.manifest_file import read_batches
from medsanitize.release.research_index import INDEX_SCHEMA

_CHANGED = ("A released file is missing or changed", "Verify the release, and fetch it again")
_FOLDERS = ("PatientID", "StudyInstanceUID", "SeriesInstanceUID")


@dataclass(frozen=True, slots=True)
class ReleasedObject:
    """A row of the manifest, with the columns of the research index that are not null."""

    object_id: str
    path: str
    sha256: str
    bytes: int
    has_parts: bool
    described: dict[str, Any]


def released_objects(release: Path) -> Iterator[ReleasedObject]:
    """Yield the objects of a release in the order of its manifest.

    Raises
    ------
    IntegrityError
        The manifest is missing or damaged, or there is no research index for it, or a name in it leads out of
        the folder.
    """
    columns = ["object_id", "path", "sha256", "bytes", "parts"]
    rows = (row for batch in read_objects(release, columns) for row in batch.to_pylist())
    index = (row for batch in read_batches(release / layout.INDEX, INDEX_SCHEMA) for row in batch.to_pylist())
    for row, said in zip_longest(rows, index):
        if row is None or said is None or row["object_id"] != said["object_id"]:
            raise IntegrityError("Manifest and research index differ", _CHANGED[1])
        described = {name: value for name, value in said.items() if value is not None}
        _require_safe(row, described)
        has_parts = row["parts"] is not None
        yield ReleasedObject(row["object_id"], row["path"], row["sha256"], row["bytes"], has_parts, described)


def _require_safe(row: dict[str, Any], described: dict[str, Any]) -> None:
    """Check the names that become paths: those of a release that somebody else made may lead anywhere."""
    layout.require_safe(row["path"])
    for name in (row["object_id"], *(described[one] for one in _FOLDERS if described[one])):
        # A name of one segment: with a second one, "a/b" would be two folders.
        layout.require_safe(name.replace("/", "//"))


class VerifiedFile:
    """A released file that is read once, from start to end.

    Raises
    ------
    IntegrityError
        The file is missing; at its end: its digest is not that of the manifest.
    """

    def __init__(self, release: Path, row: ReleasedObject) -> None:
        try:
            self._file: BinaryIO = (release / row.path).open("rb")
        except OSError:
            raise IntegrityError(*_CHANGED) from None
        self._digest, self._expected, self._left = hashlib.sha256(), row.sha256, row.bytes

    def __enter__(self) -> VerifiedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes; with the last byte, the digest is compared."""
        found = self._file.read(size)
        self._digest.update(found)
        self._left -= len(found)
        if self._left < 0 or not found or self._left == 0:
            self._require_whole()
        return found

    def _require_whole(self) -> None:
        if self._left or self._digest.hexdigest() != self._expected:
            raise IntegrityError(*_CHANGED)
