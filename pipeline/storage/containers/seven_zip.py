"""7z archives, by py7zr (extra ``containers``)."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from medsanitize.pipeline.storage.containers.buffer_file import BufferFile
from medsanitize.pipeline.storage.containers.unpacking import (
    ContainerProblem,
    MemberFile,
    Unpacking,
    plain_name,
)
from medsanitize.pipeline.storage.protocol import Content

if TYPE_CHECKING:
    from py7zr import SevenZipFile


def unpack_seven_zip(content: Content, into: Unpacking) -> None:
    """Unpack a 7z archive.

    Raises
    ------
    ContainerProblem
        ``container-encrypted``, or ``container-damaged``: its files are compressed together, so that none can
        be trusted if one is damaged.
    """
    from py7zr import SevenZipFile
    from py7zr.exceptions import PasswordRequired

    try:
        with SevenZipFile(BufferFile(content)) as archive:
            if archive.needs_password():
                raise ContainerProblem("container-encrypted")
            wanted = _wanted(archive, into)
            if wanted:
                archive.extract(targets=list(wanted), factory=_factory(wanted, into))
    except PasswordRequired:
        raise ContainerProblem("container-encrypted") from None


def _wanted(archive: SevenZipFile, into: Unpacking) -> dict[str, bytes]:
    """Return the files to unpack, by the name that py7zr passes to the factory; refuse the others."""
    wanted: dict[str, bytes] = {}
    entries = [one for one in archive.files if not one.is_directory]
    counted = Counter(one.filename for one in entries)
    for one in entries:
        name = os.fsencode(one.filename)
        if one.is_symlink or one.is_junction:
            into.refuse(name, "member-link")
        elif one.is_socket:
            into.refuse(name, "member-special")
        elif plain_name(name) is None:
            into.refuse(name, "member-name-unsafe")
        elif counted[one.filename] > 1:
            into.refuse(name, "member-name-twice")
        else:
            wanted[one.filename] = name
    return wanted


def _factory(wanted: dict[str, bytes], into: Unpacking) -> Any:
    from py7zr.io import Py7zIO, WriterFactory

    names = {PurePosixPath(path).as_posix(): name for path, name in wanted.items()}

    class Writer(Py7zIO):  # type: ignore[misc]
        """Writes one file of the archive."""

        def __init__(self, name: bytes) -> None:
            self._context: AbstractContextManager[MemberFile | None] = into.created(name)
            self._file = self._context.__enter__()

        def write(self, block: bytes | bytearray) -> int:
            return self._file.write(bytes(block)) if self._file is not None else len(block)

        def read(self, _size: int | None = None) -> bytes:
            return b""

        def seek(self, _offset: int, _whence: int = 0) -> int:
            return 0

        def flush(self) -> None:
            pass

        def size(self) -> int:
            return self._file.size if self._file is not None else 0

        def close(self) -> None:
            self._context.__exit__(None, None, None)

    class Factory(WriterFactory):  # type: ignore[misc]
        """Creates a writer for each file."""

        def create(self, filename: str) -> Writer:
            return Writer(names.get(filename, os.fsencode(filename)))

    return Factory()
