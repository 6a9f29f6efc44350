"""The list of studies that are to be read from a PACS."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError

COLUMNS: Final = ("AccessionNumber", "StudyInstanceUID")


def read_worklist(path: Path) -> tuple[str, list[str]]:
    """Read a worklist: its column, and what stands in it, sorted, each once.

    Raises
    ------
    UsageError
        The file cannot be read, has another column or names nothing that can be asked for.
    """
    try:
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
            "inputs: a worklist has not the one column that it must have",
            "Give it one column, headed AccessionNumber or StudyInstanceUID",
        )
    entries = {(row or "").strip() for row in rows} - {""}
    if not entries:
        raise UsageError("inputs: a worklist names no study", "Fill it, or leave this input out")
    if any(not one.isprintable() or set(one) & set("*?\\") for one in entries):
        raise UsageError(
            "inputs: a worklist holds a wildcard, a backslash or a control character",
            "Write one whole number or UID a line",
        )
    return columns[0], sorted(entries)
