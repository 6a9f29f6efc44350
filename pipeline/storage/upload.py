"""Upload of a release to an object store: data first, RELEASE.json last, existing objects never replaced.

SHA256SUMS is uploaded first and claims the prefix: a run that finds another SHA256SUMS does not write. Before
RELEASE.json turns the objects into a release, the store must list exactly its files. After an interruption
the same call continues: objects that exist with the right size and digest are not sent again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.storage import azure
from medsanitize.pipeline.storage.compare_listing import lists_exactly
from medsanitize.pipeline.storage.entries import size_of
from medsanitize.pipeline.storage.filesystem import FileSystem, file_system
from medsanitize.pipeline.storage.gcs_upload import upload_resumable
from medsanitize.pipeline.storage.retry import (
    ObjectExists,
    ObjectNotFound,
    UnexpectedResponse,
    UploadExpired,
    with_retries_small,
)
from medsanitize.pipeline.storage.s3_multipart import abort_uploads, upload_multipart
from medsanitize.progress import Cancellation
from medsanitize.release import layout
from medsanitize.release.checksums import digest_file, read_checksums

Result = TypeVar("Result")

# Files in transfer at the same time.
CONCURRENT_UPLOADS: Final = 4
# Size (bytes) of a part; files from twice this size on are sent in parts.
PART: Final = 16 * 2**20
# How often an upload is started for one file if the store loses it.
MAX_UPLOAD_STARTS: Final = 3
_MAX_PARTS: Final = 9000
_BLOCK: Final = 8 * 2**20
_DIGEST: Final = "sha256"


@dataclass(frozen=True, slots=True)
class _File:
    """One file of a release."""

    path: str
    size: int
    sha256: str


class UploadTarget:
    """A prefix of a bucket or container that receives a release."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._scheme = address.partition("://")[0]

    def require_empty(self) -> None:
        """Check that nothing exists below the prefix.

        Raises
        ------
        UsageError
            Objects exist, or the bucket does not exist.
        EnvironmentFailure
            The store is unreachable or denies access.
        """
        try:
            listed = self._listed()
        except ObjectNotFound as absent:
            if absent.bucket:
                raise UsageError(
                    "output: the bucket does not exist", "Create it, or correct the address"
                ) from None
            return
        except UnexpectedResponse:
            raise _not_a_store() from None
        if listed:
            raise UsageError(
                "output: the prefix contains objects of something else",
                "Choose another prefix, or remove what an unfinished run left there",
            )

    def _listed(self) -> list[Any]:
        if self._scheme == "abfs":
            return azure.list_folder(self._store, self._address)
        return list(self._ask(lambda: self._store.fs.ls(self._address, detail=False)))

    def is_finished(self) -> bool:
        """Report whether a finished release exists at the prefix."""
        return self._info(layout.ROOT) is not None

    def put(self, release: Path, stop: Cancellation, advance: Callable[[int], None]) -> None:
        """Upload a release whose RELEASE.json is written.

        Parameters
        ----------
        release : Path
            The release folder.
        stop : Cancellation
            Checked between files, between listing requests and before RELEASE.json.
        advance : callable
            Called with the number of files completed.

        Raises
        ------
        UsageError
            Another release or a foreign object exists, or the store has no conditional writes.
        EnvironmentFailure
            The store is unreachable, denies access or loses uploads; the call can be repeated.
        """
        try:
            # Before any data: two runs that upload to one prefix must not mix their objects.
            begun = not self._put(_stated(release, layout.SUMS), release)
            self._put_all(release, stop, advance, begun=begun)
            self._abandon_parts(release)
            if not lists_exactly(self._address, release, stop.check):
                raise _differing_release()
            stop.check()
            # Last: the upload becomes a release with this object.
            self._put(_stated(release, layout.ROOT), release)
        except ObjectNotFound:
            raise UsageError(
                "output: the bucket does not exist", "Create it, or correct the address"
            ) from None
        except UnexpectedResponse:
            raise _not_a_store() from None

    @property
    def _store(self) -> FileSystem:
        return file_system(self._scheme)

    def _ask(self, call: Callable[[], Result]) -> Result:
        return with_retries_small(call, self._store.failures)

    def _url(self, path: str) -> str:
        return f"{self._address}/{path}"

    def _info(self, path: str) -> dict[str, Any] | None:
        try:
            info: dict[str, Any] = self._ask(lambda: self._store.fs.info(self._url(path)))
        except ObjectNotFound:
            return None
        except UnexpectedResponse:
            raise _not_a_store() from None
        return info if info.get("type") == "file" else None

    # -- putting ------------------------------------------------------------------------------

    def _put_all(
        self, release: Path, stop: Cancellation, advance: Callable[[int], None], *, begun: bool
    ) -> None:
        """Upload every file but the first and the last, a few at a time."""
        on_their_way: deque[Future[bool]] = deque()
        with ThreadPoolExecutor(CONCURRENT_UPLOADS) as pool:
            try:
                for file in _files(release):
                    stop.check()
                    put = self._put_again if begun else self._put
                    on_their_way.append(pool.submit(put, file, release))
                    # Bounded, so that a failure is noticed after few further uploads.
                    if len(on_their_way) == 2 * CONCURRENT_UPLOADS:
                        on_their_way.popleft().result()
                        advance(1)
                while on_their_way:
                    stop.check()
                    on_their_way.popleft().result()
                    advance(1)
            finally:
                for one in on_their_way:
                    one.cancel()

    def _put_again(self, file: _File, release: Path) -> bool:
        """Upload a file unless an earlier run has done so."""
        if self._info(file.path) is None:
            return self._put(file, release)
        self._require_same(file)
        return False

    def _put(self, file: _File, release: Path) -> bool:
        """Upload a file if it does not exist; return whether it was uploaded."""
        for _ in range(MAX_UPLOAD_STARTS):
            with suppress(UploadExpired):
                return self._put_once(file, release)
            if self._info(file.path) is not None:  # stores also forget an upload that they have completed
                self._require_same(file)
                return False
        raise _uploads_lost()

    def _put_once(self, file: _File, release: Path) -> bool:
        send = partial(self._send, release / file.path, file)
        try:
            send(mode="create")
        except ObjectExists:
            # The response may have been lost after the object was stored.
            self._require_same(file)
            return False
        except UnexpectedResponse as odd:
            if self._info(file.path) is not None:
                self._require_same(file)
                return False
            if not odd.unknown:
                raise
            # One claims the prefix, the other makes the release: neither may replace an object.
            if file.path in (layout.SUMS, layout.ROOT):
                raise _conditions_unsupported() from None
            send(mode="overwrite")
        return True

    def _send(self, path: Path, file: _File, *, mode: str) -> None:
        """Upload one file with its digest as metadata."""
        url, stated = self._url(file.path), {_DIGEST: file.sha256}
        if self._scheme == "s3" and file.size >= 2 * PART:
            # S3 allows at most 10,000 parts per object.
            part = max(PART, -(-file.size // _MAX_PARTS))
            upload_multipart(path, url, part, stated, over=mode == "overwrite")
            return
        if self._scheme == "gs":
            upload_resumable(path, url, PART, stated, mode=mode)
            return
        # adlfs takes no metadata; for Azure, `_digest` reads the bytes instead.
        options = {"Metadata": stated, "chunksize": PART} if self._scheme == "s3" else {}
        self._ask(partial(self._store.fs.put_file, str(path), url, mode=mode, **options))

    def _require_same(self, file: _File) -> None:
        info = self._info(file.path)
        # Size alone is not enough: the content of an object may differ.
        if info is None or size_of(info) != file.size or self._digest(file, info) != file.sha256:
            raise UsageError(
                "output: the prefix contains another release, or a part of one",
                "Choose another prefix, or empty this one",
            )

    def _digest(self, file: _File, info: dict[str, Any]) -> str:
        """Return the digest stored with an object, else that of its bytes."""
        fs, url = self._store.fs, self._url(file.path)
        stored = self._ask(lambda: fs.metadata(url)) if self._scheme == "s3" else info.get("metadata")
        if isinstance(stored, dict) and _DIGEST in stored:
            return str(stored[_DIGEST])
        whole = hashlib.sha256()
        for start in range(0, file.size, _BLOCK):
            end = min(start + _BLOCK, file.size)
            whole.update(self._ask(partial(fs.cat_file, url, start=start, end=end)))
        return whole.hexdigest()

    def _abandon_parts(self, release: Path) -> None:
        """Abort unfinished uploads of files that exist, whether of this run, a killed one or another."""
        # Only after all files are uploaded: another run may still need its uploads until then.
        if self._scheme == "s3":
            abort_uploads(self._address, chain((layout.SUMS,), (file.path for file in _files(release))))


def _files(release: Path) -> Iterator[_File]:
    """Yield every file but SHA256SUMS and RELEASE.json, data first."""
    for entry in read_checksums(release / layout.SUMS):
        if entry.path.startswith(f"{layout.DATA}/"):
            yield _File(entry.path, (release / entry.path).stat().st_size, entry.sha256)
    for entry in read_checksums(release / layout.SUMS):
        if not entry.path.startswith(f"{layout.DATA}/"):
            yield _File(entry.path, (release / entry.path).stat().st_size, entry.sha256)
    if (release / layout.ATTESTATION).is_file():
        yield _stated(release, layout.ATTESTATION)


def _stated(release: Path, path: str) -> _File:
    return _File(path, (release / path).stat().st_size, digest_file(release / path))


def _differing_release() -> UsageError:
    return UsageError(
        "output: the store does not list exactly the files of the release",
        "Remove other objects (medsanitize verify lists them in a copy), or choose another prefix",
    )


def _not_a_store() -> EnvironmentFailure:
    return EnvironmentFailure(
        "output: unexpected response of the store",
        "Check address, endpoint and permissions, then run the same command again",
    )


def _uploads_lost() -> EnvironmentFailure:
    return EnvironmentFailure(
        f"output: the store lost an upload in progress {MAX_UPLOAD_STARTS} times",
        "Check that no person and no rule of the bucket ends uploads there, then run the same command again",
    )


def _conditions_unsupported() -> UsageError:
    return UsageError(
        "output: the store does not support conditional writes (If-None-Match)",
        "Use a store that does: without them, two runs could mix their releases",
    )
