"""Folder listings of all stores in one common form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any, Final

from medsanitize.pipeline.storage.protocol import Version

NO_VERSION: Final[Version] = (0, 0, 0)
_VERSION_FIELDS: Final = ("generation", "ETag", "etag", "Content-MD5")
_TIME_FIELDS: Final = ("LastModified", "updated", "last_modified", "Last-Modified")


@dataclass(frozen=True, slots=True, repr=False)
class Entry:
    """One entry of a folder.

    ``name`` is the plain name, ``quoted`` the name as written in an address; ``sort`` is ``file``, ``folder``
    or ``unlisted``.
    """

    name: bytes
    quoted: bytes
    sort: str
    size: int = 0
    version: Version = NO_VERSION

    def __repr__(self) -> str:
        return "Entry(...)"


def entries_of(listed: Sequence[Mapping[str, Any]], folder: str) -> list[Entry]:
    """Convert a store's listing of a folder to entries, in the byte order of names.

    Nothing is skipped silently: names that an address cannot express (empty, or ending in a slash) become
    ``unlisted``. Only the empty objects with which stores mark folders are ignored.

    Parameters
    ----------
    listed : sequence of mapping
        The listing as fsspec returns it.
    folder : str
        Path of the folder as the listing writes it, without a trailing slash.
    """
    entries: dict[tuple[bytes, str], Entry] = {}
    for info in listed:
        full, is_folder = str(info["name"]), info["type"] == "directory"
        # One object under the very address: the "folder" is a file.
        if full == folder and not is_folder:
            return [Entry(b"", b"", "file", size_of(info), version_of(info))]
        if full == folder:  # the folder's own marker object, as gcsfs returns it
            continue
        rest = full.removeprefix(folder + "/")
        if not rest and not is_folder and not size_of(info):
            continue
        name = (rest.removesuffix("/") if is_folder else rest).encode("utf-8", "surrogateescape")
        # A folder's size and time describe its marker, not its content.
        stated = (0, NO_VERSION) if is_folder else (size_of(info), version_of(info))
        entry = entry_named(name, name, *stated, is_folder=is_folder)
        entries[entry.name, entry.sort] = entry
    return sorted(entries.values(), key=lambda one: (one.name, one.sort))


def entry_named(
    name: bytes, quoted: bytes, size: int = 0, version: Version = NO_VERSION, *, is_folder: bool
) -> Entry:
    """Create an entry; names that point elsewhere or that an address cannot express become ``unlisted``."""
    # Joined to a folder, such a name would be a path outside it; fail closed.
    if name in (b"", b".", b"..") or b"/" in name or 0 in name:
        return Entry(name, quoted, "unlisted")
    return Entry(name, quoted, "folder" if is_folder else "file", size, version)


def size_of(info: Mapping[str, Any]) -> int:
    """Return the size in bytes that the listing states, or 0."""
    size = info.get("size")
    return size if isinstance(size, int) else 0


def version_of(info: Mapping[str, Any]) -> Version:
    """Return a digest of the ETag or generation, the modification time in ns, and 0."""
    # Web servers may send the same ETag as weak (W/) or strong from one request to the next.
    mark = (
        next((str(info[name]) for name in _VERSION_FIELDS if info.get(name)), "")
        .removeprefix("W/")
        .strip('"')
    )
    number = int.from_bytes(sha256(mark.encode()).digest()[:8], "big") if mark else 0
    when = next((info[name] for name in _TIME_FIELDS if info.get(name)), None)
    return number, _seconds(when) * 10**9, 0


def _seconds(when: object) -> int:
    """Convert to whole seconds since 1970."""
    try:
        if isinstance(when, str):
            stated = datetime.fromisoformat(when) if when[:1].isdigit() else parsedate_to_datetime(when)
            # Whole seconds only: a listing may state fractions that the object's own headers omit.
            return int(stated.timestamp())
        return int(when.timestamp()) if isinstance(when, datetime) else 0
    except (ValueError, TypeError, OverflowError):
        return 0
