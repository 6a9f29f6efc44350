"""Worklists: tables of studies to retrieve from a PACS."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError

COLUMNS: Final = ("AccessionNumber", "StudyInstanceUID")


def read_worklist(path: Path, query: Collection[str] = ()) -> tuple[str, list[str]]:
    """Read a worklist.

    Parameters
    ----------
    path : Path
        CSV file with one column.
    query : collection of str
        Keys of the query of the same input.

    Returns
    -------
    tuple of str and list of str
        The column, and its distinct values, sorted.

    Raises
    ------
    UsageError
        The file cannot be read, has another column, is empty, contains wildcards, or has the column of a
        query key: only one of the two could be applied.
    """
    try:
        # utf-8-sig: Excel begins CSV files with a byte order mark.
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            columns = list(reader.fieldnames or ())
            rows = [row.get(columns[0]) for row in reader] if columns else []
    except (OSError, UnicodeDecodeError, csv.Error):
        raise UsageError(
            "inputs: a worklist cannot be read as UTF-8 CSV", "Correct the path or the file"
        ) from None
    if len(columns) != 1 or columns[0] not in COLUMNS:
        raise UsageError(
            "inputs: a worklist must have exactly one column",
            "Name the column AccessionNumber or StudyInstanceUID",
        )
    if columns[0] in query:
        raise UsageError(
            f"inputs: {columns[0]} is both the column of a worklist and a key of the query",
            "Delete it from the query: the worklist names the studies",
        )
    entries = {(row or "").strip() for row in rows} - {""}
    if not entries:
        raise UsageError("inputs: a worklist is empty", "Add studies, or remove this input")
    # A wildcard would match studies that the worklist does not name.
    if any(not one.isprintable() or set(one) & set("*?\\") for one in entries):
        raise UsageError(
            "inputs: a worklist contains a wildcard, a backslash or a control character",
            "Write one complete number or UID per line",
        )
    return columns[0], sorted(entries)
