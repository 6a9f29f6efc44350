"""SHA-256 of data while it is written."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from typing import Final

# Size (bytes) of a block from which on a thread saves more than it costs.
LARGE: Final = 4 << 20
_BEHIND: Final = 2


class Sha256Writer:
    """SHA-256 of consecutive blocks; a thread hashes large blocks while the caller writes them.

    Hashing and writing both release the interpreter lock. The digest may lag behind by ``_BEHIND`` blocks, so
    that the two do not wait for each other at every block. Leaving the context releases all blocks.
    """

    def __init__(self) -> None:
        self._sum = sha256()
        self._beside: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> Sha256Writer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._beside is not None:
            self._beside.shutdown()

    def update(self, block: bytes | memoryview) -> None:
        """Add a block, which must not change until the context is left."""
        if self._beside is None and len(block) < LARGE:
            self._sum.update(block)
            return
        self._beside = self._beside or ThreadPoolExecutor(1)
        self._waiting.append(self._beside.submit(self._take, memoryview(block)))
        # Bounds the memory of blocks that wait to be hashed.
        if len(self._waiting) > _BEHIND:
            self._waiting.popleft().result()

    def digest(self) -> bytes:
        """Return the 32-byte digest of all blocks so far."""
        while self._waiting:
            self._waiting.popleft().result()
        return self._sum.digest()

    def _take(self, block: memoryview) -> None:
        with block:
            self._sum.update(block)
