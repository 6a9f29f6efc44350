"""Slides of several files: which files of a folder belong to which slide.

The names come from the slides' own descriptions, read without believing them: a name that leaves the folder
is none. Whether the main file is a slide its bytes decide later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from medsanitize.pipeline.stores.protocol import SourceProblem
from medsanitize.sanitize.dicom.refusal import Refused
from medsanitize.sanitize.wsi.vendors import aperio_afi, hamamatsu_vms, mirax

INI = b"Slidedat.ini"
MOST_BYTES = 4 << 20
"""Of a description that are read."""
_MACRO = b".full"
_TIFFS = (b".tif", b".tiff")


class Folders(Protocol):
    """Where the folder lies; both raise `SourceProblem` where what is there cannot be read."""

    def read(self, path: bytes) -> bytes | None:
        """A small file's bytes, or None where there is no such file."""

    def names(self, folder: bytes) -> list[bytes]:
        """What lies in a folder; none where there is no such folder."""


@dataclass(frozen=True, slots=True, repr=False)
class Slides:
    """The slides of a folder.

    ``parts``: name of a main file -> paths of its companions, relative to the folder, sorted. ``unread``:
    names of main files, and of the folders of theirs, of which nobody can tell now what belongs to them.
    """

    parts: dict[bytes, tuple[bytes, ...]]
    unread: frozenset[bytes] = frozenset()

    def __repr__(self) -> str:
        return "Slides(...)"

    def less(self, mains: Iterable[bytes]) -> Slides:
        """The same, with slides of which a companion cannot be looked at, although it is there."""
        named = {main: {main, *(part.partition(b"/")[0] for part in self.parts[main])} for main in mains}
        parts = {main: others for main, others in self.parts.items() if main not in named}
        return Slides(parts, self.unread.union(*named.values()))


def companions(folder: bytes, names: Sequence[bytes], where: Folders) -> Slides:
    """The main files of slides in a folder, each with the further files that it names.

    Parameters
    ----------
    folder : bytes
        Path of the folder.
    names : sequence of bytes
        What lies in it.
    where : Folders
        Where it lies.
    """
    present = frozenset(names)
    found: dict[bytes, tuple[bytes, ...]] = {}
    unread: set[bytes] = set()
    macros = {os.path.splitext(name)[0]: name for name in names if name.lower().endswith(_MACRO)}
    for name in names:
        stem, suffix = os.path.splitext(name)
        try:
            parts = _named_by(name, folder, present, where)
        except SourceProblem:
            unread |= {name, stem} if suffix.lower() == b".mrxs" else {name}
            continue
        if suffix.lower() in _TIFFS and stem in macros:
            parts = (macros[stem],)
        if parts:
            found[name] = parts
    return Slides(found, frozenset(unread))


def _named_by(name: bytes, folder: bytes, present: frozenset[bytes], where: Folders) -> tuple[bytes, ...]:
    """The further files of one slide that its description names."""
    stem, suffix = os.path.splitext(name)
    ending = suffix.lower()
    if ending == b".mrxs" and stem in present:
        return _of_mirax(where, folder + b"/" + stem, stem)
    if ending in (b".vms", b".vmu"):
        named = _of_vms(where, folder + b"/" + name)
        return tuple(part for part in named if part in present and part != name)
    if ending == b".afi":
        listed = where.read(folder + b"/" + name) or b""
        return tuple(part for part in _plain(aperio_afi.companions(listed)) if part in present)
    return ()


def _of_mirax(where: Folders, folder: bytes, stem: bytes) -> tuple[bytes, ...]:
    ini = where.read(folder + b"/" + INI)
    if ini is None:
        return ()
    try:
        named = _plain(mirax.companions(ini))
        present = set(where.names(folder))
    except Refused:
        present = set()
    if not present:
        return (stem + b"/" + INI,)
    return tuple(stem + b"/" + part for part in named if part in present)


def _of_vms(where: Folders, path: bytes) -> tuple[bytes, ...]:
    ini = where.read(path)
    try:
        return _plain(hamamatsu_vms.companions(ini)) if ini is not None else ()
    except Refused:
        return ()


def _plain(names: frozenset[str]) -> tuple[bytes, ...]:
    """The names that can only lie in the folder itself, sorted."""
    encoded = (name.encode("utf-8", "replace") for name in names)
    return tuple(sorted(one for one in encoded if one not in (b"", b".", b"..") and not set(one) & {0, 47}))
