"""ZIP archives, by the standard library."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator
from lzma import LZMAError
from typing import Final

from medsanitize.pipeline.storage.containers.buffer_file import BufferFile
from medsanitize.pipeline.storage.containers.unpacking import (
    BLOCK,
    ContainerProblem,
    MemberProblem,
    Unpacking,
)
from medsanitize.pipeline.storage.protocol import Content

_ENCRYPTED: Final = 0x1
_UTF8: Final = 0x800
_UNIX: Final = 3
_HEADER: Final = b"PK\3\4"
_HEADER_BYTES: Final = 30


def unpack_zip(content: Content, into: Unpacking) -> None:
    """Unpack a ZIP archive.

    Raises
    ------
    ContainerProblem
        ``container-damaged``: the archive has no directory, or files that its directory does not list.
    """
    with zipfile.ZipFile(BufferFile(content)) as archive:
        entries = archive.infolist()
        _require_all_listed(content, entries, archive.start_dir)
        for entry in entries:
            name = _name_of(entry)
            if name.endswith(b"/") and not entry.file_size:
                continue
            rule = _refused(entry, name)
            if rule:
                into.refuse(name, rule)
            else:
                into.store(name, _blocks(archive, entry))


def _name_of(entry: zipfile.ZipInfo) -> bytes:
    """Return the name as it is stored; zipfile decodes names that are not UTF-8 as code page 437."""
    name = entry.orig_filename.encode("utf-8" if entry.flag_bits & _UTF8 else "cp437", "surrogateescape")
    # Some programs for Windows write backslashes, which APPNOTE 4.4.17.1 forbids.
    return name if b"/" in name else name.replace(b"\\", b"/")


def _refused(entry: zipfile.ZipInfo, name: bytes) -> str:
    mode = entry.external_attr >> 16
    if entry.create_system == _UNIX and stat.S_ISLNK(mode):
        return "member-link"
    if name.endswith(b"/"):
        return "member-name-unsafe"
    return "member-encrypted" if entry.flag_bits & _ENCRYPTED else ""


def _blocks(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    try:
        with archive.open(entry) as file:
            while block := file.read(BLOCK):
                yield block
    except NotImplementedError:
        raise MemberProblem("member-not-supported") from None
    except (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, ValueError):
        raise MemberProblem("member-damaged") from None


def _require_all_listed(content: Content, entries: list[zipfile.ZipInfo], directory: int) -> None:
    """Refuse an archive with files that its directory does not list, as two joined archives have."""
    end = 0
    for entry in sorted(entries, key=lambda one: one.header_offset):
        start = entry.header_offset
        _require_no_file(content, end, start)
        # The lengths of the name and of the extra field here may differ from those in the directory.
        lengths = bytes(content[start + 26 : start + 30])
        named = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        end = max(end, start + _HEADER_BYTES + named + entry.compress_size)
    _require_no_file(content, end, directory)


def _require_no_file(content: Content, start: int, end: int) -> None:
    if content.find(_HEADER, start, end) >= 0:
        raise ContainerProblem("container-damaged")
