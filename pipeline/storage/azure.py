"""Folders of Azure Blob Storage, listed through the client that adlfs holds.

adlfs lists all that begins as a folder's name does and picks by the count of slashes: names with two slashes
or below a folder whose name ends in a space are missing there, and an object that has a folder's name, or
marks it, hides all that lies below.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from medsanitize.pipeline.storage.filesystem import FileSystem
from medsanitize.pipeline.storage.retry import ObjectNotFound, UnexpectedResponse, with_retries_small

Result = TypeVar("Result")
_Info = dict[str, Any]


def list_folder(store: FileSystem, address: str) -> list[_Info]:
    """What lies directly below a folder, or the one object at an address, as `entries_of` takes it.

    Names are those of the service, folders with the slash at their end. An object without bytes whose
    metadata call it a folder, as accounts with a hierarchical namespace make them, is a folder.

    Parameters
    ----------
    store : FileSystem
        adlfs's, with what it raises.
    address : str
        ``abfs://container/folder``, without a slash at the end.

    Raises
    ------
    ObjectNotFound
        There is no such folder or object; or not even the container.
    UnexpectedResponse
        The service refuses to list there.
    EnvironmentFailure
        The service cannot be reached, lets nobody in, or answers with something else than a list.
    """
    container, _, path = address.partition("://")[2].partition("/")
    if not path:
        return _below(store, container, "")
    try:
        listed, refusal = _below(store, container, path + "/"), None
    except UnexpectedResponse as odd:  # a hierarchical namespace does so below a file
        listed, refusal = [], odd
    if listed:
        return listed
    try:
        info = _asked(store, _head, container, path)
    except (ObjectNotFound, UnexpectedResponse) as failure:
        raise refusal or failure from None
    if info["type"] == "file":
        return [info]
    if refusal is not None:
        raise refusal
    return []


def _below(store: FileSystem, container: str, prefix: str) -> list[_Info]:
    """Every page of a list; one that fails is asked for again alone. A page may be empty and not the last."""
    listed, marker = _asked(store, _page, container, prefix, None)
    while marker:
        page, marker = _asked(store, _page, container, prefix, marker)
        listed += page
    return listed


def _asked(store: FileSystem, ask: Callable[..., Awaitable[Result]], *what: str | None) -> Result:
    """The answer to one request, made in the loop in which fsspec makes its own."""
    from fsspec.asyn import sync

    call: Callable[[], Result] = partial(sync, store.fs.loop, ask, store.fs, *what)
    return with_retries_small(call, store.failures)


async def _page(fs: Any, container: str, prefix: str, marker: str | None) -> tuple[list[_Info], str | None]:
    async with fs.service_client.get_container_client(container) as client:
        pages = client.walk_blobs(name_starts_with=prefix, include=["metadata"], delimiter="/").by_page(
            marker
        )
        try:
            items = [_info(item, container) async for item in await anext(pages)]
        except (AttributeError, TypeError, ValueError) as failure:  # what the client makes of another page
            raise OSError from failure
    if pages.container != container:
        raise OSError
    return items, pages.continuation_token


async def _head(fs: Any, container: str, path: str) -> _Info:
    async with fs.service_client.get_blob_client(container, path) as client:
        return _info(await client.get_blob_properties(), container)


def _info(item: Any, container: str) -> _Info:
    """One blob, or one beginning of names up to a slash, which has no size."""
    name = f"{container}/{item.name}"
    if not hasattr(item, "size") or _marks_folder(item):
        return {"name": name, "type": "directory"}
    stated = {"size": item.size, "etag": item.etag, "last_modified": item.last_modified}
    return {"name": name, "type": "file", **stated}


def _marks_folder(blob: Any) -> bool:
    """A mark that holds something is an object; of one whose name ends in a slash, the name says enough."""
    said = {name.lower(): value for name, value in (blob.metadata or {}).items()}
    empty = not blob.size and not blob.name.endswith("/")
    return empty and "true" in (said.get("hdi_isfolder"), said.get("is_directory"))
