"""Content that comes over the network: small in memory, larger in a file without a name, mapped.

A file without a name is gone with the process, however that ends.
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
    """Keep what is too large for memory in this folder (the state's) from now on."""
    global _folder
    _folder = folder


def spool_folder() -> Path | None:
    """The folder last named, if it is there: a plan may run where no state folder is yet."""
    there = _folder is not None and os.path.isdir(_folder) and os.access(_folder, os.W_OK)
    return _folder if there else None


def unnamed_file() -> IO[bytes]:
    """A file that is gone once it is closed, and with the process."""
    return tempfile.TemporaryFile(dir=spool_folder())


class Spool:
    """Takes bytes one block after the other, then gives them as one content.

    A write that is repeated after a failure starts again with a new spool.
    """

    def __init__(self) -> None:
        self.size = 0
        self._blocks: list[bytes] = []
        self._file: IO[bytes] | None = None

    def write(self, block: bytes) -> int:
        """Take the next block.

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
        """Everything taken so far."""
        if self._file is None:
            return self._blocks[0] if len(self._blocks) == 1 else b"".join(self._blocks)
        with storage_errors():
            self._file.flush()
            return mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)

    def close(self) -> None:
        """Let go of the file; a content given before stays until it is let go of itself."""
        if self._file is not None:
            self._file.close()
