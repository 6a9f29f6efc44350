"""Writing to a local disk: atomic files, and disk failures as errors that may be retried."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from medsanitize.errors import EnvironmentFailure

_REMEDIES: Final = {
    errno.ENOSPC: ("The disk is full", "Free some space and run the same command again"),
    errno.EDQUOT: ("The disk quota is used up", "Free some space and run the same command again"),
    errno.EROFS: ("The disk is read-only", "Mount it writable and run the same command again"),
    errno.EIO: ("The disk reports an input/output error", "Check the disk and run the same command again"),
    errno.EMFILE: ("Too many files are open", "Raise the limit (ulimit -n) and run the same command again"),
    errno.EACCES: (
        "A folder of the release may not be written",
        "Grant write access and run the same command again",
    ),
    errno.EPERM: (
        "A folder of the release may not be changed",
        "Grant write access and run the same command again",
    ),
}


@contextlib.contextmanager
def storage() -> Iterator[None]:
    """Turn a failure of the disk inside the block into `EnvironmentFailure`, which names no file."""
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
    with storage():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with temporary.open("wb") as file:
                file.write(data)
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
