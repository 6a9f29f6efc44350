"""Lists of the data controller: small CSV files that a policy names."""

from __future__ import annotations

import csv
from pathlib import Path

from medsanitize.errors import UsageError


def read_csv_list(path: Path, section: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Read a CSV file in UTF-8 whole.

    Parameters
    ----------
    path : Path
    section : str
        Key of the policy, for messages.
    columns : tuple of str
        Columns that the file must have.

    Raises
    ------
    UsageError
        The file cannot be read, or a column is missing.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = set(columns) - set(reader.fieldnames or ())
            rows = [] if missing else list(reader)
    except (OSError, UnicodeDecodeError, csv.Error):
        raise UsageError(
            f"{section}: the file cannot be read as UTF-8 CSV", "Correct the path or the file"
        ) from None
    if missing:
        raise UsageError(
            f"{section}: a column is missing ({', '.join(sorted(missing))})", "Add it to the file"
        )
    return rows
