"""Large files on their way into S3 in parts: a part that fails is sent again, and nothing else."""

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

AT_ONCE: Final = 4
"""Parts of one file on their way, and in memory, at one time."""
_UNUSABLE_CODES: Final = frozenset(["ConditionalRequestConflict", "InvalidPart"])
"""Of an upload that was to be completed, and will not be however often it is asked for."""
_MARKERS: Final = {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"}
_Upload = dict[str, Any]
"""How S3 is told which upload is meant: bucket, key and id."""


def upload_multipart(path: Path, url: str, part: int, metadata: Mapping[str, str], *, over: bool) -> None:
    """Put one file.

    Parameters
    ----------
    path : Path
        The file, which is not empty.
    url : str
        Where it goes: ``s3://bucket/key``.
    part : int
        Bytes of every part but the last.
    metadata : mapping
        What is stored with it.
    over : bool
        Whether it may take the place of an object that is there.

    Raises
    ------
    There
        An object of this name is there already.
    UploadExpired
        The store knows nothing of the upload any more, or cannot complete it.
    ObjectNotFound, UnexpectedResponse
        There is no such bucket; or the store refuses what it is sent.
    EnvironmentFailure
        The store cannot be reached, or lets nobody in.
    """
    bucket, key, _ = file_system("s3").fs.split_path(url)
    kind, _ = mimetypes.guess_type(path)
    stated = {"Metadata": dict(metadata), **({"ContentType": kind} if kind else {})}
    begun = _ask("create_multipart_upload", Bucket=bucket, Key=key, **stated)
    upload = {"Bucket": bucket, "Key": key, "UploadId": begun["UploadId"]}
    try:
        _complete(upload, _send(path, upload, part), over=over)
    except BaseException:
        _abort(upload)
        raise


def abort_uploads(address: str, paths: Iterable[str]) -> None:
    """Let go of what is left of uploads of some files: nobody sees it, and it costs money.

    It is tried and no more: not everybody who may put objects may do this.

    Parameters
    ----------
    address : str
        The place of a release, without a slash at the end.
    paths : iterable of str
        The files, which nobody need put any more.
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
        return


def _send(path: Path, upload: _Upload, part: int) -> list[dict[str, Any]]:
    """Put the parts of a file, a few at a time; what to complete it with."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
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
    """Make one object of the parts, if no other is there or it may be put over."""
    store = file_system("s3")
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
    """Let go of an upload, once: what went wrong before is what is told."""
    store = file_system("s3")
    with suppress(*store.failures):
        store.fs.call_s3("abort_multipart_upload", **upload)


def _uploads(bucket: str, below: str) -> Iterator[_Upload]:
    """Every upload in progress whose name begins so."""
    after: dict[str, str] = {}
    while True:
        page = _ask("list_multipart_uploads", Bucket=bucket, Prefix=below, **after)
        for one in page.get("Uploads", ()):
            yield {"Bucket": bucket, "Key": one["Key"], "UploadId": one["UploadId"]}
        told = {asked: page[name] for asked, name in _MARKERS.items() if page.get(name)}
        if not page.get("IsTruncated") or told == after:
            return
        after = told


def _ask(request: str, **asked: Any) -> dict[str, Any]:
    store = file_system("s3")
    answer: dict[str, Any] = with_retries_small(partial(store.fs.call_s3, request, **asked), store.failures)
    return answer
