"""Resumable uploads to Google Cloud Storage.

The store answers 404 both to an expired upload and to a missing bucket. gcsfs quotes the requested address,
and only uploads have an upload address.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medsanitize.pipeline.storage.filesystem import file_system
from medsanitize.pipeline.storage.gcs import HTTP_GONE, SESSION
from medsanitize.pipeline.storage.retry import UploadExpired, chain_of, status_of, with_retries_small


def upload_resumable(path: Path, url: str, part: int, metadata: Mapping[str, str], *, mode: str) -> None:
    """Upload one file, in parts if it is large.

    Parameters
    ----------
    path : Path
        The file.
    url : str
        Destination, ``gs://bucket/key``.
    part : int
        Size of each part but the last, in bytes.
    metadata : mapping
        Metadata stored with the object.
    mode : str
        ``create`` or ``overwrite``.

    Raises
    ------
    ObjectExists
        An object of this name already exists.
    UploadExpired
        The store no longer knows the upload.
    ObjectNotFound, UnexpectedResponse
        The bucket does not exist, or the store rejects the data.
    EnvironmentFailure
        The store is unreachable or denies access.
    """
    store = file_system("gs")

    def ask() -> None:
        try:
            store.fs.put_file(str(path), url, mode=mode, metadata=dict(metadata), chunksize=part)
        except store.failures as failure:
            if _is_expired(failure):
                raise UploadExpired from None
            raise

    with_retries_small(ask, store.failures)


def _is_expired(failure: BaseException) -> bool:
    """Report whether an upload has expired: a 404 that quotes an upload address, or any 410."""
    return any(
        (isinstance(one, FileNotFoundError) and SESSION in str(one)) or status_of(one) == HTTP_GONE
        for one in chain_of(failure)
    )
