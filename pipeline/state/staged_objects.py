"""The staged objects of a run, as stages pass them to the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medsanitize.pipeline.state.database import PAGE, State
from medsanitize.release.layout import all_paths


@dataclass(frozen=True, slots=True, repr=False)
class Staged:
    """A staged object to look at: row, kind, paths of its files in the release, the main one first."""

    id: int
    kind: str
    paths: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Staged({self.id})"


def staged_objects(state: State, which: str) -> Iterator[Staged]:
    """The objects for which ``which``, a condition on the table ``objects``, is true, by row."""
    after = -1
    while True:
        page = state.db.execute(
            "SELECT id, kind, p_parts, p_patient, p_study, p_series, p_instance, p_suffix FROM objects"  # noqa: S608
            f" WHERE {which} AND id > ? ORDER BY id LIMIT ?",
            (after, PAGE),
        ).fetchall()
        if not page:
            return
        for number, kind, parts, *names in page:
            yield Staged(number, kind, tuple(all_paths(names, parts)))
        after = page[-1][0]
