"""Files on their way into GCS: an upload that was lost is told from a bucket that is not there.

Of both the store says 404. What gcsfs raises tells what was asked for: an upload has an address of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medsanitize.pipeline.storage.filesystem import file_system
from medsanitize.pipeline.storage.gcs import GONE, SESSION
from medsanitize.pipeline.storage.retry import UploadExpired, chain_of, status_of, with_retries_small


def upload_resumable(path: Path, url: str, part: int, metadata: Mapping[str, str], *, mode: str) -> None:
    """Put one file, in parts of so many bytes where it is large.

    Parameters
    ----------
    path : Path
        The file.
    url : str
        Where it goes: ``gs://bucket/key``.
    part : int
        Bytes of every part but the last.
    metadata : mapping
        What is stored with it.
    mode : str
        ``create`` or ``overwrite``.

    Raises
    ------
    There
        An object of this name is there already.
    UploadExpired
        The store knows nothing of the upload any more.
    Absent, Odd
        There is no such bucket; or the store refuses what it is sent.
    EnvironmentFailure
        The store cannot be reached, or lets nobody in.
    """
    store = file_system("gs")

    def ask() -> None:
        try:
            store.fs.put_file(str(path), url, mode=mode, metadata=dict(metadata), chunksize=part)
        except store.failures as failure:
            if _is_lost(failure):
                raise UploadExpired from None
            raise

    with_retries_small(ask, store.failures)


def _is_lost(failure: BaseException) -> bool:
    """Whether it is an upload that is not there: 404 names its address, and 410 is said of nothing else."""
    return any(
        (isinstance(one, FileNotFoundError) and SESSION in str(one)) or status_of(one) == GONE
        for one in chain_of(failure)
    )
