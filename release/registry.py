"""The registry of earlier releases: which digests were published before, and in which release.

An SQLite file in a folder of mode 0700 of the data controller. It contains digests of released files and
pixels, names of releases, and embeddings encrypted under a separate key; nothing of a source.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.release import embeddings as sealed
from medsanitize.release import layout
from medsanitize.release.checksums import digest_file
from medsanitize.release.embeddings import Embeddings, Vault
from medsanitize.release.manifest import read_objects
from medsanitize.release.verify import verify_release

DATABASE: Final = "registry.sqlite"
_VERSION: Final = 2
# Digests are sorted within a batch, which is held in memory.
_ADD_AT_ONCE: Final = 100_000
_LOOK_UP_AT_ONCE: Final = 20_000
# Primary keys start with the digest: lookups by digest then need no second index.
_SCHEMA: Final = f"""
CREATE TABLE release (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, mode TEXT NOT NULL,
    supersedes TEXT, root TEXT NOT NULL, objects INTEGER NOT NULL, UNIQUE (name, version)
) STRICT;
CREATE TABLE by_bytes (digest BLOB, release INTEGER, PRIMARY KEY (digest, release)) STRICT, WITHOUT ROWID;
CREATE TABLE by_pixels (digest BLOB, release INTEGER, PRIMARY KEY (digest, release)) STRICT, WITHOUT ROWID;
CREATE TABLE relies (release INTEGER, prior INTEGER, PRIMARY KEY (release, prior)) STRICT, WITHOUT ROWID;
{sealed.SCHEMA}
PRAGMA user_version = {_VERSION};
"""
# Version 2 added the tables of embeddings.
_UPGRADE: Final = f"BEGIN IMMEDIATE; {sealed.SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;"
_ENTRY: Final = "SELECT name, version, mode, supersedes, root, objects FROM release"


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A registered release; ``root`` is the SHA-256 of its RELEASE.json."""

    name: str
    version: str
    mode: str
    supersedes: str | None
    root: str
    objects: int


@dataclass(frozen=True, slots=True)
class RegistryHit:
    """An object of an earlier release that equals a looked-up one.

    ``index`` is the position of the looked-up pair. ``by`` is what is equal; equal bytes are not reported as
    equal pixels of the same release, too.
    """

    index: int
    by: Literal["bytes", "pixels"]
    name: str
    version: str

    def carried_over(self, name: str) -> bool:
        """Whether this is an earlier version of the release ``name``, hence not a duplicate."""
        return self.name == name


@dataclass(frozen=True, slots=True)
class AffectedRelease:
    """A registered release that depends on a removed one.

    Attributes
    ----------
    entry : RegistryEntry
        The dependent release.
    shared : int
        Number of objects that are in both releases, byte for byte.
    supersedes : bool
        Whether it replaces the removed version.
    dropped_against : bool
        Whether objects were dropped from it because the removed release contains them.
    """

    entry: RegistryEntry
    shared: int
    supersedes: bool
    dropped_against: bool


@dataclass(frozen=True, slots=True)
class Registry:
    """The registry in the folder ``path``; a folder without database is an empty registry.

    All methods may raise `IntegrityError` (the database is damaged) and `EnvironmentFailure` (the disk
    failed, or another process is writing to the registry).
    """

    path: Path

    def add(
        self,
        release: Path,
        *,
        relies_on: Iterable[tuple[str, str]] = (),
        verified: bool = False,
        tiles: Iterable[bytes] = (),
    ) -> RegistryEntry:
        """Verify a release and register its objects; adding it again changes nothing.

        Parameters
        ----------
        release : Path
            A published release.
        relies_on : iterable of (name, version)
            Releases because of which objects were dropped from this one.
        verified : bool
            Whether the caller has just digested all of its files.
        tiles : iterable of bytes
            Digests of the tiles of its slides, which no manifest states; they count as pixels.

        Returns
        -------
        RegistryEntry
            The release as registered.

        Raises
        ------
        IntegrityError
            The release is not intact.
        UsageError
            Another release of this name and version is registered, or ``relies_on`` contains an unknown
            release.
        """
        if not verified and verify_release(release, key=None).status != "intact":
            raise IntegrityError(
                "The release is not intact", "List the affected files: medsanitize verify RELEASE"
            )
        entry = _entry_of(release)
        with self._open(write=True) as db, db:
            # IMMEDIATE takes the write lock first: a read lock that must be upgraded later can deadlock.
            db.execute("BEGIN IMMEDIATE")
            known = db.execute(
                f"{_ENTRY} WHERE name = ? AND version = ?", (entry.name, entry.version)
            ).fetchone()
            if known is not None:
                if RegistryEntry(*known) != entry:
                    raise UsageError(
                        "Another release with this name and version is registered",
                        "Change the version of the new release, or remove the old one first",
                    )
                _insert_tiles(db, _number(db, entry.name, entry.version), tiles)
                return entry
            number = _insert_release(db, entry)
            for name, version in sorted(set(relies_on)):
                db.execute("INSERT INTO relies VALUES (?, ?)", (number, _number(db, name, version)))
            _insert_digests(db, number, release)
            _insert_tiles(db, number, tiles)
        return entry

    def add_embeddings(
        self, entry: RegistryEntry, model: str, batches: Iterable[Embeddings], vault: Vault, *, missing: int
    ) -> None:
        """Store the embeddings of a registered release, replacing earlier ones of the same models.

        Parameters
        ----------
        entry : RegistryEntry
            The release, as `add` returned it.
        model : str
            Digest that identifies the models.
        batches : iterable of Embeddings
            At most `embeddings.PART` images each.
        vault : Vault
            Encrypts the embeddings.
        missing : int
            Number of objects of the release that no model could read.

        Raises
        ------
        UsageError
            The release is not registered.
        KeyMaterialError
            The registry has embeddings under another key.
        """
        counts: dict[str, int] = {}
        with self._open(write=True) as db, db:
            db.execute("BEGIN IMMEDIATE")
            _require_key(db, vault)
            number = _number(db, entry.name, entry.version)
            for table in sealed.TABLES:
                db.execute(f"DELETE FROM {table} WHERE release = ? AND model = ?", (number, model))  # noqa: S608
            for part, batch in enumerate(batches):
                sealed.insert_embeddings(db, number, entry.root, model, batch, part, vault)
                counts[batch.modality] = counts.get(batch.modality, 0) + len(batch.patients)
            rows = [(number, model, modality, count) for modality, count in sorted(counts.items())]
            db.executemany("INSERT INTO embedded VALUES (?, ?, ?, ?)", rows)
            db.execute("INSERT INTO not_embedded VALUES (?, ?, ?)", (number, model, missing))

    def list(self) -> tuple[RegistryEntry, ...]:
        """Return the registered releases by name, then by time of registration."""
        with self._open(write=False) as db:
            return tuple(RegistryEntry(*row) for row in db.execute(f"{_ENTRY} ORDER BY name, id"))

    def remove(self, name: str, version: str) -> tuple[AffectedRelease, ...]:
        """Remove a release from the registry.

        Returns
        -------
        tuple of AffectedRelease
            The registered releases that depend on it.

        Raises
        ------
        UsageError
            The release is not registered.
        """
        with self._open(write=True) as db, db:
            db.execute("BEGIN IMMEDIATE")
            number = _number(db, name, version)
            # Before the deletion of the rows from which it is computed.
            affected = _affected(db, number, name, version)
            for table, column in (("by_bytes", "release"), ("by_pixels", "release"), ("release", "id")):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))  # noqa: S608  names from the line above
            db.execute("DELETE FROM relies WHERE release = ? OR prior = ?", (number, number))
            for table in sealed.TABLES:
                db.execute(f"DELETE FROM {table} WHERE release = ?", (number,))  # noqa: S608
        return affected

    def lookup(self, digests: Iterable[tuple[str, str | None]]) -> Iterator[RegistryHit]:
        """Yield the objects of earlier releases that equal looked-up ones, in the order of the input.

        Parameters
        ----------
        digests : iterable of (str, str or None)
            SHA-256 (hex) of the released bytes, and of the decoded pixels if known. Consumed in batches.
        """
        numbered = enumerate(digests)
        with self._open(write=False) as db:
            db.execute("CREATE TEMP TABLE wanted (i INTEGER, bytes BLOB, pixels BLOB)")
            while batch := [
                (i, _raw(whole), _raw(pixels)) for i, (whole, pixels) in islice(numbered, _LOOK_UP_AT_ONCE)
            ]:
                db.execute("DELETE FROM wanted")
                db.executemany("INSERT INTO wanted VALUES (?, ?, ?)", batch)
                for i, by, name, version in db.execute(_LOOK_UP).fetchall():
                    yield RegistryHit(i, by, name, version)

    def pixels(self, *, leave_out: Collection[str] = ()) -> Iterator[bytes]:
        """Yield the digests of decoded pixels of all releases, each once, in order.

        Parameters
        ----------
        leave_out : collection of str
            Names of releases that are not asked for; what others have as well is yielded.
        """
        with self._open(write=False) as db:
            rows = db.execute(
                "SELECT DISTINCT digest FROM by_pixels JOIN release ON release.id = by_pixels.release"
                " WHERE release.name NOT IN (SELECT value FROM json_each(?)) ORDER BY digest",
                (json.dumps(list(leave_out)),),
            )
            yield from (digest for (digest,) in rows)

    def missing(self, name: str, version: str, model: str) -> int | None:
        """Return the number of objects that models could not read; None if the models did not run."""
        with self._open(write=False) as db:
            if db.execute("PRAGMA user_version").fetchone() == (1,):
                return None
            row = db.execute(
                "SELECT n.objects FROM not_embedded AS n JOIN release ON release.id = n.release"
                " WHERE name = ? AND version = ? AND model = ?",
                (name, version, model),
            ).fetchone()
        return None if row is None else int(row[0])

    def embeddings(self, entry: RegistryEntry, model: str, vault: Vault) -> Iterator[Embeddings]:
        """Yield the embeddings of a release, by modality.

        Parameters
        ----------
        entry : RegistryEntry
            The release.
        model : str
            Digest that identifies the models.
        vault : Vault
            Decrypts the embeddings.

        Raises
        ------
        KeyMaterialError
            The key is not that of the registry, or a part was modified.
        """
        with self._open(write=False) as db:
            # Version 1 has no tables for embeddings; only a writer upgrades it.
            if db.execute("PRAGMA user_version").fetchone() == (1,):
                return
            number = _number(db, entry.name, entry.version)
            rows = db.execute(
                "SELECT modality FROM embedded WHERE release = ? AND model = ? ORDER BY modality",
                (number, model),
            )
            for (modality,) in rows.fetchall():
                yield from sealed.select_embeddings(db, number, entry.root, model, modality, vault)

    @contextlib.contextmanager
    def _open(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """Open the database for one call; read-only unless ``write``, for registries on read-only disks."""
        file = self.path / DATABASE
        with _failures():
            if write:
                _make(self.path, file)
            present = file.exists()
            where = f"{file.absolute().as_uri()}?mode={'rw' if write else 'ro'}" if present else ":memory:"
            # isolation_level=None: transactions are started explicitly.
            with contextlib.closing(sqlite3.connect(where, uri=True, isolation_level=None, timeout=30)) as db:
                # Temporary tables contain digests of objects that may not be released; they must not reach
                # the disk.
                db.execute("PRAGMA temp_store = MEMORY")
                db.execute("PRAGMA cache_size = -32768")  # KiB
                if not present or (write and db.execute("PRAGMA user_version").fetchone() == (0,)):
                    db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
                if write and db.execute("PRAGMA user_version").fetchone() == (1,):
                    db.executescript(_UPGRADE)
                if db.execute("PRAGMA user_version").fetchone() not in ((1,), (_VERSION,)):
                    raise IntegrityError(
                        "The registry has another format version",
                        "Use the version of medsanitize that created it",
                    )
                yield db


# CROSS JOIN fixes the join order in SQLite: few wanted rows against a large index.
_LOOK_UP: Final = """
SELECT wanted.i, 'bytes', release.name, release.version
FROM wanted CROSS JOIN by_bytes ON by_bytes.digest = wanted.bytes
JOIN release ON release.id = by_bytes.release
UNION ALL
SELECT wanted.i, 'pixels', release.name, release.version
FROM wanted CROSS JOIN by_pixels ON by_pixels.digest = wanted.pixels
JOIN release ON release.id = by_pixels.release
WHERE NOT EXISTS (SELECT 1 FROM by_bytes AS b WHERE b.digest = wanted.bytes AND b.release = by_pixels.release)
ORDER BY 1, 2, 3, 4
"""


def _make(folder: Path, file: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # mkdir applies the umask, and an existing folder may have a wider mode.
    folder.chmod(0o700)
    if not file.exists():
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Convert failures of SQLite and of the disk to errors of this package."""
    try:
        yield
    except sqlite3.OperationalError as failure:
        name = getattr(failure, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise EnvironmentFailure("Another process is updating the registry", "Try again later") from None
        raise EnvironmentFailure(
            "The registry cannot be used", "Check disk space and access rights, then run the command again"
        ) from None
    except sqlite3.DatabaseError:
        raise IntegrityError("The registry is damaged", "Delete it and add the releases again") from None
    except OSError:
        raise EnvironmentFailure(
            "The registry cannot be used", "Check disk space and access rights, then run the command again"
        ) from None


def _entry_of(release: Path) -> RegistryEntry:
    root = json.loads((release / layout.ROOT).read_bytes())
    objects = sum(batch.num_rows for batch in read_objects(release, ["object_id"]))
    digest = digest_file(release / layout.ROOT)
    return RegistryEntry(root["name"], root["version"], root["mode"], root["supersedes"], digest, objects)


def _raw(digest: str | None) -> bytes | None:
    return None if digest is None else bytes.fromhex(digest)


def _insert_release(db: sqlite3.Connection, entry: RegistryEntry) -> int:
    values = (entry.name, entry.version, entry.mode, entry.supersedes, entry.root, entry.objects)
    columns = "name, version, mode, supersedes, root, objects"
    cursor = db.execute(f"INSERT INTO release ({columns}) VALUES (?, ?, ?, ?, ?, ?)", values)  # noqa: S608
    return int(cursor.lastrowid or 0)


def _insert_digests(db: sqlite3.Connection, number: int, release: Path) -> None:
    """Insert digests in sorted batches: the B-tree is then traversed once per batch, not once per row."""
    for column, table in (("sha256", "by_bytes"), ("pixels_sha256", "by_pixels")):
        values = (
            v
            for batch in read_objects(release, [column])
            for v in batch.column(0).to_pylist()
            if v is not None
        )
        while batch := sorted({bytes.fromhex(value) for value in islice(values, _ADD_AT_ONCE)}):
            rows = ((digest, number) for digest in batch)
            db.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", rows)  # noqa: S608


def _insert_tiles(db: sqlite3.Connection, number: int, tiles: Iterable[bytes]) -> None:
    rows = ((digest, number) for digest in sorted(set(tiles)))
    db.executemany("INSERT OR IGNORE INTO by_pixels VALUES (?, ?)", rows)


def _require_key(db: sqlite3.Connection, vault: Vault) -> None:
    """Check that the key is that of the registry by decrypting any part."""
    row = db.execute(
        "SELECT sealed, root, embedding.model, modality, part FROM embedding"
        " JOIN release ON release.id = embedding.release LIMIT 1"
    ).fetchone()
    if row is not None:
        vault.open(row[0], sealed.associated_data(*row[1:]))


def _number(db: sqlite3.Connection, name: str, version: str) -> int:
    row = db.execute("SELECT id FROM release WHERE name = ? AND version = ?", (name, version)).fetchone()
    if row is None:
        raise UsageError("No such release is registered", "List the names: medsanitize registry list")
    return int(row[0])


def _affected(db: sqlite3.Connection, number: int, name: str, version: str) -> tuple[AffectedRelease, ...]:
    shared = dict(
        db.execute(
            "SELECT other.release, count(*) FROM by_bytes AS mine JOIN by_bytes AS other USING (digest) "
            "WHERE mine.release = ? AND other.release <> mine.release GROUP BY other.release",
            (number,),
        )
    )
    leaning = {row[0] for row in db.execute("SELECT release FROM relies WHERE prior = ?", (number,))}
    found = []
    rows = db.execute(f"{_ENTRY.replace('SELECT', 'SELECT id,')} WHERE id <> ? ORDER BY name, id", (number,))
    for other, *values in rows.fetchall():
        entry = RegistryEntry(*values)
        one = AffectedRelease(
            entry, shared.get(other, 0), (entry.name, entry.supersedes) == (name, version), other in leaning
        )
        if one.shared or one.supersedes or one.dropped_against:
            found.append(one)
    return tuple(found)
