"""Verification and audit of a release in a store: the evidence is downloaded, each file is read once."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

from medsanitize.errors import UsageError
from medsanitize.pipeline.runtime.optional_dependencies import check_extra, check_release_extra
from medsanitize.pipeline.storage.protocol import SourceProblem
from medsanitize.pipeline.storage.remote import RemoteReader
from medsanitize.pipeline.storage.retry import ObjectNotFound, UnexpectedResponse
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.checksums import Checksum, FolderEntry
from medsanitize.release.verify import VerificationResult, verify_release
from medsanitize.verifiers.leaks.audit import AuditTarget, ReleaseAudit, audit_release
from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

# Files or objects read, and stored in the temporary folder, at the same time.
CONCURRENT_READS: Final = 4
# Total size (bytes) of prefetched objects above which no more are fetched ahead.
_AHEAD: Final = 64 << 20


def verify_in_store(address: str, *, key: Path | None) -> VerificationResult:
    """Compare a release in a store with its own evidence, byte for byte; see ``verify_release``.

    Parameters
    ----------
    address : str
        Address of the folder that contains RELEASE.json: ``s3://``, ``gs://``, ``abfs://`` or, where the
        server lists its folders, ``https://``.
    key : Path or None
        The signer's public key (PEM).

    Raises
    ------
    UsageError
        There is no release, the address cannot be listed, the key is not a public key, or the extra is not
        installed.
    EnvironmentFailure
        The store is unreachable or denies access.
    """
    with _release_at(address) as (files, folder):
        files.fetch(files.manifests(), folder)
        files.fetch(sorted(layout.NOT_IN_SUMS), folder)
        return verify_release(folder, key=key, files=files)


def audit_in_store(
    address: str, search: IdentifierSearch | None, *, private_creators: frozenset[str] | None
) -> ReleaseAudit:
    """Audit a release in a store as ``audit_release`` does for a folder; see ``verify_in_store``."""
    with _release_at(address) as (files, folder):
        # Raises if nothing can be listed: that is a usage error, not a damaged release.
        next(files.walk(), None)
        files.fetch(files.manifests(), folder)
        check_release_extra(folder)
        return audit_release(folder, search, private_creators=private_creators, files=files)


@contextmanager
def _release_at(address: str) -> Iterator[tuple[StoredRelease, Path]]:
    """Provide the files of a release in a store, and an empty temporary folder."""
    check_extra("stores")
    if not address.partition("://")[2].strip("/"):
        raise UsageError(
            "The address has no bucket or host", "Give the address of the folder with RELEASE.json"
        )
    try:
        with storage_errors(), TemporaryDirectory(prefix="medsanitize-") as folder:
            yield StoredRelease(address.rstrip("/")), Path(folder)
    except (ObjectNotFound, UnexpectedResponse):
        raise UsageError(
            "No release can be listed at this address, or not all of its folders",
            "Give the folder of RELEASE.json; remove empty folders from a web server, which list nothing",
        ) from None


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """The files of a release below an address."""

    address: str

    def walk(self) -> Iterator[FolderEntry]:
        """Yield every file, in the order of ``layout.path_order``."""
        for path, size in self._reader.names_below(self.address, _go_on):
            yield FolderEntry(path, "file", size)

    def digests(self, named: Iterable[Checksum]) -> Iterator[tuple[Checksum, str | None]]:
        """Yield each file with the SHA-256 of its current bytes, or None if it cannot be read."""
        waiting: deque[tuple[Checksum, Future[str | None]]] = deque()
        with ThreadPoolExecutor(CONCURRENT_READS) as pool:
            try:
                for one in named:
                    waiting.append((one, pool.submit(self._digest, one.path)))
                    if len(waiting) > 2 * CONCURRENT_READS:
                        stated, found = waiting.popleft()
                        yield stated, found.result()
                while waiting:
                    stated, found = waiting.popleft()
                    yield stated, found.result()
            finally:
                for _, found in waiting:
                    found.cancel()

    def at_hand(self, wanted: Iterable[AuditTarget]) -> Iterator[Path]:
        """Yield a folder with the files of each object, prefetched while they are small."""
        waiting: deque[tuple[Future[None], Path, int]] = deque()
        with (
            TemporaryDirectory(prefix="medsanitize-") as folder,
            ThreadPoolExecutor(CONCURRENT_READS) as pool,
        ):
            try:
                for number, one in enumerate(wanted):
                    target = Path(folder) / str(number)
                    target.mkdir()
                    waiting.append((pool.submit(self.fetch, one.paths, target), target, one.size))
                    while len(waiting) == CONCURRENT_READS or sum(size for _, _, size in waiting) > _AHEAD:
                        yield from _first_of(waiting)
                while waiting:
                    yield from _first_of(waiting)
            finally:
                for fetched, _, _ in waiting:
                    fetched.cancel()

    def fetch(self, paths: Iterable[str], folder: Path) -> None:
        """Copy files; unreadable ones and unsafe names are missing from the copy."""
        for path in filter(layout.is_safe, paths):
            try:
                with self._reader.opened(self._address_of(path)) as found, storage_errors():
                    target = folder / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(found.content)
            except (SourceProblem, FileExistsError, IsADirectoryError, NotADirectoryError):
                continue  # a store may hold an object and others below the same name

    def manifests(self) -> list[str]:
        """List the paths of the manifests; none if there is no manifest folder."""
        try:
            inside = self._reader.names_below(f"{self.address}/{layout.MANIFEST}", _go_on)
            return [*filter(layout.is_attested_file, (f"{layout.MANIFEST}/{name}" for name, _ in inside))]
        except (ObjectNotFound, UnexpectedResponse):
            return []

    @property
    def _reader(self) -> RemoteReader:
        return RemoteReader(self.address.partition("://")[0])

    def _address_of(self, path: str) -> bytes:
        return f"{self.address}/{quote(path) if self.address.startswith('http') else path}".encode()

    def _digest(self, path: str) -> str | None:
        try:
            with self._reader.opened(self._address_of(path)) as found:
                return sha256(found.content).hexdigest()
        except SourceProblem:
            return None


def _first_of(waiting: deque[tuple[Future[None], Path, int]]) -> Iterator[Path]:
    """Yield the folder of the oldest request; it is deleted when the next one is requested."""
    fetched, folder, _ = waiting.popleft()
    fetched.result()
    yield folder
    # Deleted here, so that at most AT_ONCE objects take disk space.
    shutil.rmtree(folder)


def _go_on() -> None:
    """Never cancel."""
