"""Writing to a local disk: atomic files, and failures of disk and memory as errors that may be retried."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from medsanitize.errors import EnvironmentFailure

AWAY: Final = frozenset(
    (
        errno.ESTALE,
        errno.ENOTCONN,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ECONNABORTED,
        getattr(errno, "EREMOTEIO", errno.ESTALE),  # Linux alone has it
    )
)
"""What a network file system says whose server is gone; no single file is to blame."""
_ROOM: Final = 64 * 1024
_MEMORY: Final = ("Out of memory", "Free some memory and run the same command again")
_FILES: Final = ("Too many files are open", "Raise the limit (ulimit -n) and run the same command again")
_REMEDIES: Final = {
    **dict.fromkeys(
        AWAY,
        ("A network file system does not respond", "Check the mount and run the same command again"),
    ),
    errno.ENOMEM: _MEMORY,
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOSPC: ("The disk is full", "Free some space and run the same command again"),
    errno.EDQUOT: ("The disk quota is exceeded", "Free some space and run the same command again"),
    errno.EROFS: ("The disk is read-only", "Mount it writable and run the same command again"),
    errno.EIO: ("The disk reports an input/output error", "Check the disk and run the same command again"),
    errno.EACCES: (
        "A folder of the release is not writable",
        "Grant write access and run the same command again",
    ),
    errno.EPERM: (
        "A folder of the release cannot be modified",
        "Grant write access and run the same command again",
    ),
}


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    """Turn a failure of disk or memory inside the block into `EnvironmentFailure`, which names no file."""
    try:
        yield
    except OSError as failure:
        known = _REMEDIES.get(failure.errno or 0)
        if known is None:
            raise
        raise EnvironmentFailure(*known) from None


def write_atomic(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write a whole file so that readers see the old content or the new, never a part.

    The temporary name is fixed, so a killed writer leaves nothing that a repeat does not replace.

    Parameters
    ----------
    path : Path
        The file. Its folder is made when absent.
    data : bytes
        The whole content.
    sync : bool
        Wait until content and name are on the disk.

    Raises
    ------
    EnvironmentFailure
        When the disk is full, read-only or fails.
    """
    with storage_errors():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(path)
        try:
            with _opened(temporary) as file:
                file.write(data)
                file.truncate()
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if sync:
            sync_folder(path.parent)


def reserve_space(path: Path) -> None:
    """Take room on the disk for what `write_atomic` is to write later, so that a full disk has it then.

    Where there is none, it is `write_atomic` that says so.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _opened(_temporary(path)) as file:
            file.write(bytes(_ROOM))


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _opened(path: Path) -> BinaryIO:
    """A file to write from its beginning; the room that it has already is kept."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666), "wb")


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk; file systems that cannot are left alone."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as failure:
        if failure.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
