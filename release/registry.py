"""The registry of earlier releases: which digests were published before, and where.

An SQLite file in a folder of mode 0700 on the holder's side. It holds digests of released files
and pixels and the names of releases, nothing of a source; and embeddings, sealed under a key of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
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
_ADD_AT_ONCE: Final = 100_000
_LOOK_UP_AT_ONCE: Final = 20_000
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
_UPGRADE: Final = f"BEGIN IMMEDIATE; {sealed.SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;"
_ENTRY: Final = "SELECT name, version, mode, supersedes, root, objects FROM release"


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A registered release. ``root`` is the SHA-256 of its RELEASE.json."""

    name: str
    version: str
    mode: str
    supersedes: str | None
    root: str
    objects: int


@dataclass(frozen=True, slots=True)
class RegistryHit:
    """A looked-up object that an earlier release holds.

    ``index`` counts the looked-up pairs from 0. ``by`` is what was equal; equal bytes are not
    reported again as equal pixels of the same release.
    """

    index: int
    by: Literal["bytes", "pixels"]
    name: str
    version: str

    def carried_over(self, name: str) -> bool:
        """Tell whether this is an earlier version of the release ``name``: no duplicate then."""
        return self.name == name


@dataclass(frozen=True, slots=True)
class AffectedRelease:
    """A release that still stands in the registry and leans on a removed one.

    ``shared`` objects are in both by their bytes; ``supersedes`` when it replaces the removed
    version; ``dropped_against`` when objects were left out of it because the removed one had them.
    """

    entry: RegistryEntry
    shared: int
    supersedes: bool
    dropped_against: bool


@dataclass(frozen=True, slots=True)
class Registry:
    """The registry in the folder ``path``; a folder without one is an empty registry.

    Every method may raise `IntegrityError` (the file is damaged) and `EnvironmentFailure` (the disk
    failed, or another process is changing the registry).
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
            Releases against which objects were dropped from this one.
        verified : bool
            The caller has only just digested every file of it.
        tiles : iterable of bytes
            Digests of the tiles of its slides, which no manifest states; they count as pixels.

        Raises
        ------
        IntegrityError
            When the release is not intact.
        UsageError
            When another release of this name and version is registered, or ``relies_on`` names none.
        """
        if not verified and verify_release(release, key=None).status != "intact":
            raise IntegrityError(
                "The release is not intact", "List the affected files: medsanitize verify RELEASE"
            )
        entry = _entry_of(release)
        with self._open(write=True) as db, db:
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
        """Store what models see of a registered release; what was there of these models is replaced.

        Parameters
        ----------
        entry, model : Entry, str
            The release, as `add` returned it, and the digest that names the models.
        batches : iterable of Embeddings
            At most `embeddings.PART` images each.
        missing : int
            Objects of the release that no model could look at.

        Raises
        ------
        UsageError
            When the release is not registered.
        KeyMaterialError
            When the registry has embeddings under another key.
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
        """Return the registered releases by name, in the order they were added."""
        with self._open(write=False) as db:
            return tuple(RegistryEntry(*row) for row in db.execute(f"{_ENTRY} ORDER BY name, id"))

    def remove(self, name: str, version: str) -> tuple[AffectedRelease, ...]:
        """Forget a release and return those that lean on it.

        Raises
        ------
        UsageError
            When it is not registered.
        """
        with self._open(write=True) as db, db:
            db.execute("BEGIN IMMEDIATE")
            number = _number(db, name, version)
            affected = _affected(db, number, name, version)
            for table, column in (("by_bytes", "release"), ("by_pixels", "release"), ("release", "id")):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))  # noqa: S608  names from the line above
            db.execute("DELETE FROM relies WHERE release = ? OR prior = ?", (number, number))
            for table in sealed.TABLES:
                db.execute(f"DELETE FROM {table} WHERE release = ?", (number,))  # noqa: S608
        return affected

    def lookup(self, digests: Iterable[tuple[str, str | None]]) -> Iterator[RegistryHit]:
        """Return the hits of (sha256, pixels_sha256) pairs, in their order; consumed in batches.

        Parameters
        ----------
        digests : iterable of (str, str or None)
            Hexadecimal SHA-256 of the released bytes and of the decoded pixels, if known.
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

    def missing(self, name: str, version: str, model: str) -> int | None:
        """How many objects of a release these models could not look at; None where they did not look."""
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
        """Yield what models saw of a release, by modality.

        Raises
        ------
        KeyMaterialError
            When the key is not that of the registry, or something was changed.
        """
        with self._open(write=False) as db:
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
        """Open for one call; to look up, read-only, so that a registry on a read-only disk serves."""
        file = self.path / DATABASE
        with _failures():
            if write:
                _make(self.path, file)
            present = file.exists()
            where = f"{file.absolute().as_uri()}?mode={'rw' if write else 'ro'}" if present else ":memory:"
            with contextlib.closing(sqlite3.connect(where, uri=True, isolation_level=None, timeout=30)) as db:
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
    folder.chmod(0o700)
    if not file.exists():
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Turn failures of SQLite and of the disk into errors of this program."""
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
    """Insert in sorted batches, so that a large tree is walked once a batch instead of once a row."""
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
    """One registry has one key: try it on any part that is there."""
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
