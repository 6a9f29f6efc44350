"""Content received over the network: in memory while small, else mapped from an unnamed file.

An unnamed file disappears with the process, however it ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import IO

from medsanitize.pipeline.storage.protocol import LARGE, Content
from medsanitize.release.atomic_io import storage_errors

_folder: Path | None = None


def set_spool_folder(folder: Path) -> None:
    """Set the folder for content too large for memory (the state folder)."""
    global _folder
    _folder = folder


def spool_folder() -> Path | None:
    """Return the folder last set, if it exists: a plan may run before there is a state folder."""
    there = _folder is not None and os.path.isdir(_folder) and os.access(_folder, os.W_OK)
    return _folder if there else None


def unnamed_file() -> IO[bytes]:
    """Open a file without a name, which is deleted when it is closed or the process ends."""
    return tempfile.TemporaryFile(dir=spool_folder())


class Spool:
    """Collects blocks of bytes and returns them as one content.

    A transfer that is repeated after a failure needs a new spool.
    """

    def __init__(self) -> None:
        self.size = 0
        self._blocks: list[bytes] = []
        self._file: IO[bytes] | None = None

    def write(self, block: bytes) -> int:
        """Add a block.

        Raises
        ------
        EnvironmentFailure
            The disk is full or fails.
        """
        self.size += len(block)
        if self._file is None and self.size <= LARGE:
            self._blocks.append(block)
            return len(block)
        with storage_errors():
            if self._file is None:
                self._file = unnamed_file()
                self._file.writelines(self._blocks)
                self._blocks.clear()
            self._file.write(block)
        return len(block)

    def content(self) -> Content:
        """Return everything written so far."""
        if self._file is None:
            return self._blocks[0] if len(self._blocks) == 1 else b"".join(self._blocks)
        with storage_errors():
            # mmap reads the file, not Python's write buffer.
            self._file.flush()
            return mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)

    def close(self) -> None:
        """Close the file; content returned earlier remains valid until it is released."""
        if self._file is not None:
            self._file.close()
