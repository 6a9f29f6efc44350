"""GDCM as a reader of whole files, in a process of its own: it ends its process on some objects.

The process gets paths and answers with digests, a line each; after a crash the next path gets a new one.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path

from medsanitize.sanitize.child_process import ChildProcess, own_pipes, start_child

_NOTHING = "-"
# Seconds after which a file that is still read counts as one that ends the process.
_LONGEST = 120.0


class _Reader:
    """The reading process of this process; one file at a time."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Leave the process to the parent, in a process that was forked from it."""
        self._lock = threading.Lock()
        self._running: ChildProcess | None = None

    def digest(self, path: Path) -> str | None:
        with self._lock:
            # Twice: the process may have ended of what it read before, after its answer.
            answer = self._ask(path) or self._ask(path)
        return answer if len(answer) == 64 else None

    def _ask(self, path: Path) -> str:
        self._running = self._running or start_child(__name__)
        if self._running is None:
            return ""
        answer = b""
        try:
            # The pipe is broken where the process has ended.
            with suppress(OSError), self._running.within(_LONGEST):
                self._running.requests.write(json.dumps(os.fspath(path)).encode() + b"\n")
                self._running.requests.flush()
                answer = self._running.answers.readline()
        finally:
            # Also after an interruption: a late answer must not be taken for that to the next path.
            if not answer.endswith(b"\n"):
                self._running.end()
                self._running, answer = None, b""
        return answer.decode("ascii", "replace").strip()


_reader = _Reader()
os.register_at_fork(after_in_child=_reader.forget)


def gdcm_digest(path: Path) -> str | None:
    """Return the SHA-256 of the pixels that GDCM decodes; None if it does not, or crashes."""
    return _reader.digest(path)


# -- in the reading process -------------------------------------------------------------------


def serve() -> None:
    """Answer requests until the parent closes the pipe."""
    requests, answers = own_pipes()
    for line in requests:
        answers.write((_digest(json.loads(line)) or _NOTHING).encode() + b"\n")
        answers.flush()


def _digest(path: str) -> str | None:
    from hashlib import sha256

    import gdcm  # type: ignore[import-untyped]

    reader = gdcm.ImageReader()
    reader.SetFileName(path)
    try:
        if not reader.Read():
            return None
        # gdcm's Python wrapper returns bytes as str.
        return sha256(reader.GetImage().GetBuffer().encode("utf-8", "surrogateescape")).hexdigest()
    except Exception:  # noqa: BLE001  whatever it raises, it decoded nothing
        return None
