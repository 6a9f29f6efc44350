"""The files of an opened container as entries of a walk, with multi-file slides grouped as in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from medsanitize.pipeline.storage.containers.address import address_inside
from medsanitize.pipeline.storage.containers.unpacking import Member, stored_name
from medsanitize.pipeline.storage.protocol import SourceEntry, Version
from medsanitize.pipeline.storage.slide_files import (
    MAX_DESCRIPTION_BYTES,
    group_slide_files,
    is_slide_companion,
)
from medsanitize.release.atomic_io import storage_errors


def entries_of_members(
    container: bytes, members: Sequence[Member], place: Path, version: Version
) -> Iterator[SourceEntry]:
    """Yield an entry for every file of a container; the parts of a slide belong to its main file.

    Parameters
    ----------
    container : bytes
        Address of the container.
    members : sequence of Member
        Its files.
    place : Path
        Folder in which they are stored.
    version : Version
        Version of the container.
    """
    found = {
        one.name: SourceEntry(address_inside(container, one.name), "file", one.size, version)
        for one in members
        if not one.rule
    }
    folders = _Folders(found, place)
    parts = folders.slides()
    taken = frozenset(name for names in parts.values() for name in names)
    for one in members:
        if one.rule:
            yield SourceEntry(address_inside(container, one.name), one.rule, one.size, version)
        elif one.name not in taken:
            entry = found[one.name]
            folder, _, name = one.name.rpartition(b"/")
            yield SourceEntry(
                entry.path,
                entry.sort,
                entry.size,
                entry.times,
                tuple(found[part] for part in parts.get(one.name, ())),
                is_slide_companion(name, folders.files_of(folder)),
            )


class _Folders:
    """The folders of a container, as the grouping of slides reads them."""

    def __init__(self, names: Iterable[bytes], place: Path) -> None:
        self._place = place
        self._files: dict[bytes, set[bytes]] = {}
        self._names: dict[bytes, set[bytes]] = {}
        for path in names:
            folder, _, name = path.rpartition(b"/")
            self._files.setdefault(folder, set()).add(name)
            while name not in self._names.setdefault(folder, set()):
                self._names[folder].add(name)
                folder, _, name = folder.rpartition(b"/")
                if not name:
                    break
        self._frozen = {folder: frozenset(found) for folder, found in self._files.items()}

    def files_of(self, folder: bytes) -> frozenset[bytes]:
        """Return the names of the files directly in a folder."""
        return self._frozen.get(folder, frozenset())

    def slides(self) -> dict[bytes, tuple[bytes, ...]]:
        """Return the parts of every multi-file slide by its main file."""
        found = {}
        for folder, names in self._names.items():
            prefix = folder + b"/" if folder else b""
            for main, parts in group_slide_files(folder, sorted(names), self).parts.items():
                present = (part for part in parts if self._has(prefix + part))
                found[prefix + main] = tuple(prefix + part for part in present)
        return found

    def read(self, path: bytes) -> bytes | None:
        """Read the beginning of a file."""
        name = path.lstrip(b"/")
        if not self._has(name):
            return None
        with storage_errors(), (self._place / stored_name(name)).open("rb") as file:
            return file.read(MAX_DESCRIPTION_BYTES + 1)

    def names(self, folder: bytes) -> list[bytes]:
        """List the names in a folder."""
        return sorted(self._names.get(folder.lstrip(b"/"), ()))

    def _has(self, path: bytes) -> bool:
        folder, _, name = path.rpartition(b"/")
        return name in self._files.get(folder, ())
