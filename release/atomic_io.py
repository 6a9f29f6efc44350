"""Atomic writes to a local disk, and disk and memory failures as retryable errors."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from medsanitize.errors import EnvironmentFailure

UNREACHABLE: Final = frozenset(
    (
        errno.ESTALE,
        errno.ENOTCONN,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ECONNABORTED,
        getattr(errno, "EREMOTEIO", errno.ESTALE),  # exists on Linux only
    )
)
"""Errors of a network file system whose server is unreachable; not caused by a single file."""
# More than an exit report, which must be writable even on a full disk.
_PROBE_BYTES: Final = 64 * 1024
_MEMORY: Final = ("Out of memory", "Free some memory and run the same command again")
_FILES: Final = ("Too many files are open", "Raise the limit (ulimit -n) and run the same command again")
# Errors that a repetition of the same command can overcome.
_REMEDIES: Final = {
    **dict.fromkeys(
        UNREACHABLE,
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
    """Convert disk and memory failures inside the block to `EnvironmentFailure` without file names."""
    try:
        yield
    except OSError as failure:
        known = _REMEDIES.get(failure.errno or 0)
        if known is None:
            # An unknown error number may be a defect of this program; a retry would not help.
            raise
        raise EnvironmentFailure(*known) from None


def write_atomic(path: Path, data: bytes, *, sync: bool = False, private: bool = False) -> None:
    """Write a file atomically: readers see either the old or the new content.

    Parameters
    ----------
    path : Path
        The file. Its folder is created if necessary.
    data : bytes
        The whole content.
    sync : bool
        Wait until content and name are durable.
    private : bool
        Only the owner may read the file, from its creation on.

    Raises
    ------
    EnvironmentFailure
        The disk is full, read-only or fails.
    """
    with storage_errors():
        path.parent.mkdir(parents=True, exist_ok=True)
        # A fixed name, so that a repeated run overwrites what a killed one left.
        temporary = _temporary(path)
        try:
            with _opened(temporary, 0o600 if private else 0o666) as file:
                if private:
                    # A killed process may have left the temporary file with another mode.
                    os.fchmod(file.fileno(), 0o600)
                file.write(data)
                # The temporary file may be longer: reserve_space has filled it.
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
            # The rename itself is durable only when the folder is synced.
            sync_folder(path.parent)


def reserve_space(path: Path) -> None:
    """Reserve disk space for a later `write_atomic` of the same file, so that it succeeds on a full disk.

    Failures are ignored here: `write_atomic` reports them.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _opened(_temporary(path)) as file:
            # Written, not truncated to size: a sparse file would reserve nothing.
            file.write(bytes(_PROBE_BYTES))


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _opened(path: Path, mode: int = 0o666) -> BinaryIO:
    """Open a file for writing from its start, without giving up the space it occupies."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode), "wb")


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Exclude other processes and threads that lock the same file, which is created with mode 0600.

    Raises
    ------
    EnvironmentFailure
        The disk is full, read-only or fails.
    """
    with storage_errors():
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with storage_errors():
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are durable, on file systems that support it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as failure:
        # Some network and FUSE file systems cannot sync folders.
        if failure.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
