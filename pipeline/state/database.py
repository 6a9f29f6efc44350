"""The state of a run: one SQLite file from which the run resumes at any point.

Identifying values are encrypted (``pipeline.runtime.encryption``); rows are named by keyed digests. Queries
read a page of rows at a time, so memory does not depend on the number of objects.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from medsanitize.errors import EnvironmentFailure, IntegrityError
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.release.atomic_io import storage_errors
from medsanitize.sanitize.pseudonyms import SubKeys

# Rows of a page: enough to amortize a query, few enough for memory.
PAGE = 500

SCHEMA_VERSION = 11
# A commit per object would dominate the run time; a kill loses at most one such batch.
_COMMIT_OBJECTS = 500
_COMMIT_SECONDS = 1.0
_DAMAGE_CODES = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
# Codes with which SQLite reports a disk, lock or permission problem instead of a wrong statement.
_STORAGE_CODES = tuple(
    f"SQLITE_{name}"
    for name in ("FULL", "IOERR", "BUSY", "LOCKED", "READONLY", "CANTOPEN", "PERM", "PROTOCOL", "NOLFS")
)

# SQLite errors that `translated_errors` does not convert.
StateError = sqlite3.Error

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
  id INTEGER PRIMARY KEY,            -- position in the sorted walk
  size INTEGER NOT NULL,
  stamp BLOB NOT NULL,               -- keyed digest of size, times and inode
  kind TEXT NOT NULL,
  patient BLOB NOT NULL, study BLOB NOT NULL, sop BLOB NOT NULL,  -- keyed names, empty when absent
  identified INTEGER NOT NULL,       -- how many patient ids the object states
  -- Size of the image as the header states it, 0 without one; 1 where burned-in text is to be expected.
  image_rows INTEGER NOT NULL DEFAULT 0, image_columns INTEGER NOT NULL DEFAULT 0,
  image_frames INTEGER NOT NULL DEFAULT 0, may_show_text INTEGER NOT NULL DEFAULT 0,
  source_series BLOB NOT NULL DEFAULT x'', device BLOB NOT NULL DEFAULT x'',  -- keyed names, or empty
  contested INTEGER NOT NULL DEFAULT 0,  -- 1 another object states its UID, 2 it gets its own
  outcome TEXT, rule TEXT,
  staged INTEGER NOT NULL DEFAULT 0, -- 1 a file at its name, 2 elsewhere until a contest is settled
  p_patient TEXT, p_study TEXT, p_series TEXT, p_instance TEXT,
  p_suffix TEXT NOT NULL DEFAULT 'dcm',  -- what the name of the released file ends in
  p_parts TEXT NOT NULL DEFAULT '',  -- names of the further files of a slide, less its own, a line each
  bytes INTEGER, sha256 BLOB, native INTEGER, pixels BLOB,  -- native: 1 plain samples, 0 compressed
  pixels_check INTEGER NOT NULL DEFAULT 0,  -- 1 pixels were compared, -1 they could not be
  flags TEXT NOT NULL DEFAULT '',    -- duplicate findings, comma separated
  audited INTEGER NOT NULL DEFAULT 0,
  requeued INTEGER NOT NULL DEFAULT 0,  -- 1 sanitized again after the last review
  source BLOB NOT NULL,              -- sealed path
  payload BLOB                       -- sealed record
);
-- Counts and marks of a few among millions must not read every row with its sealed record.
CREATE INDEX IF NOT EXISTS objects_outcome ON objects (outcome, rule);
CREATE INDEX IF NOT EXISTS objects_flagged ON objects (id) WHERE flags <> '';
CREATE TABLE IF NOT EXISTS patients (
  patient BLOB PRIMARY KEY, person BLOB NOT NULL, value BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS merged (  -- keyed names of identities that are another one's patient
  alias BLOB PRIMARY KEY, person BLOB NOT NULL, patient BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS demographics (  -- what objects state about patients; value: sealed
  patient BLOB NOT NULL, birth BLOB NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (patient, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS known_identifiers (
  owner BLOB NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (owner, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS slices (  -- objects that may be part of a head; geometry: sealed
  id INTEGER PRIMARY KEY, series BLOB NOT NULL, frame BLOB NOT NULL,
  frames INTEGER NOT NULL, projection INTEGER NOT NULL, geometry BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS faces (  -- one verdict a series; cuts: sealed
  series BLOB PRIMARY KEY, verdict TEXT NOT NULL, cuts BLOB
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS listed_files (  -- of DICOMDIRs; sop: keyed name or empty, path: sealed
  dicomdir INTEGER NOT NULL, sop BLOB NOT NULL, path BLOB NOT NULL, missing INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS specimens (id INTEGER PRIMARY KEY, value BLOB NOT NULL);  -- of slides: sealed
CREATE TABLE IF NOT EXISTS findings (
  id INTEGER NOT NULL, location TEXT NOT NULL, rule TEXT NOT NULL, PRIMARY KEY (id, location, rule)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS excerpts (  -- what a finding consists of; value: sealed
  id INTEGER NOT NULL, location TEXT NOT NULL, rule TEXT NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (id, location, rule, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS excerpts_name ON excerpts (name);
CREATE TABLE IF NOT EXISTS chance_findings (  -- findings that a person judged to be chance
  id INTEGER NOT NULL, location TEXT NOT NULL, rule TEXT NOT NULL, PRIMARY KEY (id, location, rule)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS scans (  -- tiles of DICOM slides, and of each channel of an AFI
  digest BLOB NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (digest, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS links (
  name BLOB PRIMARY KEY, patient INTEGER NOT NULL, value BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS review_items (  -- rank: the least certain first; value: sealed text and pictures
  name BLOB PRIMARY KEY, location TEXT NOT NULL, rule TEXT NOT NULL, rank INTEGER NOT NULL,
  value BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS review_items_order ON review_items (rank, rule, name, location);
CREATE TABLE IF NOT EXISTS review_item_objects (
  id INTEGER NOT NULL, name BLOB NOT NULL, PRIMARY KEY (id, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS review_item_objects_name ON review_item_objects (name);
CREATE TABLE IF NOT EXISTS review_items_left_out (  -- number of items that were not stored
  id INTEGER PRIMARY KEY, count INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS fingerprints (  -- of staged objects; value: perceptual hash and embeddings, sealed
  id INTEGER PRIMARY KEY, problem TEXT NOT NULL, modality TEXT, value BLOB
);
CREATE TABLE IF NOT EXISTS sampled_images (  -- synthetic images: sealed
  name BLOB PRIMARY KEY, value BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS synthetics (id INTEGER PRIMARY KEY, label BLOB NOT NULL);  -- label: sealed
CREATE TABLE IF NOT EXISTS chance (  -- excerpts that a person judged to be chance; reason: sealed
  name BLOB PRIMARY KEY, reason BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS judgments (  -- of a person on a sampled object; reviewer: keyed name
  id INTEGER NOT NULL, sha256 BLOB NOT NULL, reviewer BLOB NOT NULL, verdict TEXT NOT NULL,
  PRIMARY KEY (id, sha256, reviewer)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS decision_log (number INTEGER PRIMARY KEY, value BLOB NOT NULL);  -- sealed
CREATE TABLE IF NOT EXISTS decisions (  -- of a person; location '' is the whole object
  id INTEGER NOT NULL, location TEXT NOT NULL, verdict TEXT NOT NULL,
  reviewer BLOB NOT NULL DEFAULT x'',  -- keyed name
  PRIMARY KEY (id, location)
) WITHOUT ROWID;
"""


class State:
    """One open state file.

    Parameters
    ----------
    path : Path or None
        None keeps the state in an unnamed temporary file, which is deleted with the process.
    subkeys : SubKeys
        Keys that encrypt values and name rows.
    fixed : bool
        Open read-only a state to which no process writes, so that many machines can read it at once: SQLite
        then needs no lock and no further file.
    """

    def __init__(self, path: Path | None, subkeys: SubKeys, *, fixed: bool = False) -> None:
        self.path = path
        self.seal = Seal(subkeys)
        if path is not None:
            os.environ["SQLITE_TMPDIR"] = str(path.parent)  # temporary files of SQLite may contain PHI
        if path is not None and not fixed:
            with storage_errors():
                # Created here with mode 0600, because SQLite would use the umask.
                os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        name = immutable_uri(path) if path is not None and fixed else path or ""
        # isolation_level=None: transactions are opened explicitly, so that their extent is visible.
        self.db = sqlite3.connect(name, isolation_level=None, uri=True)
        with self.closed_on_failure(), translated_errors():
            if path is None:
                # The file is deleted with the process, so nothing can be recovered from a journal.
                self.db.execute("PRAGMA journal_mode=OFF")
                self.db.execute("PRAGMA synchronous=OFF")
            elif not fixed:
                self.db.execute("PRAGMA journal_mode=WAL")
                # With WAL, NORMAL cannot corrupt the file; a power failure may lose the last commits, which
                # run again.
                self.db.execute("PRAGMA synchronous=NORMAL")
            self.db.executescript("PRAGMA schema_version" if fixed else _SCHEMA)
        self._pending = 0
        self._since = 0.0

    def __repr__(self) -> str:
        return "State(...)"

    @contextmanager
    def closed_on_failure(self) -> Iterator[State]:
        """Close the file if the block fails, before a caller owns it."""
        try:
            yield self
        except BaseException:
            self.db.close()
            raise

    def close(self) -> None:
        """Commit the open transaction and close the file."""
        try:
            self.commit()
        finally:
            self.db.close()

    # -- transactions ---------------------------------------------------------------------

    def begin(self) -> None:
        """Open a transaction unless one is open."""
        if not self.db.in_transaction:
            self.db.execute("BEGIN")
            self._pending, self._since = 0, time.monotonic()

    def commit(self) -> None:
        """Commit, so that everything written so far survives a kill."""
        if self.db.in_transaction:
            with translated_errors():
                self.db.execute("COMMIT")

    def count_written(self, objects: int) -> bool:
        """Count written objects, and commit if a batch is due; return whether it was."""
        self._pending += objects
        if self._pending < _COMMIT_OBJECTS and time.monotonic() - self._since < _COMMIT_SECONDS:
            return False
        self.commit()
        return True

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block as one transaction: commit at the end, roll back on any error."""
        self.commit()
        with translated_errors():
            self.db.execute("BEGIN")
            try:
                yield self.db
            except BaseException:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")

    # -- meta -----------------------------------------------------------------------------

    def get(self, name: str) -> str | None:
        """Return an encrypted value by name, or None; only ``pipeline.state`` uses names."""
        row = self.db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else self.seal.open(row[0], b"meta:" + name.encode()).decode()

    def put(self, name: str, value: str) -> None:
        """Encrypt and store a value, within the open transaction if there is one."""
        # The purpose binds a value to its name: swapping two values is detected.
        sealed = self.seal.close(value.encode(), b"meta:" + name.encode())
        with translated_errors():
            self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, sealed))

    def plain(self, name: str) -> bytes | None:
        """Return an unencrypted value; only for values that reveal nothing, such as the key check."""
        row = self.db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def put_plain(self, name: str, value: bytes) -> None:
        """Store an unencrypted value."""
        with translated_errors():
            self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def remove(self, name: str) -> None:
        """Delete a value, within the open transaction if there is one."""
        with translated_errors():
            self.db.execute("DELETE FROM meta WHERE name = ?", (name,))

    # -- rows -----------------------------------------------------------------------------

    def write(self, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Run one statement for many rows within the open batch."""
        with translated_errors():
            self.begin()
            self.db.executemany(sql, rows)

    def count(self, where: str = "1") -> int:
        """Count the objects that satisfy a condition (a constant of this package, never input)."""
        row = self.db.execute(f"SELECT count(*) FROM objects WHERE {where}").fetchone()  # noqa: S608
        return int(row[0])


def immutable_uri(path: Path) -> str:
    """Return the URI with which SQLite opens an immutable file."""
    # immutable=1 skips locks and change detection, which is only safe without writers.
    return f"file:{quote(os.fsencode(path))}?immutable=1"


@contextmanager
def translated_errors() -> Iterator[None]:
    """Convert SQLite errors: failing storage to EnvironmentFailure, a damaged file to IntegrityError.

    Raises
    ------
    EnvironmentFailure
        The disk is full, or the file cannot be read, written or locked.
    IntegrityError
        The file is damaged.
    StateError
        Any other error: a wrong statement, hence a defect.
    """
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(_DAMAGE_CODES):
            raise IntegrityError(
                f"The state is damaged ({name})",
                "To start again, remove the state file alone (NAME-VERSION.sqlite, of a shard"
                " NAME-VERSION.shard-I-of-N.sqlite, with -wal and -shm): what else lies in the folder may be"
                " of other releases",
            ) from None
        if name.startswith(_STORAGE_CODES):
            raise EnvironmentFailure(
                f"The state could not be read or written ({name})",
                "Free some space or repair the file system of the state folder, then run the same command"
                " again",
            ) from None
        raise
