"""Sources in object stores and on web servers, read through fsspec.

An object is taken for unchanged while its ETag (or generation), time of change and size are the same; they
are asked for after its bytes, so that bytes of another version cannot pass for those of the inventory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.storage import azure
from medsanitize.pipeline.storage.entries import Entry, entries_of, entry_named, size_of, version_of
from medsanitize.pipeline.storage.filesystem import FileSystem, file_system
from medsanitize.pipeline.storage.http_listing import entries_of_page
from medsanitize.pipeline.storage.protocol import LARGE, OpenedSource, SourceEntry, SourceProblem, Version
from medsanitize.pipeline.storage.retry import (
    FIRST_PAUSE,
    TRIES,
    ObjectNotFound,
    TruncatedBody,
    UnexpectedResponse,
    with_retries,
    with_retries_small,
)
from medsanitize.pipeline.storage.slide_files import MOST_BYTES, Slides, group_slide_files, is_slide_companion
from medsanitize.pipeline.storage.spool import Spool

Result = TypeVar("Result")
_Info = Mapping[str, Any]
_Fetched = tuple[Spool, _Info | None, bool]
"""Bytes, what was stated with them or before them, and whether that is of the very same answer."""

BLOCK: Final = 2 * LARGE
"""Bytes asked for at once of what is larger than `LARGE`."""
_IDENTITY: Final = {"Accept-Encoding": "identity"}


class RemoteReader:
    """All stores of one kind (``s3``, ``gs``, ``abfs``) or all web servers (``http``, ``https``)."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme
        self._web = scheme in ("http", "https")

    def walk(self, root: bytes) -> Iterator[SourceEntry]:
        """Yield everything below a prefix or a listing (an address that ends in a slash), or one object.

        Raises
        ------
        UsageError
            Nothing is there.
        EnvironmentFailure
            The store cannot be reached, or lets nobody in.
        """
        address = root.decode("utf-8", "surrogateescape")
        try:
            if self._web and not address.endswith("/"):
                info = self._ask(lambda: self._store.fs.info(address))
                yield SourceEntry(root, "file", size_of(info), version_of(info))
                return
            yield from self._below(address.rstrip("/"), self._entries(address.rstrip("/")))
        except ObjectNotFound:
            raise UsageError("inputs: nothing lies at an address", "Correct the address") from None
        except UnexpectedResponse:
            raise EnvironmentFailure(
                "inputs: an address cannot be listed: the store answers something else",
                "Correct the address, and the endpoint in the environment",
            ) from None

    @contextmanager
    def opened(self, path: bytes) -> Iterator[OpenedSource]:
        """Give an object's content: small ones in memory, larger ones mapped from a file without a name."""
        address = path.decode("utf-8", "surrogateescape")
        try:
            spool, size, version = self._whole(address)
        except ObjectNotFound:
            raise SourceProblem("changed-since-inventory") from None
        except (UnexpectedResponse, TruncatedBody):
            raise SourceProblem("unreadable") from None
        try:
            yield OpenedSource(spool.content(), size, version)
        finally:
            spool.close()

    def read(self, path: bytes) -> bytes | None:
        """The beginning of an object, or None; for the small files that describe slides."""
        try:
            return self._first(path.decode("utf-8", "surrogateescape"))[0][: MOST_BYTES + 1]
        except ObjectNotFound:
            return None
        except (UnexpectedResponse, TruncatedBody):
            raise SourceProblem("unreadable") from None

    def names(self, folder: bytes) -> list[bytes]:
        """Names of what lies directly below a folder; none where there is no such folder."""
        try:
            return [one.name for one in self._entries(folder.decode("utf-8", "surrogateescape"))]
        except ObjectNotFound:
            return []
        except UnexpectedResponse:
            raise SourceProblem("unreadable") from None

    def names_below(self, folder: str, check: Callable[[], None]) -> Iterator[tuple[str, int]]:
        """Path and size of every object below a folder, in the order of the walk; slides are not sought.

        ``check`` is called before a folder is listed, and may raise.

        Raises
        ------
        ObjectNotFound
            There is no such folder.
        EnvironmentFailure
            The store cannot be reached, or lets nobody in.
        """
        check()
        for one in self._entries(folder):
            name, quoted = (part.decode("utf-8", "surrogateescape") for part in (one.name, one.quoted))
            if one.sort != "folder":
                yield name, one.size
                continue
            for path, size in self.names_below(f"{folder}/{quoted}", check):
                yield f"{name}/{path}", size

    @property
    def _store(self) -> FileSystem:
        return file_system(self._scheme)

    def _ask(self, call: Callable[[], Result]) -> Result:
        return with_retries_small(call, self._store.failures)

    def _ask_for_body(self, call: Callable[[], Result]) -> Result:
        """One object may be shorter or longer than stated each time: that costs it alone."""
        return with_retries(call, self._store.failures)

    # -- listing ------------------------------------------------------------------------------

    def _entries(self, folder: str) -> list[Entry]:
        """What lies directly below a folder, in the byte order of names."""
        fs = self._store.fs
        if self._web:
            return entries_of_page(self._ask(lambda: bytes(fs.cat_file(folder + "/"))), folder)
        if self._scheme == "abfs":
            return entries_of(azure.list_folder(self._store, folder), folder.removeprefix("abfs://"))
        listed, own = self._ask(lambda: fs.ls(folder, detail=True)), fs._strip_protocol(folder)
        entries = entries_of(listed, own)
        marked = any((info["name"], info["type"]) == (own, "directory") for info in listed)
        if marked and all(one.name for one in entries) and self._doubled(own):
            entries.insert(0, entry_named(b"", b"", is_folder=True))
        return entries

    def _doubled(self, folder: str) -> bool:
        """Whether names go on with two slashes after a folder's: gcsfs gives them as it gives its mark."""
        try:
            listed = self._ask(lambda: self._store.fs.ls(folder, detail=True, prefix="/"))
        except ObjectNotFound:
            return False
        return any((info["name"], info["type"]) != (folder, "file") for info in listed)

    def _below(
        self, folder: str, entries: list[Entry], taken: frozenset[bytes] = frozenset()
    ) -> Iterator[SourceEntry]:
        """``taken`` are paths, relative to ``folder``, that belong to a slide met before."""
        base = folder.encode("utf-8", "surrogateescape")
        if [(one.name, one.sort) for one in entries] == [(b"", "file")]:  # the address of one object
            yield self._file(base, entries[0])
            return
        files = {one.name: one for one in entries if one.sort == "file"}
        slides, parts = self._slides(base, entries, files)
        inside: dict[bytes, set[bytes]] = {}
        for path in (*taken, *(part for named in slides.parts.values() for part in named)):
            head, _, rest = path.partition(b"/")
            inside.setdefault(head, set()).add(rest)
        names = frozenset(files)
        for one in entries:
            path = base + b"/" + one.quoted
            if one.name in slides.unread:
                yield SourceEntry(path, "unlisted")
            elif one.sort == "folder":
                below = frozenset(inside.get(one.name, ())) - {b""}
                yield from self._folder(path.decode("utf-8", "surrogateescape"), below)
            elif one.sort != "file":
                yield SourceEntry(path, one.sort)
            elif b"" not in inside.get(one.name, ()):
                # Any picture may be a label where it cannot be told which files are a slide's.
                near = bool(slides.unread) or is_slide_companion(one.name, names)
                yield replace(self._file(path, one), near_slide=near, parts=parts.get(one.name, ()))

    def _folder(self, folder: str, taken: frozenset[bytes]) -> Iterator[SourceEntry]:
        try:
            entries = self._entries(folder)
        except (ObjectNotFound, UnexpectedResponse):
            yield SourceEntry(folder.encode("utf-8", "surrogateescape"), "unlisted")
            return
        yield from self._below(folder, entries, taken)

    def _file(self, path: bytes, entry: Entry) -> SourceEntry:
        """A listing of a web server says neither size nor version."""
        if not self._web:
            return SourceEntry(path, "file", entry.size, entry.version)
        address = path.decode("utf-8", "surrogateescape")
        try:
            info = self._ask(lambda: self._store.fs.info(address))
        except (ObjectNotFound, UnexpectedResponse):
            return SourceEntry(path, "unlisted")
        return SourceEntry(path, "file", size_of(info), version_of(info))

    def _slides(
        self, base: bytes, entries: list[Entry], files: dict[bytes, Entry]
    ) -> tuple[Slides, dict[bytes, tuple[SourceEntry, ...]]]:
        """The slides of a folder, and of each its further files."""
        slides, found, failed = group_slide_files(base, [one.name for one in entries], self), {}, set()
        for main, named in slides.parts.items():
            try:
                found[main] = self._parts(base, named, files)
            except (ObjectNotFound, UnexpectedResponse):
                failed.add(main)
        return slides.less(failed), found

    def _parts(
        self, base: bytes, named: tuple[bytes, ...], files: dict[bytes, Entry]
    ) -> tuple[SourceEntry, ...]:
        """The files that a slide consists of beside its main one; those of MIRAX lie in a folder."""
        found, listed = [], {b"": files}
        for path in named:
            folder, _, name = path.rpartition(b"/")
            if folder not in listed:
                listed[folder] = self._files((base + b"/" + folder).decode("utf-8", "surrogateescape"))
            entry = listed[folder].get(name)
            if entry is not None:
                found.append(self._file(base + b"/" + path, entry))
        return tuple(found)

    def _files(self, folder: str) -> dict[bytes, Entry]:
        """The files of a folder."""
        return {one.name: one for one in self._entries(folder) if one.sort == "file"}

    # -- reading ------------------------------------------------------------------------------

    def _whole(self, address: str) -> tuple[Spool, int, Version]:
        """All bytes of an object with the size and version that the store states after giving them."""
        fetch = self._streamed if self._web else self._in_blocks
        pause = FIRST_PAUSE
        for _ in range(TRIES):
            spool, before, sure = fetch(address)
            info = before if before and sure else self._ask(lambda: self._store.fs.info(address))
            size, version = size_of(info), version_of(info)
            if before and (size_of(before), version_of(before)) != (size, version):
                spool.close()
                raise ObjectNotFound  # the object has changed while it was read
            if spool.size == size or (self._web and info.get("size") is None):
                return spool, size, version
            spool.close()
            time.sleep(pause)
            pause *= 2
        raise TruncatedBody

    def _in_blocks(self, address: str) -> _Fetched:
        """Ask for ranges, so that what fails is asked for again alone."""
        fs, spool = self._store.fs, Spool()
        first, info = self._first(address)
        spool.write(first)
        if len(first) <= LARGE:
            return spool, info, True
        try:
            info = info or self._ask(lambda: fs.info(address))
            size = size_of(info)
            for start in range(len(first), size, BLOCK):
                end = min(start + BLOCK, size)
                spool.write(self._ask_for_body(partial(fs.cat_file, address, start=start, end=end)))
        except BaseException:
            spool.close()
            raise
        return spool, info, False

    def _first(self, address: str) -> tuple[bytes, _Info | None]:
        """The first bytes, and what the same answer states of them if that can be had.

        Of an object without any bytes, stores refuse every range.
        """
        fs = self._store.fs
        try:
            if self._scheme == "s3":
                return self._ask_for_body(partial(_answer_of_s3, fs, address))
            return self._ask_for_body(lambda: bytes(fs.cat_file(address, start=0, end=LARGE + 1))), None
        except UnexpectedResponse:
            info = self._ask(lambda: fs.info(address))
            if size_of(info):
                raise
            return b"", info

    def _streamed(self, address: str) -> _Fetched:
        """Web servers may know no ranges: take the body as it comes, and no more of it than is stated."""
        info = self._ask(lambda: self._store.fs.info(address))
        most = None if info.get("size") is None else size_of(info)

        def fetch() -> Spool:
            spool = Spool()
            try:
                self._store.fs.get_file(address, _Sink(spool, most), headers=_IDENTITY)
            except BaseException:
                spool.close()
                raise
            return spool

        return self._ask_for_body(fetch), info, False


def _answer_of_s3(fs: Any, address: str) -> tuple[bytes, _Info]:
    """Bytes and head in one answer, which halves what small objects cost; fsspec gives the bytes alone."""
    from fsspec.asyn import sync

    async def ask() -> tuple[bytes, _Info]:
        bucket, key, _ = fs.split_path(address)
        answer = await fs._call_s3("get_object", Bucket=bucket, Key=key, Range=f"bytes=0-{LARGE}")
        try:
            content = await answer["Body"].read()
        finally:
            answer["Body"].close()
        whole = str(answer.get("ContentRange", "")).rpartition("/")[2]
        size = int(whole) if whole.isdigit() else answer["ContentLength"]
        return content, {"ETag": answer["ETag"], "LastModified": answer["LastModified"], "size": size}

    given: tuple[bytes, _Info] = sync(fs.loop, ask)
    return given


class _Sink:
    """What fsspec takes for a file to write to."""

    def __init__(self, spool: Spool, most: int | None) -> None:
        self._spool = spool
        self._most = most

    def write(self, block: bytes) -> int:
        if self._most is not None and self._spool.size + len(block) > self._most:
            raise TruncatedBody
        return self._spool.write(block)

    def tell(self) -> int:
        return self._spool.size

    def read(self, _: int = -1) -> bytes:
        return b""

    def close(self) -> None:
        pass
