"""Selection of the reader for an address; no other module interprets schemes."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.pipeline.storage.containers.address import is_inside
from medsanitize.pipeline.storage.containers.reader import ContainerReader
from medsanitize.pipeline.storage.local import LocalReader
from medsanitize.pipeline.storage.pacs.address import SCHEMES, service_in
from medsanitize.pipeline.storage.protocol import Reader
from medsanitize.policies.inputs import STORES

if TYPE_CHECKING:
    from medsanitize.pipeline.storage.upload import UploadTarget


def reader_of(address: bytes) -> Reader:
    """Return the reader for an address: a local path starts with a slash, others have a scheme.

    Raises
    ------
    UsageError
        No reader supports the scheme.
    """
    if address.startswith(b"/"):
        return _local()
    if is_inside(address):
        return container_reader()
    if address.startswith(SCHEMES):
        return _pacs(service_in(address))
    if scheme_of(address) in STORES:
        return _remote(scheme_of(address))
    raise UsageError("inputs: unsupported kind of address", "Give a folder or an address in a store")


def is_in_store(release: str) -> bool:
    """Report whether a release is given as an address in a store or on a web server."""
    return scheme_of(os.fsencode(release)) in STORES


@cache
def container_reader() -> ContainerReader:
    """Return the reader for files in containers."""
    return ContainerReader(reader_of)


@cache
def _pacs(service: bytes) -> Reader:
    from medsanitize.pipeline.storage.pacs.reader import reader

    return reader(service)


def scheme_of(address: bytes) -> str:
    """Return the part before ``://``; an empty string for a local path."""
    scheme, colon, _ = address.partition(b"://")
    return scheme.decode("ascii", "replace") if colon else ""


@cache
def _remote(scheme: str) -> Reader:
    from medsanitize.pipeline.storage.remote import RemoteReader

    return RemoteReader(scheme)


def target_of(address: str) -> UploadTarget:
    """Return the upload target for an address in a store."""
    from medsanitize.pipeline.storage.upload import UploadTarget

    return UploadTarget(address)


@cache
def _local() -> LocalReader:
    return LocalReader()
