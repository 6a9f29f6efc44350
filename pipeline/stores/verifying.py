"""A release verified where it lies in a store: its evidence is fetched, its files are read through once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

from medsanitize.errors import UsageError
from medsanitize.pipeline.extras import check_extra
from medsanitize.pipeline.stores.patience import Absent, Odd
from medsanitize.pipeline.stores.protocol import SourceProblem
from medsanitize.pipeline.stores.remote import RemoteReader
from medsanitize.release import layout
from medsanitize.release.checksums import Found, Sum
from medsanitize.release.store import storage
from medsanitize.release.verify import Verification, verify

AT_ONCE: Final = 4
"""Files that are read, and lie in the folder for temporary files, at one time."""


def verify_in_store(address: str, *, key: Path | None) -> Verification:
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
    check_extra("stores")
    if not address.partition("://")[2].strip("/"):
        raise UsageError("The address names no place", "Name the place that holds RELEASE.json")
    files = _Stored(address.rstrip("/"))
    try:
        with storage(), TemporaryDirectory(prefix="medsanitize-") as folder:
            files.fetch_evidence(Path(folder))
            return verify(Path(folder), key=key, files=files)
    except (Absent, Odd):
        raise UsageError(
            "No release can be listed at this address", "Name the place that holds RELEASE.json"
        ) from None


@dataclass(frozen=True, slots=True)
class _Stored:
    """Files below an address."""

    address: str

    def walk(self) -> Iterator[Found]:
        for path, size in self._reader.names_below(self.address, _go_on):
            yield Found(path, "file", size)

    def digests(self, named: Iterable[Sum]) -> Iterator[tuple[Sum, str | None]]:
        waiting: deque[tuple[Sum, Future[str | None]]] = deque()
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

    def fetch_evidence(self, folder: Path) -> None:
        """Copy what a release says of itself; what is not there is missing in the copy, too."""
        inside = self._reader.names_below(f"{self.address}/{layout.MANIFEST}", _go_on)
        try:
            manifests = [f"{layout.MANIFEST}/{name}" for name, _ in inside]
        except (Absent, Odd):
            manifests = []
        for path in (*sorted(layout.UNSUMMED), *filter(layout.may_be_attested, manifests)):
            try:
                with self._reader.opened(self._address_of(path)) as found:
                    target = folder / path
                    target.parent.mkdir(exist_ok=True)
                    target.write_bytes(found.content)
            except SourceProblem:
                continue

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


def _go_on() -> None:
    """Nobody asks to stop."""
