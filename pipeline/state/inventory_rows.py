"""Rows that the inventory adds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from medsanitize.pipeline.state.database import State
from medsanitize.sanitize.context import ImageSize

_NO_IMAGE = ImageSize(0, 0, 0, may_show_text=False)


@dataclass(frozen=True, slots=True, repr=False)
class InventoryRow:
    """One object of the walk: ``source`` are its encrypted paths; patient, study and SOP are keyed names."""

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

    def __repr__(self) -> str:
        return f"InventoryRow({self.id})"


def add_objects(state: State, rows: Iterable[InventoryRow]) -> None:
    """Add objects of the walk within the open batch."""
    state.write(
        "INSERT INTO objects (id, size, stamp, kind, patient, study, sop, identified, outcome, rule, source,"
        " image_rows, image_columns, image_frames, may_show_text)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(row.id, row.size, row.stamp, row.kind, row.patient, row.study, row.sop),
                *(row.identified, row.outcome, row.rule, row.source, *_image_columns(row.image)),
            )
            for row in rows
        ],
    )


def _image_columns(image: ImageSize | None) -> tuple[int, int, int, int]:
    stated = image or _NO_IMAGE
    return stated.rows, stated.columns, stated.frames, int(stated.may_show_text)


def clear_inventory(state: State) -> None:
    """Delete the rows of an interrupted inventory, as one transaction."""
    with state.transaction() as db:
        for table in ("objects", "patients", "known_identifiers", "slices", "specimens"):
            db.execute(f"DELETE FROM {table}")  # noqa: S608
