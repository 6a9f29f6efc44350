"""Files that a DICOMDIR of the inputs lists, and those of them that are not there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.keys import open_paths


@dataclass(frozen=True, slots=True, repr=False)
class ListedRow:
    """One listed file: row of the DICOMDIR, keyed name of the SOP Instance UID (or empty), encrypted path."""

    dicomdir: int
    sop: bytes
    path: bytes

    def __repr__(self) -> str:
        return f"ListedRow({self.dicomdir})"


def add_listed(state: State, rows: Iterable[ListedRow]) -> None:
    """Add listed files within the open batch."""
    state.write(
        "INSERT INTO listed_files (dicomdir, sop, path) VALUES (?, ?, ?)",
        [(row.dicomdir, row.sop, row.path) for row in rows],
    )


def not_found_by_uid(state: State) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield number, address of the DICOMDIR and path of every listed file whose UID no object states."""
    rows = state.db.execute(
        "SELECT l.rowid, o.source, l.path FROM listed_files AS l JOIN objects AS o ON o.id = l.dicomdir"
        " WHERE l.sop = X'' OR l.sop NOT IN (SELECT sop FROM objects) ORDER BY l.rowid"
    ).fetchall()
    for number, source, path in rows:
        yield number, open_paths(state.seal, source)[0], state.seal.open(path, b"listed")


def all_paths_found(state: State) -> Iterator[bytes]:
    """Yield the address of every file of the inputs."""
    for (source,) in state.db.execute("SELECT source FROM objects"):
        yield from open_paths(state.seal, source)


def mark_missing(state: State, numbers: Iterable[int]) -> None:
    """Mark listed files as missing, within the open transaction."""
    state.db.executemany(
        "UPDATE listed_files SET missing = 1 WHERE rowid = ?", [(number,) for number in numbers]
    )


def count_listed(state: State) -> tuple[int, int, int]:
    """Count the DICOMDIRs of the inputs, the files that they list, and those of them that are missing."""
    directories = state.count("kind = 'dicomdir'")
    listed, missing = state.db.execute("SELECT count(*), total(missing) FROM listed_files").fetchone()
    return directories, int(listed), int(missing)


def missing_files(state: State, limit: int = -1) -> Iterator[tuple[bytes, bytes]]:
    """Yield address of the DICOMDIR and path of the listed files that are missing; at most ``limit``."""
    rows = state.db.execute(
        "SELECT o.source, l.path FROM listed_files AS l JOIN objects AS o ON o.id = l.dicomdir"
        " WHERE l.missing ORDER BY l.rowid LIMIT ?",
        (limit,),
    )
    for source, path in rows:
        yield open_paths(state.seal, source)[0], state.seal.open(path, b"listed")
