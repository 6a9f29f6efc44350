"""What changed between two releases: objects and patients that were added, removed or changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, Literal

from medsanitize.release.manifest import read_objects, read_policy_digest

Change = Literal["added", "removed", "header", "pixels"]
"""``header``: only the file differs, not its decoded pixels; ``pixels``: they differ, or have no digest."""
CHANGES: Final[tuple[Change, ...]] = ("added", "removed", "header", "pixels")

# What orders the rows of a manifest, and identifies an object in both releases.
_KEY: Final = ("patient", "study", "series", "instance", "path")
_COLUMNS: Final = (*_KEY, "sha256", "pixels_sha256")
_Key = tuple[str, ...]
_Digests = tuple[str, str | None]
_Row = tuple[_Key, Literal["removed", "added"], _Digests]


@dataclass(frozen=True, slots=True)
class ChangedObject:
    """An object that is not the same in both releases; ``path`` is relative to the release that has it."""

    change: Change
    patient: str
    path: str


@dataclass(frozen=True, slots=True)
class Differences:
    """What changed from one release to another.

    Attributes
    ----------
    objects : mapping of str to int
        Number of objects by change, and ``same``.
    patients : mapping of str to int
        Number of patients ``added``, ``removed``, ``changed`` (at least one object is) and ``same``.
    changed : tuple of ChangedObject
        Every object that is not the same, ordered by pseudonym.
    same_policy : bool
        Whether both manifests state the same digest of the policy.
    """

    objects: dict[str, int]
    patients: dict[str, int]
    changed: tuple[ChangedObject, ...]
    same_policy: bool

    @property
    def is_empty(self) -> bool:
        """Whether the objects of both releases are the same, byte for byte."""
        return not self.changed


def release_differences(before: Path, after: Path) -> Differences:
    """Compare the manifests of two releases; both are read once, in their order.

    Parameters
    ----------
    before, after : Path
        Folders of the releases. Only releases with the same release key have pseudonyms in common.

    Raises
    ------
    IntegrityError
        A manifest is missing or damaged.
    """
    objects = dict.fromkeys((*CHANGES, "same"), 0)
    patients = dict.fromkeys(("added", "removed", "changed", "same"), 0)
    changed: list[ChangedObject] = []
    for patient, group in groupby(_changes(before, after), key=lambda one: one[0][0]):
        found: set[str] = set()
        for key, change in group:
            objects[change or "same"] += 1
            found.add(change or "same")
            if change is not None:
                changed.append(ChangedObject(change, patient, key[-1]))
        (only,) = found if len(found) == 1 else ("changed",)
        patients[only if only in patients else "changed"] += 1
    same_policy = read_policy_digest(before) == read_policy_digest(after)
    return Differences(objects, patients, tuple(changed), same_policy)


def _rows(release: Path, which: Literal["removed", "added"]) -> Iterator[_Row]:
    """Yield key, change if the other release lacks the object, and digests."""
    key, digests = itemgetter(*_KEY), itemgetter("sha256", "pixels_sha256")
    for batch in read_objects(release, list(_COLUMNS)):
        for row in batch.to_pylist():
            yield key(row), which, digests(row)


def _changes(before: Path, after: Path) -> Iterator[tuple[_Key, Change | None]]:
    """Yield every object of either release; None is an object that is the same in both."""
    merged = merge(_rows(before, "removed"), _rows(after, "added"), key=itemgetter(0))
    for key, group in groupby(merged, key=itemgetter(0)):
        (_, which, first), *other = group
        yield key, _change(first, other[0][2]) if other else which


def _change(before: _Digests, after: _Digests) -> Change | None:
    # A release of another version may have no digest of the pixels of the same bytes.
    if before[0] == after[0]:
        return None
    # An object without digest of its pixels, such as a slide, may differ anywhere.
    return "header" if before[1] is not None and before[1] == after[1] else "pixels"
