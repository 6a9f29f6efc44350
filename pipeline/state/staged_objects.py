"""Staged objects for the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medsanitize.pipeline.state.database import PAGE, State
from medsanitize.pipeline.state.objects import FOUND
from medsanitize.release.layout import all_paths, staged_path

_TO_DECODE = "outcome = 'released' AND pixels_check = 0 AND native = 0 AND kind <> 'slide'"
_TO_FINGERPRINT = f"outcome = 'released' AND id NOT IN (SELECT id FROM fingerprints) AND {FOUND}"  # noqa: S608


@dataclass(frozen=True, slots=True, repr=False)
class Staged:
    """A staged object: row, kind, and paths of its files in the release, the main one first."""

    id: int
    kind: str
    paths: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Staged({self.id})"


def objects_to_decode(state: State) -> Iterator[Staged]:
    """Yield the staged objects whose compressed pixels have no digest yet, by row."""
    return _staged(state, _TO_DECODE)


def count_to_decode(state: State) -> int:
    """Count the staged objects whose compressed pixels have no digest yet."""
    return state.count(_TO_DECODE)


def objects_to_fingerprint(state: State) -> Iterator[Staged]:
    """Yield the staged objects without a fingerprint, by row."""
    return _staged(state, _TO_FINGERPRINT)


def count_to_fingerprint(state: State) -> int:
    """Count the staged objects without a fingerprint."""
    return state.count(_TO_FINGERPRINT)


def staged_path_of(state: State, number: int) -> str:
    """Return the path of an object's main file in the release."""
    names = state.db.execute(
        "SELECT p_patient, p_study, p_series, p_instance, p_suffix FROM objects WHERE id = ?", (number,)
    ).fetchone()
    return staged_path(*names)


def _staged(state: State, where: str) -> Iterator[Staged]:
    after = -1
    while True:
        page = state.db.execute(
            "SELECT id, kind, p_parts, p_patient, p_study, p_series, p_instance, p_suffix FROM objects"  # noqa: S608
            f" WHERE {where} AND id > ? ORDER BY id LIMIT ?",
            (after, PAGE),
        ).fetchall()
        if not page:
            return
        for number, kind, parts, *names in page:
            yield Staged(number, kind, tuple(all_paths(names, parts)))
        after = page[-1][0]
