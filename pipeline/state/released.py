"""Released objects in the order of their pseudonyms, independent of the order of the inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from medsanitize.pipeline.state.database import PAGE, State
from medsanitize.pipeline.state.objects import FOUND

# Pseudonyms of patient, study, series and instance.
Names = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, repr=False)
class ReleasedObject:
    """A released object's facts for the manifest; ``payload`` and ``label`` are encrypted.

    ``problem`` is None if no model read the image, ``label`` if the image is not synthetic.
    """

    names: Names
    suffix: str
    size: int
    sha256: bytes
    pixels: bytes | None
    pixels_check: int
    flags: str
    audited: bool
    payload: bytes
    problem: str | None
    label: bytes | None

    def __repr__(self) -> str:
        return "ReleasedObject(...)"


@dataclass(frozen=True, slots=True, repr=False)
class ReleasedFingerprint:
    """The encrypted fingerprint of a released object; ``problem`` is None if no model read the image."""

    names: Names
    suffix: str
    problem: str | None
    modality: str | None
    value: bytes | None

    def __repr__(self) -> str:
        return "ReleasedFingerprint(...)"


@dataclass(frozen=True, slots=True)
class ReleasedDigests:
    """Digests of a released object's file and pixels."""

    id: int
    sha256: bytes | None
    pixels: bytes | None


def released_objects(state: State) -> Iterator[ReleasedObject]:
    """Yield the manifest facts of each released object."""
    columns = (
        "p_suffix, bytes, sha256, pixels, pixels_check, flags, audited, payload,"
        " (SELECT problem FROM fingerprints WHERE fingerprints.id = objects.id),"
        " (SELECT label FROM synthetics WHERE synthetics.id = objects.id)"
    )
    for names, rest in _rows(state, columns):
        suffix, size, digest, pixels, check, flags, audited, payload, problem, label = rest
        found = (pixels, check, flags, bool(audited), payload, problem, label)
        yield ReleasedObject(names, suffix, size, digest, *found)


def released_fingerprints(state: State) -> Iterator[ReleasedFingerprint]:
    """Yield the fingerprint of each released object that was found in the inputs."""
    columns = (
        "p_suffix, (SELECT problem FROM fingerprints WHERE fingerprints.id = objects.id),"
        " (SELECT modality FROM fingerprints WHERE fingerprints.id = objects.id),"
        " (SELECT value FROM fingerprints WHERE fingerprints.id = objects.id)"
    )
    for names, (suffix, problem, modality, value, found) in _rows(state, f"{columns}, {FOUND}"):
        if found:
            yield ReleasedFingerprint(names, suffix, problem, modality, value)


def released_digests(state: State) -> Iterator[ReleasedDigests]:
    """Yield the digests of each released object."""
    for _, rest in _rows(state, "id, sha256, pixels"):
        yield ReleasedDigests(*rest)


def _rows(state: State, columns: str) -> Iterator[tuple[Names, tuple[Any, ...]]]:
    names = "p_patient, p_study, p_series, p_instance"
    after = ("", "", "", "")
    while True:
        page = state.db.execute(
            f"SELECT {names}, {columns} FROM objects WHERE outcome = 'released'"  # noqa: S608
            # Keyset pagination: OFFSET would read the whole table once per page.
            f" AND ({names}) > (?, ?, ?, ?) ORDER BY {names} LIMIT ?",
            (*after, PAGE),
        ).fetchall()
        if not page:
            return
        for row in page:
            yield row[:4], row[4:]
        after = page[-1][:4]
