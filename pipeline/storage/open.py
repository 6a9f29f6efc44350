"""Which reader reads an address. Nobody else looks at schemes."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.pipeline.storage.local import LocalReader
from medsanitize.pipeline.storage.pacs.address import SCHEMES, service_in
from medsanitize.pipeline.storage.protocol import Reader
from medsanitize.policies.inputs import STORES

if TYPE_CHECKING:
    from medsanitize.pipeline.storage.upload import UploadTarget


def reader_of(address: bytes) -> Reader:
    """The reader of an address: a local path begins with a slash, all else has a scheme.

    Raises
    ------
    UsageError
        Nothing reads this scheme.
    """
    if address.startswith(b"/"):
        return _local()
    if address.startswith(SCHEMES):
        return _pacs(service_in(address))
    if scheme_of(address) in STORES:
        return _remote(scheme_of(address))
    raise UsageError("inputs: nothing reads this kind of address", "Name a folder or a store")


def is_in_store(release: str) -> bool:
    """Whether a release is named by its address in a store or on a web server, and not by its folder."""
    return scheme_of(os.fsencode(release)) in STORES


@cache
def _pacs(service: bytes) -> Reader:
    from medsanitize.pipeline.storage.pacs.reader import reader

    return reader(service)


def scheme_of(address: bytes) -> str:
    """What stands before ``://``; nothing for a local path."""
    scheme, colon, _ = address.partition(b"://")
    return scheme.decode("ascii", "replace") if colon else ""


@cache
def _remote(scheme: str) -> Reader:
    from medsanitize.pipeline.storage.remote import RemoteReader

    return RemoteReader(scheme)


def target_of(address: str) -> UploadTarget:
    """The place in a store that a release goes to."""
    from medsanitize.pipeline.storage.upload import UploadTarget

    return UploadTarget(address)


@cache
def _local() -> LocalReader:
    return LocalReader()
