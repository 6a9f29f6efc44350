"""A release checked where it lies in a store: its evidence is fetched, its files are read through once."""

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

AT_ONCE: Final = 4
"""Files, or objects, that are read and lie in the folder for temporary files at one time."""
_AHEAD: Final = 64 << 20
"""Bytes of objects from which on none is fetched ahead of the one that is looked at."""


def verify_in_store(address: str, *, key: Path | None) -> VerificationResult:
    """Compare a release in a store with its own evidence, byte for byte; see `verify`.

    Parameters
    ----------
    address : str
        The place that holds RELEASE.json: ``s3://``, ``gs://``, ``abfs://`` or, where the server lists its
        folders, ``https://``.
    key : Path or None
        The signer's public key (PEM).

    Raises
    ------
    UsageError
        When nothing lies there, the address cannot be listed, the key is not a public key, or the extra is
        not installed.
    EnvironmentFailure
        When the store cannot be reached, or lets nobody in.
    """
    with _release_at(address) as (files, folder):
        files.fetch(files.manifests(), folder)
        files.fetch(sorted(layout.UNSUMMED), folder)
        return verify_release(folder, key=key, files=files)


def audit_in_store(
    address: str, search: IdentifierSearch | None, *, private_creators: frozenset[str] | None
) -> ReleaseAudit:
    """Audit a release in a store as `audit_release` does one in a folder; see `verify_in_store`."""
    with _release_at(address) as (files, folder):
        next(files.walk(), None)  # where nothing can be listed there is no release to find damaged
        files.fetch(files.manifests(), folder)
        check_release_extra(folder)
        return audit_release(folder, search, private_creators=private_creators, files=files)


@contextmanager
def _release_at(address: str) -> Iterator[tuple[StoredRelease, Path]]:
    """The files of a release in a store, and an empty folder that lasts as long."""
    check_extra("stores")
    if not address.partition("://")[2].strip("/"):
        raise UsageError("The address names no place", "Name the place that holds RELEASE.json")
    try:
        with storage_errors(), TemporaryDirectory(prefix="medsanitize-") as folder:
            yield StoredRelease(address.rstrip("/")), Path(folder)
    except (ObjectNotFound, UnexpectedResponse):
        raise UsageError(
            "No release can be listed at this address, or not all of its folders",
            "Name the place of RELEASE.json; remove empty folders from a web server, for they list nothing",
        ) from None


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """Files below an address."""

    address: str

    def walk(self) -> Iterator[FolderEntry]:
        """Every file there is, in the order of `layout.order_of`."""
        for path, size in self._reader.names_below(self.address, _go_on):
            yield FolderEntry(path, "file", size)

    def digests(self, named: Iterable[Checksum]) -> Iterator[tuple[Checksum, str | None]]:
        """Each of some files with the SHA-256 that its bytes have now; None where it cannot be read."""
        waiting: deque[tuple[Checksum, Future[str | None]]] = deque()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for one in named:
                    waiting.append((one, pool.submit(self._digest, one.path)))
                    if len(waiting) > 2 * AT_ONCE:
                        stated, found = waiting.popleft()
                        yield stated, found.result()
                while waiting:
                    stated, found = waiting.popleft()
                    yield stated, found.result()
            finally:
                for _, found in waiting:
                    found.cancel()

    def at_hand(self, wanted: Iterable[AuditTarget]) -> Iterator[Path]:
        """For each object a folder with its files, fetched ahead where they are small."""
        waiting: deque[tuple[Future[None], Path, int]] = deque()
        with TemporaryDirectory(prefix="medsanitize-") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for number, one in enumerate(wanted):
                    target = Path(folder) / str(number)
                    target.mkdir()
                    waiting.append((pool.submit(self.fetch, one.paths, target), target, one.size))
                    while len(waiting) == AT_ONCE or sum(size for _, _, size in waiting) > _AHEAD:
                        yield from _first_of(waiting)
                while waiting:
                    yield from _first_of(waiting)
            finally:
                for fetched, _, _ in waiting:
                    fetched.cancel()

    def fetch(self, paths: Iterable[str], folder: Path) -> None:
        """Copy files; what cannot be read, or has a name that no release has, is missing in the copy."""
        for path in filter(layout.is_safe, paths):
            try:
                with self._reader.opened(self._address_of(path)) as found, storage_errors():
                    target = folder / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(found.content)
            except (SourceProblem, FileExistsError, IsADirectoryError, NotADirectoryError):
                continue  # a store may hold a file and, under its name, further ones

    def manifests(self) -> list[str]:
        """Paths of the manifests; none where there is no folder of them."""
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
    """The folder of what was asked for first; it is gone when the next is asked for."""
    fetched, folder, _ = waiting.popleft()
    fetched.result()
    yield folder
    shutil.rmtree(folder)


def _go_on() -> None:
    """Nobody asks to stop."""
