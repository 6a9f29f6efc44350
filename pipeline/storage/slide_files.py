"""Slides of several files: which files of a folder belong to which slide.

The names come from the slides' own descriptions, read without believing them: a name that leaves the folder
is none. Whether the main file is a slide its bytes decide later.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.storage.protocol import SourceProblem
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideView, SourceFile
from medsanitize.sanitize.wsi.vendors import aperio_afi, hamamatsu_vms, mirax

INI = b"Slidedat.ini"
MOST_BYTES = 4 << 20
"""Of a description that are read."""
_MACRO = b".full"
"""What Trestle calls the picture of the whole glass."""
_TIFFS = (b".tif", b".tiff")
_SUFFIXES = (b".mrxs", b".vms", b".vmu", b".svs", b".ndpi", b".scn", b".bif", b".afi", b".czi", b".qptiff")


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


def group_slide_files(folder: bytes, names: Sequence[bytes], where: Folders) -> Slides:
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
    except Quarantined:
        present = set()
    if not present:
        return (stem + b"/" + INI,)
    return tuple(stem + b"/" + part for part in named if part in present)


def _of_vms(where: Folders, path: bytes) -> tuple[bytes, ...]:
    ini = where.read(path)
    try:
        return _plain(hamamatsu_vms.companions(ini)) if ini is not None else ()
    except Quarantined:
        return ()


def _plain(names: frozenset[str]) -> tuple[bytes, ...]:
    """The names that can only lie in the folder itself, sorted."""
    encoded = (name.encode("utf-8", "replace") for name in names)
    return tuple(sorted(one for one in encoded if one not in (b"", b".", b"..") and not set(one) & {0, 47}))


def is_slide_part(path: bytes) -> bool:
    """Whether a picture is the index of a slide, or named after a slide that lies beside it.

    Names are believed here because they only lead to a refusal.
    """
    folder, _, name = path.rpartition(b"/")
    name = name.lower()
    if name.endswith((*_SUFFIXES, _MACRO)):
        return True
    # Of a file in a store it is the walk that says what lies beside it.
    return path.startswith(b"/") and any(name.startswith(stem) for stem in _slides_in(folder))


def is_slide_companion(name: bytes, names: frozenset[bytes]) -> bool:
    """Whether a file is named after a slide among ``names``, which lie in one folder of a store."""
    return any(name.lower().startswith(stem) for stem in _stems(names))


@lru_cache(maxsize=4)
def _stems(names: frozenset[bytes]) -> frozenset[bytes]:
    stems = (os.path.splitext(name.lower()) for name in names)
    return frozenset(stem for stem, suffix in stems if suffix in _SUFFIXES)


@lru_cache(maxsize=64)
def _slides_in(folder: bytes) -> frozenset[bytes]:
    """Names, less their endings, of the slides in a folder.

    Raises
    ------
    EnvironmentFailure
        It could be listed when the inventory was taken, and cannot be now: a label might pass for a picture.
    """
    try:
        names = os.listdir(folder or b"/")
    except OSError:
        raise EnvironmentFailure(
            "A folder of the inputs can no longer be listed",
            "See that it is mounted and may be read, then run the same command again",
        ) from None
    return _stems(frozenset(names))


def slide_view(paths: Sequence[bytes], contents: Sequence[bytes | mmap.mmap]) -> SlideView:
    """The files as a slide's vendor module wants them: names relative to the folder of the main one."""
    folder = paths[0].rpartition(b"/")[0] + b"/"
    names = (os.fsdecode(path.removeprefix(folder)) for path in paths)
    return SlideView(tuple(SourceFile(name, data) for name, data in zip(names, contents, strict=True)))
