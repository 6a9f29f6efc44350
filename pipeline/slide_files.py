"""Slides of several files: which files of a folder belong to which slide.

The names come from the slides' own descriptions, read without believing them: a name that leaves the folder
is none. Whether the main file is a slide its bytes decide later.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from medsanitize.sanitize.dicom.refusal import Refused
from medsanitize.sanitize.wsi.vendors import aperio_afi, hamamatsu_vms, mirax

INI = b"Slidedat.ini"
_MOST_BYTES = 4 << 20
_MACRO = b".full"
_TIFFS = (b".tif", b".tiff")


class Folders(Protocol):
    """Where the folder lies."""

    def read(self, path: bytes) -> bytes | None:
        """A small file's bytes, or None."""

    def names(self, folder: bytes) -> list[bytes]:
        """What lies in a folder; none where there is no such folder."""


def companions(
    folder: bytes, names: Sequence[bytes], where: Folders | None = None
) -> dict[bytes, tuple[bytes, ...]]:
    """The main files of slides in a folder, each with the further files that it names.

    Parameters
    ----------
    folder : bytes
        Path of the folder.
    names : sequence of bytes
        What lies in it.
    where : Folders or None
        Where it lies; without it, on local disk.

    Returns
    -------
    dict
        Name of a main file -> paths of its companions, relative to ``folder``, sorted.
    """
    where = where or _Disk()
    present = set(names)
    found: dict[bytes, tuple[bytes, ...]] = {}
    macros = {os.path.splitext(name)[0]: name for name in names if name.lower().endswith(_MACRO)}
    for name in names:
        stem, suffix = os.path.splitext(name)
        ending = suffix.lower()
        parts: tuple[bytes, ...] = ()
        if ending == b".mrxs" and stem in present:
            parts = _of_mirax(where, folder + b"/" + stem, stem)
        elif ending in (b".vms", b".vmu"):
            parts = tuple(
                part for part in _of_vms(where, folder + b"/" + name) if part in present and part != name
            )
        elif ending == b".afi":
            listed = where.read(folder + b"/" + name) or b""
            parts = tuple(part for part in _plain(aperio_afi.companions(listed)) if part in present)
        elif ending in _TIFFS and stem in macros:
            parts = (macros[stem],)
        if parts:
            found[name] = parts
    return found


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


class _Disk:
    """The local disks."""

    def read(self, path: bytes) -> bytes | None:
        """A small regular file's bytes; links are not followed."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.read(descriptor, _MOST_BYTES + 1)
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def names(self, folder: bytes) -> list[bytes]:
        """Everything in a folder."""
        try:
            return os.listdir(folder)
        except OSError:
            return []
