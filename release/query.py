"""SQL queries of a release: its manifest, patients and research index as tables of DuckDB."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release import layout
from medsanitize.release.duckdb_session import duckdb_session
from medsanitize.release.manifest import PATIENT_SCHEMA, read_objects
from medsanitize.release.manifest_file import read_batches
from medsanitize.release.research_index import INDEX_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

# As the series table of idc-index: one row per series, with its number of instances and its size.
_SERIES: Final = """
CREATE VIEW series AS SELECT
  any_value(PatientID) AS PatientID, any_value(StudyInstanceUID) AS StudyInstanceUID, SeriesInstanceUID,
  any_value(Modality) AS Modality, any_value(BodyPartExamined) AS BodyPartExamined,
  any_value(SeriesDescription) AS SeriesDescription, any_value(Manufacturer) AS Manufacturer,
  any_value(ManufacturerModelName) AS ManufacturerModelName, any_value(PatientAge) AS PatientAge,
  any_value(PatientSex) AS PatientSex, any_value(StudyDate) AS StudyDate,
  count(*) AS instanceCount, sum(instance_size) / 1000000 AS series_size_MB
FROM "index" WHERE SeriesInstanceUID <> '' GROUP BY SeriesInstanceUID
"""


def query_release(release: Path, sql: str) -> pa.Table:
    """Run one SQL query on the tables of a release.

    Parameters
    ----------
    release : Path
        Folder of the release.
    sql : str
        A query in DuckDB's SQL. Tables: ``objects`` and ``patients`` (the manifest), ``index`` (the research
        index, one row per object) and ``series`` (one row per series, columns named as in idc-index).
        It can read nothing else: no other file, no network.

    Returns
    -------
    pyarrow.Table
        The result.

    Raises
    ------
    UsageError
        The query is no valid SQL, names an unknown table or column, or fails while it runs.
    IntegrityError
        A table is missing or damaged; page checksums are verified for the pages that are read.
    EnvironmentFailure
        The disk is full or fails.
    """
    import duckdb

    with TemporaryDirectory(prefix="medsanitize-") as folder, duckdb_session(Path(folder)) as db:
        for name, paths in _tables(release).items():
            db.register(name, _dataset(paths))
        db.execute(_SERIES)
        # The query comes from outside: it must not read files, load extensions or change these settings.
        db.execute("SET enable_external_access = false")
        db.execute("SET python_enable_replacements = false")
        db.execute("SET lock_configuration = true")
        try:
            found = db.sql(sql)
            if found is None:
                raise UsageError("The query returns no rows", "Give one SELECT statement")
            return _with_distinct_names(found.to_arrow_table())
        except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as refused:
            # These quote the query itself and the names of columns, no values.
            raise UsageError(
                "The query is not valid", str(refused).partition("\n")[0].rstrip(" .!")
            ) from None
        except duckdb.PermissionException:
            raise UsageError(
                "The query reads or writes something else than the tables of the release",
                "Use the tables objects, patients, index and series",
            ) from None
        except (duckdb.IOException, duckdb.OutOfMemoryException):
            raise
        except duckdb.Error as failed:
            _require_intact(release)
            raise UsageError(
                f"The query failed while it ran ({type(failed).__name__})",
                "Check its casts and its functions",
            ) from None


def _tables(release: Path) -> dict[str, list[Path]]:
    found = {
        "objects": list(layout.object_manifests(release)),
        "patients": [release / layout.PATIENTS],
        "index": [release / layout.INDEX],
    }
    if not found["objects"] or not all(path.is_file() for paths in found.values() for path in paths):
        raise IntegrityError(
            "The release has no research index, or its manifest is incomplete",
            "Publish it again with this version, or fetch it again",
        )
    return found


def _with_distinct_names(found: pa.Table) -> pa.Table:
    """Number columns of the same name, ``index.path, objects.path``: rows as mappings would lose one."""
    names: list[str] = []
    for name in found.column_names:
        numbered = (f"{name}_{number}" for number in count(1))
        names.append(next(one for one in chain((name,), numbered) if one not in names))
    return found.rename_columns(names)


def _require_intact(release: Path) -> None:
    """Raise IntegrityError if a page is damaged: DuckDB does not say so where that is the cause."""
    for _ in read_objects(release):
        pass
    for path, schema in ((layout.PATIENTS, PATIENT_SCHEMA), (layout.INDEX, INDEX_SCHEMA)):
        for _ in read_batches(release / path, schema):
            pass


def _dataset(paths: list[Path]) -> Any:
    """Return the rows of Parquet files as a dataset that DuckDB can scan repeatedly, by column."""
    import pyarrow.dataset as ds

    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    # Read by Arrow: DuckDB expands * and [ in paths.
    return ds.dataset(paths, format=ds.ParquetFileFormat(default_fragment_scan_options=options))
