"""Slices of heads by series and frame of reference, and the face verdict of each series."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.keys import open_paths
from medsanitize.sanitize.context import FaceCut, FaceVerdict, SeriesFace, cut_from_json, cut_to_json

# Object, names of series and frame of reference, frames, projection, encrypted geometry.
SliceRow = tuple[int, bytes, bytes, int, int, bytes]
_PAGE = 200  # of series: each may be of thousands of slices


@dataclass(frozen=True, slots=True)
class SeriesOfObject:
    """The series of a slice."""

    series: bytes
    frame_of_reference: bytes
    projection: bool


@dataclass(frozen=True, slots=True, repr=False)
class StoredSlice:
    """A slice still to be sanitized: its file, and its geometry as stored by the inventory (JSON)."""

    path: bytes
    stamp: bytes
    geometry: bytes

    def __repr__(self) -> str:
        return "StoredSlice(...)"


def add_slices(state: State, rows: Sequence[SliceRow]) -> None:
    """Add slices of the inventory."""
    if rows:
        state.write("INSERT INTO slices VALUES (?, ?, ?, ?, ?, ?)", rows)


def count_slices(state: State) -> int:
    """Count the objects that may be part of a head."""
    return state.count("id IN (SELECT id FROM slices)")


def series_of(state: State, number: int) -> SeriesOfObject | None:
    """Return the series of an object, or None if it is not a slice."""
    row = state.db.execute("SELECT series, frame, projection FROM slices WHERE id = ?", (number,)).fetchone()
    return None if row is None else SeriesOfObject(bytes(row[0]), bytes(row[1]), bool(row[2]))


def join_small_series(state: State, min_frames: int) -> None:
    """Merge series with fewer frames than this by frame of reference; called within a transaction."""
    # Series too small to render a face from may add up to a volume of a head.
    state.db.execute("CREATE INDEX IF NOT EXISTS slices_series ON slices (series)")
    state.db.execute("CREATE INDEX IF NOT EXISTS slices_frame ON slices (frame)")
    state.db.execute(
        "UPDATE slices SET series = frame WHERE projection = 0 AND series IN ("
        " SELECT series FROM slices WHERE projection = 0 GROUP BY series HAVING sum(frames) < ?)",
        (min_frames,),
    )


def pending_series(state: State) -> Iterator[bytes]:
    """Yield the names of series without a verdict, in order."""
    after = b""
    while True:
        names = state.db.execute(
            "SELECT DISTINCT series FROM slices WHERE series > ? AND projection = 0"
            " AND series NOT IN (SELECT series FROM faces) ORDER BY series LIMIT ?",
            (after, _PAGE),
        ).fetchall()
        if not names:
            return
        for (name,) in names:
            after = bytes(name)
            yield after


def pending_slices(state: State, series: bytes, limit: int) -> list[StoredSlice]:
    """List the slices of a series still to be sanitized, by row; at most ``limit``."""
    rows = state.db.execute(
        "SELECT source, stamp, geometry FROM slices JOIN objects USING (id)"
        " WHERE series = ? AND projection = 0 AND outcome IS NULL ORDER BY id LIMIT ?",
        (series, limit),
    ).fetchall()
    return [
        StoredSlice(open_paths(state.seal, source)[0], bytes(stamp), state.seal.open(geometry, b"slice"))
        for source, stamp, geometry in rows
    ]


def store_face(state: State, series: bytes, face: SeriesFace) -> None:
    """Store the face verdict of a series."""
    cuts = [cut_to_json(cut) for cut in face.cuts]
    sealed = state.seal.close(json.dumps(cuts).encode(), b"cuts") if cuts else None
    state.write("INSERT OR REPLACE INTO faces VALUES (?, ?, ?)", [(series, face.verdict, sealed)])


def face_of_series(state: State, series: bytes) -> SeriesFace | None:
    """Return the face verdict of a series with its own cuts, or None if there is none."""
    row = state.db.execute("SELECT verdict, cuts FROM faces WHERE series = ?", (series,)).fetchone()
    if row is None:
        return None
    verdict: FaceVerdict = row[0]
    return SeriesFace(verdict, _opened_cuts(state, [row[1]]))


def cuts_of_frame(state: State, frame_of_reference: bytes) -> tuple[FaceCut, ...]:
    """Return the distinct cuts of every series with slices in a frame of reference."""
    rows = state.db.execute(
        "SELECT DISTINCT faces.series, cuts FROM faces JOIN slices USING (series)"
        " WHERE frame = ? AND cuts NOT NULL ORDER BY faces.series",
        (frame_of_reference,),
    ).fetchall()
    return tuple(dict.fromkeys(_opened_cuts(state, [cuts for _, cuts in rows])))


def _opened_cuts(state: State, sealed: Sequence[bytes | None]) -> tuple[FaceCut, ...]:
    texts = [json.loads(state.seal.open(cuts, b"cuts")) for cuts in sealed if cuts is not None]
    return tuple(cut_from_json(text) for group in texts for text in group)
