"""Which reader reads an address. Nobody else looks at schemes."""

from __future__ import annotations

from functools import cache

from medsanitize.errors import UsageError
from medsanitize.pipeline.stores.local import LocalReader
from medsanitize.pipeline.stores.protocol import Reader


def reader_of(address: bytes) -> Reader:
    """The reader of an address: a local path begins with a slash, all else has a scheme.

    Raises
    ------
    UsageError
        Nothing reads this scheme.
    """
    if address.startswith(b"/"):
        return _local()
    raise UsageError("inputs: nothing reads this kind of address", "Name a folder")


@cache
def _local() -> LocalReader:
    return LocalReader()
