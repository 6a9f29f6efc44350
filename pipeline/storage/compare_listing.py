"""Comparison of a store's listing with the files of a release, as two ordered streams."""

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

# Keys per S3 listing request; the service returns no more.
PAGE: Final = 1000
_Listed = Iterator[tuple[str, int]]


def lists_exactly(address: str, release: Path, check: Callable[[], None]) -> bool:
    """Report whether a store holds exactly the files of a release, by name and size, except RELEASE.json.

    S3 lists up to 1,000 keys of all folders per request; other stores are listed folder by folder.

    Parameters
    ----------
    address : str
        Address of the release in the store, without a trailing slash.
    release : Path
        The release folder.
    check : callable
        Called between requests; may raise to cancel.

    Raises
    ------
    ObjectNotFound
        The address does not exist.
    EnvironmentFailure
        The store is unreachable or denies access.
    """
    if address.startswith("s3://"):
        there, stated = _keys(address, check), _sorted_files(release)
    else:
        there = RemoteReader(address.partition("://")[0]).names_below(address, check)
        stated = ((found.path, found.size) for found in walk_files(release))
    # RELEASE.json is uploaded after this comparison, or by an earlier run that finished.
    pairs = zip_longest(_without_root(stated), _without_root(there))
    return all(one == other for one, other in pairs)


def _without_root(listed: _Listed) -> _Listed:
    return (one for one in listed if one[0] != layout.ROOT)


def _keys(address: str, check: Callable[[], None]) -> _Listed:
    """Yield name and size of every object below an address, in the byte order of whole keys."""
    store = file_system("s3")
    bucket, folder, _ = store.fs.split_path(address)
    below = f"{folder}/" if folder else ""
    parameters: dict[str, Any] = {"Bucket": bucket, "Prefix": below, "MaxKeys": PAGE}
    while True:
        check()
        page = with_retries_small(partial(store.fs.call_s3, "list_objects_v2", **parameters), store.failures)
        for one in page.get("Contents", ()):
            if one["Size"] or not one["Key"].endswith("/"):  # skip empty folder markers
                yield one["Key"].removeprefix(below), one["Size"]
        if not page.get("IsTruncated"):
            return
        parameters["ContinuationToken"] = page["NextContinuationToken"]


def _sorted_files(release: Path, under: str = "") -> _Listed:
    """Yield path and size of every file below a folder, in the byte order of whole paths.

    Anything but a regular file, and an empty folder, has size -1, which no object can equal.
    """
    with os.scandir(release / under) as entries:
        names = sorted(_sort_key(entry) for entry in entries)
    if under and not names:
        yield under, -1
    for name in map(os.fsdecode, names):
        path = under + name
        if name.endswith("/"):
            yield from _sorted_files(release, path)
            continue
        status = (release / path).lstat()
        yield path, status.st_size if stat.S_ISREG(status.st_mode) else -1


def _sort_key(entry: os.DirEntry[str]) -> bytes:
    # The trailing slash sorts a folder where its objects sort among whole keys.
    return os.fsencode(entry.name) + (b"/" if entry.is_dir(follow_symlinks=False) else b"")
