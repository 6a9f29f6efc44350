"""Files of open sessions in the folder of a party, mode 0600: a session survives a restart of either side."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

from medsanitize.release.atomic_io import file_lock, storage_errors, write_atomic

_FOLDER: Final = "sessions"
_DAYS: Final = 14
_SECONDS: Final = _DAYS * 86_400


def session_file(party: Path, name: str) -> Path:
    """Return the file of a session, in a folder of mode 0700."""
    folder = party / _FOLDER
    with storage_errors():
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder / name


def write_private(path: Path, content: bytes) -> None:
    """Write a file of mode 0600 atomically and durably."""
    write_atomic(path, content, sync=True, private=True)


def read_private(path: Path) -> bytes | None:
    """Return the content of a file; None if there is none."""
    with suppress(FileNotFoundError), storage_errors():
        return path.read_bytes()
    return None


def forget(*paths: Path) -> None:
    """Remove files of a session that is over."""
    for path in paths:
        with storage_errors():
            path.unlink(missing_ok=True)


def forget_expired(party: Path) -> None:
    """Remove the files of sessions without a message for two weeks."""
    oldest = time.time() - _SECONDS
    for path in (party / _FOLDER).glob("*"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def count_sessions(party: Path, prefix: str) -> int:
    """Return the number of sessions whose names are a prefix and 32 digits, open or over."""
    # Not every ending: the name of one partner can begin with that of another.
    digits = "[0-9a-f]" * 32
    return sum(1 for _ in (party / _FOLDER).glob(f"{prefix}{digits}.json"))


def session_lock(party: Path, name: str) -> AbstractContextManager[None]:
    """Exclude other processes and threads from a session, or from those of a partner."""
    return file_lock(session_file(party, f"{name}.lock"))
