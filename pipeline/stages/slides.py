"""Slides in a run: their files, and their specimens by the data controller's table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from medsanitize.errors import UsageError
from medsanitize.pipeline.runtime.optional_dependencies import is_missing
from medsanitize.pipeline.stages.stage import Advance, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.specimens import (
    LEVELS,
    count_pending_slides,
    pending_slides,
    store_specimen,
)
from medsanitize.pipeline.state.stage_results import SPECIMENS_ASSIGNED
from medsanitize.pipeline.storage.containers.address import shown
from medsanitize.pipeline.storage.sources import Input
from medsanitize.policies.model import SpecimenTable
from medsanitize.sanitize.context import SpecimenIds


@dataclass(frozen=True, slots=True)
class SpecimensStage(Stage):
    """Assign slides to the patients and specimens that a table states."""

    table: SpecimenTable | None
    inputs: tuple[Input, ...]

    name: ClassVar = "specimens"
    phase: ClassVar[Phase] = "inventory"
    in_plan: ClassVar = True
    invalidated_by: ClassVar = frozenset({"inventory"})

    def check(self) -> None:
        """Refuse a table that cannot be used."""
        if self.table is not None:
            check_specimen_table(self.table)

    def pending(self, state: State) -> int | None:
        """Return 0 without a table, or if it was read."""
        return 0 if self.table is None or SPECIMENS_ASSIGNED.is_set(state) else None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Assign the slides."""
        if self.table is not None:
            assign_specimens(context.state, self.table, self.inputs)


def check_specimen_table(table: SpecimenTable) -> None:
    """Check that the table ``wsi.specimens`` can be read and has the columns that the policy names.

    Raises
    ------
    UsageError
        The table cannot be read, or columns are missing.
    """
    # A generator checks the columns only when its first row is requested.
    next(iter(_rows(table)), None)


def assign_specimens(state: State, specimens: SpecimenTable, inputs: Sequence[Input]) -> None:
    """Assign patient, sample, block and section to every slide in the table, as one transaction.

    Parameters
    ----------
    state : State
        The state of the run, after the inventory.
    specimens : SpecimenTable
        The section ``wsi.specimens`` of the policy.
    inputs : sequence of Input
        The inputs; the table names slides relative to them.

    Raises
    ------
    UsageError
        The table names a slide twice, or contradicts itself for files of one slide.
    """
    table = _table(specimens)
    roots = [os.path.realpath(os.fsencode(root)) for root in inputs if isinstance(root, Path)]
    roots += [root.rstrip("/").encode() for root in inputs if isinstance(root, str)]
    with state.transaction():
        for slide in pending_slides(state):
            found = _specimen_in(table, [_relative_path(roots, path) for path in slide.paths])
            if found is not None:
                store_specimen(state, slide.id, found)
        SPECIMENS_ASSIGNED.set(state)


def _specimen_in(table: Mapping[str, SpecimenIds], names: Sequence[str]) -> SpecimenIds | None:
    """Return the table's entry for a slide, by the name of its main file, else of its other files."""
    if names[0] in table:
        return table[names[0]]
    found = {table[name] for name in names if name in table}
    if len(found) > 1:
        found = {replace(one, stain="") for one in found}  # channels of one slide may differ in stain
    if len(found) > 1:
        raise UsageError(
            "wsi.specimens gives files of one slide different specimens",
            "Name the list (.afi) instead of its files",
        )
    return next(iter(found), None)


def _relative_path(roots: Sequence[bytes], path: bytes) -> str:
    path = shown(path)
    root = next((root for root in roots if path.startswith(root + b"/")), b"")
    return os.fsdecode(path[len(root) + 1 :]) if root else os.fsdecode(path.rpartition(b"/")[2])


def _table(specimens: SpecimenTable) -> dict[str, SpecimenIds]:
    columns = [getattr(specimens, level) for level in LEVELS]
    table: dict[str, SpecimenIds] = {}
    for row in _rows(specimens):
        name = (row[specimens.slide] or "").strip().removeprefix("./")
        if name in table:
            raise UsageError("wsi.specimens names a slide twice", "List each slide once")
        table[name] = SpecimenIds(*((row[column] or "").strip() if column else "" for column in columns))
    return table


def _rows(specimens: SpecimenTable) -> Iterator[dict[str, str | None]]:
    """Yield the rows of the table, every value as text."""
    import csv

    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = list(
        dict.fromkeys([specimens.slide, *(c for c in map(specimens.__getattribute__, LEVELS) if c)])
    )
    try:
        if specimens.file.suffix == ".parquet":
            _require(wanted, pq.read_schema(specimens.file).names)
            rows = pq.read_table(specimens.file, columns=wanted).to_pylist()
            yield from ({key: None if v is None else str(v) for key, v in row.items()} for row in rows)
            return
        with Path(specimens.file).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            _require(wanted, reader.fieldnames or ())
            yield from reader
    except (OSError, UnicodeDecodeError, csv.Error, pa.ArrowException):
        raise UsageError(
            "wsi.specimens: the table cannot be read", "Give a CSV in UTF-8 or a Parquet file"
        ) from None


def _require(wanted: Sequence[str], given: Sequence[str]) -> None:
    if missing := sorted(set(wanted) - set(given)):
        raise UsageError(
            f"wsi.specimens: the table has no column {', '.join(missing)}", "Correct the names in the policy"
        )


def check_slide_extra(state: State) -> None:
    """Refuse slides in the inputs if the extra ``wsi`` is not installed, without importing it.

    Raises
    ------
    UsageError
        The extra is missing.
    """
    if is_missing("wsi") and count_pending_slides(state):
        raise UsageError(
            "The inputs contain whole-slide images, and the extra 'wsi' is not installed",
            "Install it with: pip install 'medsanitize[wsi]', or leave slides out (wsi: action: drop)",
        )
