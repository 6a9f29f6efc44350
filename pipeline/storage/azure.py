"""Listing of Azure Blob Storage folders through the Azure client that adlfs holds.

adlfs lists by name prefix and filters by the number of slashes. It therefore misses names with two
consecutive slashes and names below a folder whose name ends in a space, and an object with the name of a
folder hides everything below that folder.
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
    """List a folder, or the one object at an address, in the form that ``entries_of`` takes.

    Folder names end in a slash, as the service returns them. An empty object whose metadata marks it as a
    folder (accounts with a hierarchical namespace create these) is a folder.

    Parameters
    ----------
    store : FileSystem
        The adlfs file system and its exceptions.
    address : str
        ``abfs://container/folder``, without a trailing slash.

    Raises
    ------
    ObjectNotFound
        The folder, object or container does not exist.
    UnexpectedResponse
        The service refuses to list this address.
    EnvironmentFailure
        The service is unreachable, denies access, or does not answer with a listing.
    """
    container, _, path = address.partition("://")[2].partition("/")
    if not path:
        return _below(store, container, "")
    try:
        # The slash restricts the listing to names below the folder, not to names that begin alike.
        listed, refusal = _below(store, container, path + "/"), None
    except UnexpectedResponse as odd:  # a hierarchical namespace answers so below a file
        listed, refusal = [], odd
    if listed:
        return listed
    try:
        info = _request(store, _head, container, path)
    except (ObjectNotFound, UnexpectedResponse) as failure:
        raise refusal or failure from None
    if info["type"] == "file":
        return [info]
    if refusal is not None:
        raise refusal
    return []


def _below(store: FileSystem, container: str, prefix: str) -> list[_Info]:
    """Collect all pages of a listing; a page that fails is requested again by itself."""
    listed, marker = _request(store, _page, container, prefix, None)
    # The marker decides, not the number of items: an empty page may be followed by others.
    while marker:
        page, marker = _request(store, _page, container, prefix, marker)
        listed += page
    return listed


def _request(store: FileSystem, ask: Callable[..., Awaitable[Result]], *what: str | None) -> Result:
    """Run one request with retries, in fsspec's own event loop."""
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
        except (AttributeError, TypeError, ValueError) as failure:  # the client fails so on a malformed page
            raise OSError from failure
    # A response without this container is not a listing of Azure.
    if pages.container != container:
        raise OSError
    return items, pages.continuation_token


async def _head(fs: Any, container: str, path: str) -> _Info:
    async with fs.service_client.get_blob_client(container, path) as client:
        return _info(await client.get_blob_properties(), container)


def _info(item: Any, container: str) -> _Info:
    """Describe a blob or a name prefix; a prefix has no size."""
    name = f"{container}/{item.name}"
    if not hasattr(item, "size") or _is_folder_marker(item):
        return {"name": name, "type": "directory"}
    stated = {"size": item.size, "etag": item.etag, "last_modified": item.last_modified}
    return {"name": name, "type": "file", **stated}


def _is_folder_marker(blob: Any) -> bool:
    """Report whether a blob is an empty folder marker."""
    said = {name.lower(): value for name, value in (blob.metadata or {}).items()}
    # A marker with content is an object; a name that ends in a slash is recognized elsewhere.
    empty = not blob.size and not blob.name.endswith("/")
    return empty and "true" in (said.get("hdi_isfolder"), said.get("is_directory"))
