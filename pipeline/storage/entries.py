"""What a store's listing says, in one form for all stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any, Final

from medsanitize.pipeline.storage.protocol import Version

NOTHING: Final[Version] = (0, 0, 0)
_MARKS: Final = ("generation", "ETag", "etag", "Content-MD5")
_TIMES: Final = ("LastModified", "updated", "last_modified", "Last-Modified")


@dataclass(frozen=True, slots=True, repr=False)
class Entry:
    """One thing in a folder: its name, and as an address writes it; ``file``, ``folder`` or ``unlisted``."""

    name: bytes
    quoted: bytes
    sort: str
    size: int = 0
    version: Version = NOTHING

    def __repr__(self) -> str:
        return "Entry(...)"


def entries_of(listed: Sequence[Mapping[str, Any]], folder: str) -> list[Entry]:
    """What a store's listing says of a folder, in the byte order of names, nothing of it left out.

    Names that an address cannot say (empty ones, and those that end in a slash) become ``unlisted``; the
    empty objects with which stores mark folders are nothing.
    """
    entries: dict[tuple[bytes, str], Entry] = {}
    for info in listed:
        full, is_folder = str(info["name"]), info["type"] == "directory"
        if full == folder and not is_folder:
            return [Entry(b"", b"", "file", size_of(info), version_of(info))]
        if full == folder:  # its mark, as gcsfs gives it
            continue
        rest = full.removeprefix(folder + "/")
        if not rest and not is_folder and not size_of(info):
            continue
        name = (rest.removesuffix("/") if is_folder else rest).encode("utf-8", "surrogateescape")
        stated = (0, NOTHING) if is_folder else (size_of(info), version_of(info))
        entry = entry_named(name, name, *stated, is_folder=is_folder)
        entries[entry.name, entry.sort] = entry
    return sorted(entries.values(), key=lambda one: (one.name, one.sort))


def entry_named(
    name: bytes, quoted: bytes, size: int = 0, version: Version = NOTHING, *, is_folder: bool
) -> Entry:
    """An entry of a listing; a name that leads elsewhere, or that an address cannot say, is ``unlisted``."""
    if name in (b"", b".", b"..") or b"/" in name or 0 in name:
        return Entry(name, quoted, "unlisted")
    return Entry(name, quoted, "folder" if is_folder else "file", size, version)


def size_of(info: Mapping[str, Any]) -> int:
    """The stated size in bytes; 0 where none is stated."""
    size = info.get("size")
    return size if isinstance(size, int) else 0


def version_of(info: Mapping[str, Any]) -> Version:
    """What is stated of an object and changes with it: a digest of its mark, and its time in ns."""
    mark = next((str(info[name]) for name in _MARKS if info.get(name)), "").removeprefix("W/").strip('"')
    number = int.from_bytes(sha256(mark.encode()).digest()[:8], "big") if mark else 0
    when = next((info[name] for name in _TIMES if info.get(name)), None)
    return number, _seconds(when) * 10**9, 0


def _seconds(when: object) -> int:
    """Whole seconds since 1970: a listing may state parts of a second that the object's own head does not."""
    try:
        if isinstance(when, str):
            stated = datetime.fromisoformat(when) if when[:1].isdigit() else parsedate_to_datetime(when)
            return int(stated.timestamp())
        return int(when.timestamp()) if isinstance(when, datetime) else 0
    except (ValueError, TypeError, OverflowError):
        return 0
