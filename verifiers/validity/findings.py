"""Errors of a released object, beside those of its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydicom.datadict import keyword_for_tag


@dataclass(frozen=True, slots=True)
class Validity:
    """Errors of a released object: those that its source has not, and those that both have.

    ``judged`` is False if the validator could not read the source to the end.
    """

    judged: bool
    introduced: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)


# The error of a released object that a validator cannot read to the end.
NOT_READ = "cannot be read to its end"


def compared(before: Counter[str] | None, after: Counter[str] | None) -> Validity:
    """Compare the errors of a source and of its released object; None is a file that was not read."""
    if before is None:
        return Validity(judged=False)
    # Otherwise damage that stops a validator would pass more easily than damage that it reports.
    after = Counter([NOT_READ]) if after is None else after
    return Validity(True, dict(sorted((after - before).items())), dict(sorted((after & before).items())))


def attribute_name(tag: int) -> str:
    """An attribute by the dictionary; a private or unknown one has no name and no number."""
    keyword = keyword_for_tag(tag)
    return f"/{keyword}({tag >> 16:04x},{tag & 0xFFFF:04x})" if keyword else "/other attribute"
