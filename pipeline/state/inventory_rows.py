"""Rows that the inventory adds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.keys import open_paths
from medsanitize.pipeline.storage.containers.address import is_inside, outermost
from medsanitize.sanitize.context import ImageSize

CONTAINER_OPENED: Final = "container-opened"
"""Rule of a container whose files have rows of their own."""
_NO_IMAGE = ImageSize(0, 0, 0, may_show_text=False)


@dataclass(frozen=True, slots=True, repr=False)
class InventoryRow:
    """One object of the walk: ``source`` are its encrypted paths; patient, study, SOP, series and
    device are keyed names.
    """

    id: int
    size: int
    stamp: bytes
    kind: str
    source: bytes
    outcome: str | None = None
    rule: str | None = None
    patient: bytes = b""
    study: bytes = b""
    sop: bytes = b""
    identified: int = 0
    image: ImageSize | None = None
    series: bytes = b""
    device: bytes = b""

    def __repr__(self) -> str:
        return f"InventoryRow({self.id})"


def add_objects(state: State, rows: Iterable[InventoryRow]) -> None:
    """Add objects of the walk within the open batch."""
    state.write(
        "INSERT INTO objects (id, size, stamp, kind, patient, study, sop, identified, outcome, rule, source,"
        " source_series, device, image_rows, image_columns, image_frames, may_show_text)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(row.id, row.size, row.stamp, row.kind, row.patient, row.study, row.sop),
                *(row.identified, row.outcome, row.rule, row.source, row.series, row.device),
                *_image_columns(row.image),
            )
            for row in rows
        ],
    )


def _image_columns(image: ImageSize | None) -> tuple[int, int, int, int]:
    stated = image or _NO_IMAGE
    return stated.rows, stated.columns, stated.frames, int(stated.may_show_text)


def containers_between(state: State, start: int, end: int) -> list[tuple[int, bytes]]:
    """Return number and address of every opened container among the rows from ``start`` up to ``end``."""
    rows = state.db.execute(
        "SELECT id, source FROM objects WHERE rule = ? AND id >= ? AND id < ? ORDER BY id",
        (CONTAINER_OPENED, start, end),
    ).fetchall()
    return [(number, open_paths(state.seal, source)[0]) for number, source in rows]


def close_bombs(state: State, rule: str) -> None:
    """Make every outermost container around a row of ``rule`` one quarantined row (open transaction)."""
    db = state.db
    bombs = {
        outermost(open_paths(state.seal, source)[0])
        for (source,) in db.execute("SELECT source FROM objects WHERE rule = ?", (rule,))
    }
    if not bombs:
        return
    for number, source in db.execute("SELECT id, source FROM objects").fetchall():
        path = open_paths(state.seal, source)[0]
        if path in bombs:
            db.execute(
                "UPDATE objects SET outcome = 'quarantined', rule = 'container-too-large' WHERE id = ?",
                (number,),
            )
        elif is_inside(path) and outermost(path) in bombs:
            for table, column in (("objects", "id"), ("slices", "id"), ("listed_files", "dicomdir")):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))  # noqa: S608


def clear_inventory(state: State) -> None:
    """Delete the rows of an interrupted inventory, as one transaction."""
    with state.transaction() as db:
        for table in (
            *("objects", "patients", "demographics", "known_identifiers"),
            *("slices", "specimens", "listed_files"),
        ):
            db.execute(f"DELETE FROM {table}")  # noqa: S608
