"""A file over content in memory or mapped from disk, for libraries that read files."""

from __future__ import annotations

import io
import os
from typing import Final

from medsanitize.pipeline.storage.containers.unpacking import ContainerProblem
from medsanitize.pipeline.storage.protocol import Content

# No library reads more at once from an honest container: only its directory and its headers are read whole.
_MOST: Final = 256 * 2**20


class BufferFile(io.RawIOBase):
    """A file to read from content; reading too much at once would fill the memory, and fails."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._at = 0

    def read(self, size: int | None = -1) -> bytes:
        """Read up to ``size`` bytes, or to the end."""
        left = max(len(self._content) - self._at, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted > _MOST:
            raise ContainerProblem("container-too-large")
        block = bytes(self._content[self._at : self._at + wanted])
        self._at += len(block)
        return block

    def readinto(self, target: object) -> int:
        """Read into a buffer."""
        view = memoryview(target)  # type: ignore[arg-type]
        block = self.read(view.nbytes)
        view[: len(block)] = block
        return len(block)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, which may be past the end."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._content)}[whence]
        if start + offset < 0:
            raise ValueError("negative position")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True
