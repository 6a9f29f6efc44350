"""CSV files with PHI: new, and readable by their owner only."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.release.atomic_io import storage_errors


def write_private_csv(target: Path, head: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
    """Write a new CSV file with mode 0600, and return the number of its rows.

    Raises
    ------
    UsageError
        A file of this name exists: none is replaced.
    """
    count = 0
    with storage_errors():
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            raise UsageError("A file of this name exists", "Name another file") from None
        # Names in other encodings than UTF-8 stay readable, and distinct.
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(head)
            for row in rows:
                writer.writerow(row)
                count += 1
    return count
