"""Multipart uploads to S3: only a part that fails is sent again."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.storage.filesystem import file_system
from medsanitize.pipeline.storage.retry import (
    ObjectNotFound,
    UnexpectedResponse,
    UploadExpired,
    codes_of,
    with_retries_small,
)

# Parts of one file in transfer, and in memory, at the same time.
CONCURRENT_PARTS: Final = 4
# Codes of an upload that can never be completed, however often it is tried.
_UNUSABLE_CODES: Final = frozenset(["ConditionalRequestConflict", "InvalidPart"])
_MARKERS: Final = {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"}
# Identifies an upload: bucket, key and upload ID.
_Upload = dict[str, Any]


def upload_multipart(path: Path, url: str, part: int, metadata: Mapping[str, str], *, over: bool) -> None:
    """Upload one file.

    Parameters
    ----------
    path : Path
        The file; not empty.
    url : str
        Destination, ``s3://bucket/key``.
    part : int
        Size of each part but the last, in bytes.
    metadata : mapping
        Metadata stored with the object.
    over : bool
        Whether an existing object may be replaced.

    Raises
    ------
    ObjectExists
        An object of this name already exists.
    UploadExpired
        The store no longer knows the upload, or cannot complete it.
    ObjectNotFound, UnexpectedResponse
        The bucket does not exist, or the store rejects the data.
    EnvironmentFailure
        The store is unreachable or denies access.
    """
    bucket, key, _ = file_system("s3").fs.split_path(url)
    kind, _ = mimetypes.guess_type(path)
    stated = {"Metadata": dict(metadata), **({"ContentType": kind} if kind else {})}
    begun = _ask("create_multipart_upload", Bucket=bucket, Key=key, **stated)
    upload = {"Bucket": bucket, "Key": key, "UploadId": begun["UploadId"]}
    try:
        _complete(upload, _send(path, upload, part), over=over)
    except BaseException:
        # Parts of an abandoned upload are stored, and charged, until it is aborted.
        _abort(upload)
        raise


def abort_uploads(address: str, paths: Iterable[str]) -> None:
    """Abort unfinished uploads of some files: they are invisible but incur storage costs.

    Parameters
    ----------
    address : str
        Address of the release, without a trailing slash.
    paths : iterable of str
        The files whose upload is no longer needed.
    """
    bucket, folder, _ = file_system("s3").fs.split_path(address)
    below = f"{folder}/" if folder else ""
    try:
        left = list(_uploads(bucket, below))
        if not left:
            return
        put = {upload["Key"] for upload in left}.intersection(below + path for path in paths)
        for upload in left:
            if upload["Key"] in put:
                with suppress(UploadExpired):
                    _ask("abort_multipart_upload", **upload)
    except (ObjectNotFound, UnexpectedResponse, EnvironmentFailure):
        # Best effort: permission to write objects does not imply permission to abort uploads.
        return


def _send(path: Path, upload: _Upload, part: int) -> list[dict[str, Any]]:
    """Upload the parts of a file, a few at a time, and return what completes the upload."""
    with ThreadPoolExecutor(CONCURRENT_PARTS) as pool:
        starts = range(0, path.stat().st_size, part)
        sent = [pool.submit(_send_part, path, upload, part, start) for start in starts]
        try:
            return [{"PartNumber": number, "ETag": one.result()} for number, one in enumerate(sent, 1)]
        finally:
            for one in sent:
                one.cancel()


def _send_part(path: Path, upload: _Upload, part: int, start: int) -> str:
    with path.open("rb") as file:
        file.seek(start)
        body = file.read(part)
    answer = _ask("upload_part", PartNumber=start // part + 1, Body=body, **upload)
    return str(answer["ETag"])


def _complete(upload: _Upload, parts: list[dict[str, Any]], *, over: bool) -> None:
    """Combine the parts into one object, if none exists or it may be replaced."""
    store = file_system("s3")
    # The condition is checked on completion, because creating an upload takes none.
    condition = {} if over else {"IfNoneMatch": "*"}

    def ask() -> None:
        try:
            store.fs.call_s3(
                "complete_multipart_upload", MultipartUpload={"Parts": parts}, **upload, **condition
            )
        except store.failures as failure:
            if codes_of(failure) & _UNUSABLE_CODES:
                raise UploadExpired from None
            raise

    with_retries_small(ask, store.failures)


def _abort(upload: _Upload) -> None:
    """Abort an upload, without retries: the original failure is the one to report."""
    store = file_system("s3")
    with suppress(*store.failures):
        store.fs.call_s3("abort_multipart_upload", **upload)


def _uploads(bucket: str, below: str) -> Iterator[_Upload]:
    """Yield every upload in progress below a prefix."""
    after: dict[str, str] = {}
    while True:
        page = _ask("list_multipart_uploads", Bucket=bucket, Prefix=below, **after)
        for one in page.get("Uploads", ()):
            yield {"Bucket": bucket, "Key": one["Key"], "UploadId": one["UploadId"]}
        told = {parameters: page[name] for parameters, name in _MARKERS.items() if page.get(name)}
        # Guards against a store that repeats its markers.
        if not page.get("IsTruncated") or told == after:
            return
        after = told


def _ask(request: str, **parameters: Any) -> dict[str, Any]:
    store = file_system("s3")
    answer: dict[str, Any] = with_retries_small(
        partial(store.fs.call_s3, request, **parameters), store.failures
    )
    return answer
