"""Writing of the two files that the desk writes itself: a policy, and nothing else."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from medsanitize import EnvironmentFailure, UsageError


def read_text(path: Path) -> str:
    """Return the text of a policy.

    Raises
    ------
    UsageError
        It cannot be read, or is no text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        raise UsageError("The policy cannot be read", "Correct the file") from None


def digest_of(text: str) -> str:
    """Return a digest by which a page recognizes that the file has changed since."""
    return sha256(text.encode()).hexdigest()[:16]


def create_text(path: Path, text: str) -> None:
    """Create a file and its folder; an existing file is never overwritten.

    Raises
    ------
    UsageError
        The file exists.
    EnvironmentFailure
        The folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError("There is a policy of this name already", "Choose another name") from None
    except OSError:
        raise EnvironmentFailure("The folder cannot be written", "Choose another one") from None


def replace_text(path: Path, text: str, *, digest: str) -> None:
    """Replace the text of a policy, if it still is the one that was shown.

    Raises
    ------
    UsageError
        Somebody changed the file since.
    EnvironmentFailure
        The folder cannot be written.
    """
    if digest_of(read_text(path)) != digest:
        raise UsageError("The policy was changed since this page was opened", "Open the page again")
    mode = path.stat().st_mode & 0o777
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError:
        with suppress(OSError):
            Path(temporary).unlink(missing_ok=True)
        raise EnvironmentFailure("The policy cannot be written", "Free some space") from None
