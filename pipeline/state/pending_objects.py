"""Objects without an outcome, in the order in which they are sanitized, with an estimate of their cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medsanitize.pipeline.state.database import PAGE, State

_COLUMNS = "id, patient, study, kind, size, stamp, contested, sop, source"
# A header may state any size: an image has no more pixels than its bytes can hold at the best compression.
_PIXELS = "min(image_rows * image_columns * image_frames, 1000 * size)"
_COST = f"(? + size * ? + {_PIXELS} * CASE may_show_text WHEN 1 THEN ? ELSE ? END)"


@dataclass(frozen=True, slots=True)
class CostWeights:
    """Estimated seconds per object, per byte, and per pixel of images where text is expected or is not."""

    per_object: float
    per_byte: float
    per_text_pixel: float
    per_other_pixel: float

    def parameters(self) -> tuple[float, float, float, float]:
        """The parameters of `_COST`."""
        return self.per_object, self.per_byte, self.per_text_pixel, self.per_other_pixel


@dataclass(frozen=True, slots=True, repr=False)
class PendingObject:
    """An object without an outcome; ``source`` are its encrypted paths, the names are keyed.

    ``cost`` is the estimated number of seconds that sanitizing it takes; ``own_uid`` asks for another SOP
    Instance UID than the stated one.
    """

    id: int
    patient: bytes
    study: bytes
    kind: str
    size: int
    stamp: bytes
    contested: bool
    own_uid: bool
    sop: bytes
    source: bytes
    cost: float

    def __repr__(self) -> str:
        return f"PendingObject({self.id})"


def pending_cost(state: State, weights: CostWeights) -> float:
    """Return the estimated number of seconds that all objects without an outcome take."""
    sql = f"SELECT total({_COST}) FROM objects WHERE outcome IS NULL"  # noqa: S608
    return float(state.db.execute(sql, weights.parameters()).fetchone()[0])


def any_other_format(state: State) -> bool:
    """Report whether a picture or a slide has no outcome yet."""
    return state.count("kind IN ('raster', 'slide') AND outcome IS NULL") > 0


def pending_objects(state: State, weights: CostWeights, large: float) -> Iterator[PendingObject]:
    """Yield the objects without an outcome: those that cost ``large`` or more first, the costliest first.

    The others follow by patient and study: the objects of a study share the identifiers to search for.
    """
    given = weights.parameters()
    sql = (
        f"SELECT {_COLUMNS}, {_COST} AS cost FROM objects"  # noqa: S608
        " WHERE outcome IS NULL AND cost >= ? ORDER BY cost DESC, id"
    )
    # Read at once: they are few, since each is a large part of the whole.
    yield from map(_pending, state.db.execute(sql, (*given, large)).fetchall())
    after: tuple[bytes, bytes, int] = (b"", b"", -1)
    # Keyset pages allow writes in between.
    sql = (
        f"SELECT {_COLUMNS}, {_COST} AS cost FROM objects"  # noqa: S608
        " WHERE outcome IS NULL AND cost < ? AND (patient, study, id) > (?, ?, ?)"
        " ORDER BY patient, study, id LIMIT ?"
    )
    while page := state.db.execute(sql, (*given, large, *after, PAGE)).fetchall():
        yield from map(_pending, page)
        after = (page[-1][1], page[-1][2], page[-1][0])


def _pending(row: tuple[int, bytes, bytes, str, int, bytes, int, bytes, bytes, float]) -> PendingObject:
    number, patient, study, kind, size, stamp, contested, sop, source, cost = row
    return PendingObject(
        number, patient, study, kind, size, stamp, contested == 1, contested == 2, sop, source, cost
    )
