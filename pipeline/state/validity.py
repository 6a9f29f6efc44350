"""Released objects that are to be compared with their sources by foreign readers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medsanitize.pipeline.state.database import PAGE, State

MOST_SAMPLED = 500
"""Largest number of objects of a sample."""
_RELEASED = "outcome = 'released' AND kind = 'dicom' AND id NOT IN (SELECT id FROM synthetics)"
# One object a series; of many series, those whose pseudonyms come first, which depend on the key only.
_SAMPLE = (
    f"SELECT id FROM (SELECT id, min(p_instance) AS first FROM objects WHERE {_RELEASED}"  # noqa: S608
    f" GROUP BY p_study, p_series ORDER BY first LIMIT {MOST_SAMPLED})"
)


@dataclass(frozen=True, slots=True, repr=False)
class ObjectToValidate:
    """A released object; ``source`` are its encrypted paths, ``names`` the pseudonyms and the suffix."""

    id: int
    source: bytes
    stamp: bytes
    payload: bytes
    names: tuple[str, ...]

    def __repr__(self) -> str:
        return f"ObjectToValidate({self.id})"


def count_released_dicom(state: State) -> int:
    """Count the released DICOM objects that have a source."""
    return state.count(_RELEASED)


def any_compressed(state: State) -> bool:
    """Report whether a released DICOM object has compressed pixels."""
    return state.count(f"native = 0 AND {_RELEASED}") > 0


def objects_to_validate(state: State, *, sample: bool) -> Iterator[ObjectToValidate]:
    """Yield all released DICOM objects, or one of each series, by row."""
    yield from _pages(state, _chosen(sample))


def rest_of_series(state: State, number: int) -> Iterator[ObjectToValidate]:
    """Yield the other released DICOM objects of the series of an object, by row."""
    series = f"(SELECT p_study, p_series FROM objects WHERE id = {int(number)})"  # noqa: S608
    return _pages(state, f"{_RELEASED} AND (p_study, p_series) = {series} AND id <> {int(number)}")


def _pages(state: State, chosen: str) -> Iterator[ObjectToValidate]:
    after = -1
    sql = (
        "SELECT id, source, stamp, payload, p_patient, p_study, p_series, p_instance, p_suffix FROM objects"  # noqa: S608
        f" WHERE {chosen} AND id > ? ORDER BY id LIMIT ?"
    )
    while page := state.db.execute(sql, (after, PAGE)).fetchall():
        for number, source, stamp, payload, *names in page:
            yield ObjectToValidate(number, source, stamp, payload, tuple(names))
        after = page[-1][0]


def _chosen(sample: bool) -> str:
    return f"{_RELEASED} AND id IN ({_SAMPLE})" if sample else _RELEASED
