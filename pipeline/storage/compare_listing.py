"""Whether a store lists the files of a release and nothing else: two lists in one order, never held whole."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from medsanitize.pipeline.storage.filesystem import file_system
from medsanitize.pipeline.storage.remote import RemoteReader
from medsanitize.pipeline.storage.retry import with_retries_small
from medsanitize.release import layout
from medsanitize.release.checksums import walk_files

PAGE: Final = 1000
"""Names that S3 is asked for at once, and the most it gives."""
_Listed = Iterator[tuple[str, int]]


def lists_exactly(address: str, release: Path, check: Callable[[], None]) -> bool:
    """Whether a place in a store holds the files of a release, RELEASE.json aside, by names and sizes.

    S3 lists a thousand names by one request, whatever folders they lie in; other stores are asked folder by
    folder.

    Parameters
    ----------
    address : str
        The place, without a slash at the end.
    release : Path
        The release folder.
    check : callable
        Called between two requests; may raise.

    Raises
    ------
    Absent
        There is no such place.
    EnvironmentFailure
        The store cannot be reached, or lets nobody in.
    """
    if address.startswith("s3://"):
        there, stated = _keys(address, check), _in_order_of_keys(release)
    else:
        there = RemoteReader(address.partition("://")[0]).names_below(address, check)
        stated = ((found.path, found.size) for found in walk_files(release))
    pairs = zip_longest(_without_root(stated), _without_root(there))
    return all(one == other for one, other in pairs)


def _without_root(listed: _Listed) -> _Listed:
    return (one for one in listed if one[0] != layout.ROOT)


def _keys(address: str, check: Callable[[], None]) -> _Listed:
    """Name and size of every object below a place, in the byte order of whole names."""
    store = file_system("s3")
    bucket, folder, _ = store.fs.split_path(address)
    below = f"{folder}/" if folder else ""
    asked: dict[str, Any] = {"Bucket": bucket, "Prefix": below, "MaxKeys": PAGE}
    while True:
        check()
        page = with_retries_small(partial(store.fs.call_s3, "list_objects_v2", **asked), store.failures)
        for one in page.get("Contents", ()):
            if one["Size"] or not one["Key"].endswith("/"):  # the empty objects that mark folders are nothing
                yield one["Key"].removeprefix(below), one["Size"]
        if not page.get("IsTruncated"):
            return
        asked["ContinuationToken"] = page["NextContinuationToken"]


def _in_order_of_keys(release: Path, under: str = "") -> _Listed:
    """Path and size of every file below a folder, in the byte order of whole paths; -1 of what is none."""
    with os.scandir(release / under) as entries:
        names = sorted(_as_key(entry) for entry in entries)
    if under and not names:
        yield under, -1
    for name in map(os.fsdecode, names):
        path = under + name
        if name.endswith("/"):
            yield from _in_order_of_keys(release, path)
            continue
        status = (release / path).lstat()
        yield path, status.st_size if stat.S_ISREG(status.st_mode) else -1


def _as_key(entry: os.DirEntry[str]) -> bytes:
    return os.fsencode(entry.name) + (b"/" if entry.is_dir(follow_symlinks=False) else b"")
