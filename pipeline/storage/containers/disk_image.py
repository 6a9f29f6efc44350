"""Images of CDs and DVDs (ISO 9660 with Joliet or Rock Ridge, and UDF), by pycdlib (extra ``containers``)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, Final

from medsanitize.pipeline.storage.containers.buffer_file import BufferFile
from medsanitize.pipeline.storage.containers.unpacking import BLOCK, Unpacking
from medsanitize.pipeline.storage.protocol import Content

_SECTOR: Final = 2048
# ECMA-119 7.5: a name is followed by a version; a name without extension ends in a dot.
_VERSION: Final = re.compile(rb"\.?;\d+$")


def unpack_disk_image(content: Content, into: Unpacking) -> None:
    """Unpack a disk image: its files by their longest names, and files that only other directories list."""
    from pycdlib import PyCdlib

    image = PyCdlib()
    image.open_fp(BufferFile(content))
    try:
        seen: set[tuple[int, int]] = set()
        for files in _directories(image):
            before = frozenset(seen)
            for name, record in files:
                # A disk has up to four directories of the same files.
                place = (_extent(record), record.get_data_length())
                seen.add(place)
                if place in before:
                    continue
                if record.is_symlink():
                    into.refuse(name, "member-link")
                else:
                    into.store(name, _blocks(record))
    finally:
        image.close()


def _directories(image: Any) -> Iterator[Iterator[tuple[bytes, Any]]]:
    """Yield the files of every directory tree of the disk, that with the longest names first."""
    if image.has_joliet():
        yield _files(image.list_children(joliet_path="/"), b"", _joliet_name)
    if image.has_rock_ridge():
        yield _files(image.list_children(rr_path="/"), b"", _rock_ridge_name)
    if image.has_udf():
        yield _udf_files(image, "/")
    yield _files(image.list_children(iso_path="/"), b"", _plain_name)


def _files(records: Any, folder: bytes, name_of: Any) -> Iterator[tuple[bytes, Any]]:
    # A deep tree would exhaust the stack of a recursive function.
    left = [(folder, list(records))]
    while left:
        folder, found = left.pop()
        for record in found:
            if record.is_dot() or record.is_dotdot():
                continue
            name = folder + name_of(record)
            if record.is_dir():
                left.append((name + b"/", list(record.children)))
            else:
                yield name, record


def _udf_files(image: Any, top: str) -> Iterator[tuple[bytes, Any]]:
    left = [top]
    while left:
        folder = left.pop()
        for record in image.list_children(udf_path=folder):
            if record is None:
                continue
            name = record.file_identifier().decode("utf-8", "surrogateescape")
            if record.is_dir():
                left.append(f"{folder}{name}/")
            else:
                yield os.fsencode(f"{folder}{name}".lstrip("/")), record


def _joliet_name(record: Any) -> bytes:
    name: str = record.file_identifier().decode("utf-16-be", "replace")
    return _VERSION.sub(b"", name.encode("utf-8", "surrogatepass"))


def _rock_ridge_name(record: Any) -> bytes:
    name: bytes = record.rock_ridge.name() if record.rock_ridge is not None else b""
    return name or _plain_name(record)


def _plain_name(record: Any) -> bytes:
    name: bytes = record.file_identifier()
    return _VERSION.sub(b"", name)


def _extent(record: Any) -> int:
    return int(record.inode.extent_location()) if record.inode is not None else -1


def _blocks(record: Any) -> Iterator[bytes]:
    """Yield the content of a file, which may be in several extents."""
    from pycdlib.pycdlibio import PyCdlibIO

    part = record
    while part is not None:
        if part.inode is not None:
            with PyCdlibIO(part.inode, _SECTOR) as file:
                while block := file.read(BLOCK):
                    yield block
        part = getattr(part, "data_continuation", None)
