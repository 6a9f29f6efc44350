"""What changed between two versions of a release: objects, patients and policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from medsanitize.release.duckdb_session import duckdb_session
from medsanitize.release.manifest import read_objects, read_policy_digest

_COLUMNS: Final = ("path", "patient", "sha256")


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """Differences of a version from an earlier one.

    Attributes
    ----------
    added, removed : int
        Objects that only the later, only the earlier version has.
    changed, unchanged : int
        Objects of both, with other and with the same bytes.
    patients_added, patients_removed, patients_kept : int
        Pseudonymous patients.
    same_policy : bool
        Whether both state the same digest of their policy.
    """

    added: int
    removed: int
    changed: int
    unchanged: int
    patients_added: int
    patients_removed: int
    patients_kept: int
    same_policy: bool


def version_changes(before: Path, after: Path) -> VersionChanges:
    """Compare the manifests of two versions; objects are the same if their paths are.

    Raises
    ------
    IntegrityError
        A manifest is missing or damaged.
    """
    import pyarrow as pa

    with TemporaryDirectory() as folder, duckdb_session(Path(folder)) as db:
        for name, release in (("before", before), ("after", after)):
            batches = [batch.select(_COLUMNS) for batch in read_objects(release, _COLUMNS)]
            schema = pa.schema([(column, pa.string()) for column in _COLUMNS])
            rows = pa.Table.from_batches([batch.cast(schema) for batch in batches], schema=schema)
            db.register(f"{name}_rows", rows)
        objects: list[int] = list(
            db.execute(
                "SELECT count(*) FILTER (b.path IS NULL), count(*) FILTER (a.path IS NULL),"
                " count(*) FILTER (a.sha256 <> b.sha256), count(*) FILTER (a.sha256 = b.sha256)"
                " FROM before_rows AS b FULL OUTER JOIN after_rows AS a ON a.path = b.path"
            ).fetchall()[0]
        )
        patients: list[int] = list(
            db.execute(
                "SELECT count(*) FILTER (b.patient IS NULL), count(*) FILTER (a.patient IS NULL),"
                " count(*) FILTER (a.patient = b.patient)"
                " FROM (SELECT DISTINCT patient FROM before_rows) AS b"
                " FULL OUTER JOIN (SELECT DISTINCT patient FROM after_rows) AS a ON a.patient = b.patient"
            ).fetchall()[0]
        )
    same = read_policy_digest(before) == read_policy_digest(after)
    added, removed, changed, unchanged = objects
    return VersionChanges(
        added, removed, changed, unchanged, patients[0], patients[1], patients[2], same_policy=same
    )
