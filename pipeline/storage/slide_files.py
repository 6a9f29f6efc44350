"""Multi-file slides: which files of a folder belong to which slide.

The names come from the slides' own descriptions, which are not trusted: a name that leaves the folder is
ignored. Whether the main file really is a slide is decided later, from its bytes.
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
# Bytes of a description that are read.
MAX_DESCRIPTION_BYTES = 4 << 20
# Suffix of Trestle's macro image of the whole glass.
_MACRO = b".full"
_TIFFS = (b".tif", b".tiff")
_SUFFIXES = (b".mrxs", b".vms", b".vmu", b".svs", b".ndpi", b".scn", b".bif", b".afi", b".czi", b".qptiff")


class Folders(Protocol):
    """Access to a folder; both methods raise ``SourceProblem`` if what exists cannot be read."""

    def read(self, path: bytes) -> bytes | None:
        """Return a small file's content, or None if it does not exist."""

    def names(self, folder: bytes) -> list[bytes]:
        """List the names in a folder; an absent folder has none."""


@dataclass(frozen=True, slots=True, repr=False)
class Slides:
    """The slides of a folder.

    Attributes
    ----------
    parts : dict
        Name of a main file to the paths of its companions, relative to the folder, sorted.
    unread : frozenset of bytes
        Names of main files, and of their folders, whose companions are unknown because a description or
        companion cannot be read.
    """

    parts: dict[bytes, tuple[bytes, ...]]
    unread: frozenset[bytes] = frozenset()

    def __repr__(self) -> str:
        return "Slides(...)"

    def less(self, mains: Iterable[bytes]) -> Slides:
        """Return a copy without the slides that have an unreadable companion; these become ``unread``."""
        named = {main: {main, *(part.partition(b"/")[0] for part in self.parts[main])} for main in mains}
        parts = {main: others for main, others in self.parts.items() if main not in named}
        return Slides(parts, self.unread.union(*named.values()))


def group_slide_files(folder: bytes, names: Sequence[bytes], where: Folders) -> Slides:
    """Group the files of a folder into slides: main files and the companions that they name.

    Parameters
    ----------
    folder : bytes
        Path of the folder.
    names : sequence of bytes
        Names in the folder.
    where : Folders
        Reads the folder.
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
        # Trestle slides name no companions: main file and macro share the stem.
        if suffix.lower() in _TIFFS and stem in macros:
            parts = (macros[stem],)
        if parts:
            found[name] = parts
    return Slides(found, frozenset(unread))


def _named_by(name: bytes, folder: bytes, present: frozenset[bytes], where: Folders) -> tuple[bytes, ...]:
    """Return the companions that one slide's description names."""
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
    """Keep the names that can only be directly in the folder, sorted."""
    encoded = (name.encode("utf-8", "replace") for name in names)
    # 0 and 47 (the slash) cannot be part of a file name.
    return tuple(sorted(one for one in encoded if one not in (b"", b".", b"..") and not set(one) & {0, 47}))


def is_slide_part(path: bytes) -> bool:
    """Report whether a picture is a slide's index or is named after a slide in the same folder.

    Names are trusted here because they only lead to quarantine.
    """
    folder, _, name = path.rpartition(b"/")
    name = name.lower()
    if name.endswith((*_SUFFIXES, _MACRO)):
        return True
    # For a file in a store, the walk has already compared the names in its folder.
    return path.startswith(b"/") and any(name.startswith(stem) for stem in _slides_in(folder))


def is_slide_companion(name: bytes, names: frozenset[bytes]) -> bool:
    """Report whether a file is named after a slide among ``names``, the names of one folder of a store."""
    return any(name.lower().startswith(stem) for stem in _stems(names))


@lru_cache(maxsize=4)
def _stems(names: frozenset[bytes]) -> frozenset[bytes]:
    stems = (os.path.splitext(name.lower()) for name in names)
    return frozenset(stem for stem, suffix in stems if suffix in _SUFFIXES)


@lru_cache(maxsize=64)
def _slides_in(folder: bytes) -> frozenset[bytes]:
    """List the stems of the slides in a folder.

    Raises
    ------
    EnvironmentFailure
        The folder can no longer be listed. To continue would let a slide label pass for an ordinary picture.
    """
    try:
        names = os.listdir(folder or b"/")
    except OSError:
        raise EnvironmentFailure(
            "A folder of the inputs can no longer be listed",
            "Check that it is mounted and readable, then run the same command again",
        ) from None
    return _stems(frozenset(names))


def slide_view(paths: Sequence[bytes], contents: Sequence[bytes | mmap.mmap]) -> SlideView:
    """Create the slide view that vendor modules take, with names relative to the main file's folder."""
    folder = paths[0].rpartition(b"/")[0] + b"/"
    names = (os.fsdecode(path.removeprefix(folder)) for path in paths)
    return SlideView(tuple(SourceFile(name, data) for name, data in zip(names, contents, strict=True)))
