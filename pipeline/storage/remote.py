"""Sources in object stores and on web servers, read through fsspec.

An object is unchanged while its ETag (or generation), modification time and size are the same. They are
requested after the content, so that the content of another version cannot pass for the inventoried one.
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
from medsanitize.pipeline.storage.slide_files import (
    MAX_DESCRIPTION_BYTES,
    Slides,
    group_slide_files,
    is_slide_companion,
)
from medsanitize.pipeline.storage.spool import Spool

Result = TypeVar("Result")
_Info = Mapping[str, Any]
# Content, the metadata stated with or before it, and whether both come from the same response.
_Fetched = tuple[Spool, _Info | None, bool]

# Size (bytes) of the ranges in which objects larger than `LARGE` are read.
BLOCK: Final = 2 * LARGE
_IDENTITY: Final = {"Accept-Encoding": "identity"}


class RemoteReader:
    """Reader for the stores of one scheme (``s3``, ``gs``, ``abfs``) or web servers (``http``, ``https``)."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme
        self._web = scheme in ("http", "https")

    def walk(self, root: bytes) -> Iterator[SourceEntry]:
        """Yield every entry below a prefix or an HTML listing (address ending in a slash), or one object.

        Raises
        ------
        UsageError
            The address does not exist.
        EnvironmentFailure
            The store is unreachable or denies access.
        """
        address = root.decode("utf-8", "surrogateescape")
        try:
            if self._web and not address.endswith("/"):
                info = self._ask(lambda: self._store.fs.info(address))
                yield SourceEntry(root, "file", size_of(info), version_of(info))
                return
            yield from self._below(address.rstrip("/"), self._entries(address.rstrip("/")))
        except ObjectNotFound:
            raise UsageError("inputs: an address does not exist", "Correct the address") from None
        except UnexpectedResponse:
            raise EnvironmentFailure(
                "inputs: an address cannot be listed: unexpected response of the store",
                "Correct the address, and the endpoint in the environment",
            ) from None

    @contextmanager
    def opened(self, path: bytes) -> Iterator[OpenedSource]:
        """Provide an object's content: in memory if small, else mapped from an unnamed file."""
        address = path.decode("utf-8", "surrogateescape")
        try:
            spool, size, version = self._read_whole(address)
        except ObjectNotFound:
            raise SourceProblem("changed-since-inventory") from None
        except (UnexpectedResponse, TruncatedBody):
            raise SourceProblem("unreadable") from None
        try:
            yield OpenedSource(spool.content(), size, version)
        finally:
            spool.close()

    def read(self, path: bytes) -> bytes | None:
        """Read the beginning of an object, or return None; used for the descriptions of slides."""
        try:
            return self._read_first(path.decode("utf-8", "surrogateescape"))[0][: MAX_DESCRIPTION_BYTES + 1]
        except ObjectNotFound:
            return None
        except (UnexpectedResponse, TruncatedBody):
            raise SourceProblem("unreadable") from None

    def names(self, folder: bytes) -> list[bytes]:
        """List the names directly below a folder; an absent folder has none."""
        try:
            return [one.name for one in self._entries(folder.decode("utf-8", "surrogateescape"))]
        except ObjectNotFound:
            return []
        except UnexpectedResponse:
            raise SourceProblem("unreadable") from None

    def names_below(self, folder: str, check: Callable[[], None]) -> Iterator[tuple[str, int]]:
        """Yield path and size of every object below a folder, in walk order, without grouping slides.

        ``check`` is called before each folder is listed and may raise to cancel.

        Raises
        ------
        ObjectNotFound
            The folder does not exist.
        EnvironmentFailure
            The store is unreachable or denies access.
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
        """Call with retries; a truncated body affects only this object."""
        return with_retries(call, self._store.failures)

    # -- listing ------------------------------------------------------------------------------

    def _entries(self, folder: str) -> list[Entry]:
        """List the entries directly below a folder, in the byte order of names."""
        fs = self._store.fs
        if self._web:
            return entries_of_page(self._ask(lambda: bytes(fs.cat_file(folder + "/"))), folder)
        if self._scheme == "abfs":
            return entries_of(azure.list_folder(self._store, folder), folder.removeprefix("abfs://"))
        listed, own = self._ask(lambda: fs.ls(folder, detail=True)), fs._strip_protocol(folder)
        entries = entries_of(listed, own)
        marked = any((info["name"], info["type"]) == (own, "directory") for info in listed)
        if marked and all(one.name for one in entries) and self._has_double_slashes(own):
            entries.insert(0, entry_named(b"", b"", is_folder=True))
        return entries

    def _has_double_slashes(self, folder: str) -> bool:
        """Report whether names with two slashes follow the folder's name."""
        # gcsfs lists them in the same form as the folder's own marker object.
        try:
            listed = self._ask(lambda: self._store.fs.ls(folder, detail=True, prefix="/"))
        except ObjectNotFound:
            return False
        return any((info["name"], info["type"]) != (folder, "file") for info in listed)

    def _below(
        self, folder: str, entries: list[Entry], taken: frozenset[bytes] = frozenset()
    ) -> Iterator[SourceEntry]:
        """Walk a folder; ``taken`` are paths relative to it that belong to a slide already found."""
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
                # Fail closed: any picture may be a label of a slide whose description is unreadable.
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
        """Describe a file; a web server's listing states neither size nor version."""
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
        """Find the slides of a folder, and the further files of each."""
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
        """Return the companion files of a slide; those of MIRAX are in a subfolder."""
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
        """Return the files of a folder by name."""
        return {one.name: one for one in self._entries(folder) if one.sort == "file"}

    # -- reading ------------------------------------------------------------------------------

    def _read_whole(self, address: str) -> tuple[Spool, int, Version]:
        """Read a complete object with the size and version that the store states afterwards."""
        fetch = self._read_as_stream if self._web else self._read_in_ranges
        pause = FIRST_PAUSE
        for _ in range(TRIES):
            spool, before, sure = fetch(address)
            # Metadata requested after the content proves that the content is of this version.
            info = before if before and sure else self._ask(lambda: self._store.fs.info(address))
            size, version = size_of(info), version_of(info)
            # The bytes of another version, read across a change, must not pass for this one.
            if before and (size_of(before), version_of(before)) != (size, version):
                spool.close()
                raise ObjectNotFound  # the object changed while it was read
            # A web server may state no size; then the end of the body is the only evidence.
            if spool.size == size or (self._web and info.get("size") is None):
                return spool, size, version
            spool.close()
            time.sleep(pause)
            pause *= 2
        raise TruncatedBody

    def _read_in_ranges(self, address: str) -> _Fetched:
        """Read in ranges, so that only a failed range is requested again."""
        fs, spool = self._store.fs, Spool()
        first, info = self._read_first(address)
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

    def _read_first(self, address: str) -> tuple[bytes, _Info | None]:
        """Read the first bytes, with the metadata of the same response where available."""
        fs = self._store.fs
        try:
            if self._scheme == "s3":
                return self._ask_for_body(partial(_answer_of_s3, fs, address))
            # One byte above LARGE, to see whether there is more without a second request.
            return self._ask_for_body(lambda: bytes(fs.cat_file(address, start=0, end=LARGE + 1))), None
        except UnexpectedResponse:
            # Stores reject every range request for an empty object.
            info = self._ask(lambda: fs.info(address))
            if size_of(info):
                raise
            return b"", info

    def _read_as_stream(self, address: str) -> _Fetched:
        """Read the body as a stream, limited to the stated size: web servers may not support ranges."""
        info = self._ask(lambda: self._store.fs.info(address))
        most = None if info.get("size") is None else size_of(info)

        def fetch() -> Spool:
            spool = Spool()
            try:
                self._store.fs.get_file(address, _SpoolWriter(spool, most), headers=_IDENTITY)
            except BaseException:
                spool.close()
                raise
            return spool

        return self._ask_for_body(fetch), info, False


def _answer_of_s3(fs: Any, address: str) -> tuple[bytes, _Info]:
    """Get content and metadata in one request, which halves the cost of small objects."""
    from fsspec.asyn import sync

    async def ask() -> tuple[bytes, _Info]:
        bucket, key, _ = fs.split_path(address)
        # cat_file of fsspec discards the headers.
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


class _SpoolWriter:
    """The file-like object that fsspec writes to."""

    def __init__(self, spool: Spool, most: int | None) -> None:
        self._spool = spool
        self._most = most

    def write(self, block: bytes) -> int:
        # A body longer than stated would fill the disk.
        if self._most is not None and self._spool.size + len(block) > self._most:
            raise TruncatedBody
        return self._spool.write(block)

    def tell(self) -> int:
        return self._spool.size

    def read(self, _: int = -1) -> bytes:
        return b""

    def close(self) -> None:
        pass
