"""DuckDB for row sets that may not fit into memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.release.atomic_io import storage_errors

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow import RecordBatchReader

MEMORY: Final = "1GB"
# Rows per Arrow batch; bounds memory.
_ROWS: Final = 65_536
_SPILL_SUFFIX: Final = ".spilled"


@contextmanager
def duckdb_session(folder: Path) -> Iterator[DuckDBPyConnection]:
    """Open an in-memory database that spills what exceeds 1 GB to ``folder``; the spilled files are removed.

    It uses one thread, makes no network connections and loads no extensions.

    Raises
    ------
    EnvironmentFailure
        The disk is full or fails.
    """
    import duckdb

    spilled = folder / _SPILL_SUFFIX
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        # One thread, so that the same rows give the same result on every machine.
        "threads": 1,
        # DuckDB would spill to the working folder by default.
        "temp_directory": str(spilled),
        # DuckDB downloads missing extensions by default.
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    try:
        with duckdb.connect(":memory:", config=settings) as db:
            yield db
    except (duckdb.IOException, duckdb.OutOfMemoryException):
        raise EnvironmentFailure(
            "Rows could not be processed", "Free some space, then run the same command again"
        ) from None
    finally:
        with storage_errors():
            shutil.rmtree(spilled, ignore_errors=True)


def table_rows(path: Path) -> RecordBatchReader:
    """Return the rows of a Parquet file, to be registered as a table of one query."""
    import pyarrow.parquet as pq
    from medsanitize.release.parquet_io import read_record_batches
    from pyarrow import RecordBatchReader

    # Not read by DuckDB itself: it expands * and [ in paths, and reads folders such as sex=M as columns.
    file = pq.ParquetFile(path)
    return RecordBatchReader.from_batches(file.schema_arrow, read_record_batches(file, _ROWS))


def sorted_rows(
    db: DuckDBPyConnection, path: Path, columns: Sequence[str], page: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield pages of the rows of a Parquet file, sorted by columns with nulls first.

    Parameters
    ----------
    db : DuckDBPyConnection
        An open `duckdb_session`.
    path : Path
        The Parquet file.
    columns : sequence of str
        Names of the columns to sort by.
    page : int
        Maximum number of rows per page.

    Yields
    ------
    list of tuple
        Values of all columns of each row, in the order of the file's schema.
    """
    order = ", ".join(f"{quote_identifier(name)} NULLS FIRST" for name in columns)
    db.register("waiting", table_rows(path))
    found = db.execute(f"SELECT * FROM waiting ORDER BY {order}")  # noqa: S608  names are quoted
    while rows := found.fetchmany(page):
        yield rows


def quote_identifier(name: str) -> str:
    """Quote the name of a column for SQL."""
    return '"' + name.replace('"', '""') + '"'
