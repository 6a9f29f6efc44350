"""Addresses in stores: what a policy may write where data come from, or where a release goes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from medsanitize.errors import Problem
from pydantic import StringConstraints

if TYPE_CHECKING:
    from medsanitize.policies.checks import Draft, Steps

OBJECT_STORES: Final = ("s3", "gs", "abfs")
"""What can be read from and written to."""
STORES: Final = (*OBJECT_STORES, "https", "http")
"""What can be read from."""

_LONGEST: Final = 2000

StoreUrl = Annotated[str, StringConstraints(pattern=r"^(s3|gs|abfs|https?)://", max_length=_LONGEST)]
"""Address of a place in a store; all that is not, is a local path."""

_EXAMPLES: Final = "s3://bucket/prefix, gs://bucket/prefix or abfs://container/prefix"


def is_url(value: object) -> bool:
    """Whether a text is an address with a scheme."""
    return isinstance(value, str) and "://" in value


def check_stores(draft: Draft) -> Iterator[Problem]:
    """Problems of every address that a policy reads from or writes to."""
    addresses: list[tuple[Steps, str]] = []
    for index, value in enumerate(draft.items("inputs")):
        if is_url(value):
            addresses.append((("inputs", index), value))
    output = draft.get("output")
    if is_url(output):
        addresses.append((("output",), output))
    for number, (path, address) in enumerate(addresses):
        wrong = _problem(address, STORES if path[0] == "inputs" else OBJECT_STORES)
        if wrong is not None:
            yield draft.problem(path, *wrong)
        elif any(_within(address, other) or _within(other, address) for _, other in addresses[:number]):
            what = "overlaps an address named before" if path[0] == "inputs" else "overlaps an input"
            yield draft.problem(path, f"This {what}", "Name each place once, and none inside another")


def _problem(address: str, schemes: tuple[str, ...]) -> tuple[str, str] | None:
    """Why an address cannot be used, and what to write instead."""
    scheme, _, rest = address.partition("://")
    if scheme not in schemes:
        if scheme in STORES:
            return "A release cannot be put there", f"Write a folder, {_EXAMPLES}"
        return "Nothing reads or writes this kind of address", f"Write a folder, {_EXAMPLES}"
    if len(address) > _LONGEST:  # it would be taken for a local path
        return f"The address is longer than {_LONGEST:,} characters", "Write a shorter one"
    if not address.isprintable() or re.search(r"\s", address):
        return "The address holds a space or control character", "Write it without, or rename the place"
    host, _, below = rest.partition("/")
    if not host:
        return "The address names no bucket or server", f"Write {_EXAMPLES}"
    web = scheme in ("http", "https")
    if web and "@" in urlsplit(address).netloc:
        return "The address holds a user or password", "Keep credentials in the environment (~/.netrc)"
    if web and {"?", "#"} & set(address):
        return "The address holds a query", "Name one file, or a listing that ends in a slash"
    parts = below.removesuffix("/").split("/")
    if below and any(part in ("", ".", "..") for part in parts):
        return "The address holds an empty name, or one of dots", "Write it without"
    if not web and {"?", "*", "["} & set(below):
        return "The address holds a character that libraries take for a pattern", "Rename the prefix"
    return None


def _within(inner: str, outer: str) -> bool:
    one, other = (address.rstrip("/") + "/" for address in (inner, outer))
    return one.startswith(other)
