"""Counts of a state that another process may be writing: outcomes and rules, which need no key."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from medsanitize.pipeline.state.database import immutable_uri
from medsanitize.pipeline.state.objects import FOUND

_BUSY_SECONDS: Final = 1.0


def read_outcomes(path: Path) -> dict[tuple[str, str], int]:
    """Count the objects found in the inputs by outcome (``pending`` without one) and rule.

    Returns
    -------
    dict
        Empty if there is no state, or none that can be read now.
    """
    if not path.is_file():
        return {}
    # Read-only: the file is another process's, which may be in the middle of a run. Without a log there is
    # none, and SQLite is told so, because it would otherwise leave files of its own.
    log = path.with_name(path.name + "-wal")
    uri = f"file:{quote(os.fsencode(path))}?mode=ro" if log.exists() else immutable_uri(path)
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as db:
            rows = db.execute(
                "SELECT coalesce(outcome, 'pending'), coalesce(rule, ''), count(*) FROM objects"  # noqa: S608
                f" WHERE {FOUND} GROUP BY outcome, rule"
            ).fetchall()
    except sqlite3.Error:
        return {}
    return {(str(outcome), str(rule)): int(count) for outcome, rule, count in rows}
