"""The values of released objects in a file of their own: counted, sorted and searched page by page.

It contains what a release contains, and is readable by its owner only, since a value may be an identifier
that was not removed.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from medsanitize.pipeline.state.database import translated_errors
from medsanitize.release.atomic_io import storage_errors
from medsanitize.verifiers.leaks.object_values import AttributePath, ObjectValue

_FORMAT: Final = "1"
# Values that are counted in memory before they are written.
_WAITING: Final = 100_000
_PAGE: Final = 1000
_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE attributes (
  id INTEGER PRIMARY KEY, path TEXT NOT NULL, vr TEXT NOT NULL, private INTEGER NOT NULL,
  objects INTEGER NOT NULL DEFAULT 0, distinct_values INTEGER NOT NULL DEFAULT 0, UNIQUE (path, vr)
);
CREATE TABLE found (  -- values; folded: for searches, example: path of an object that has it
  attribute INTEGER NOT NULL, digest BLOB NOT NULL, text TEXT NOT NULL, folded TEXT NOT NULL,
  length INTEGER NOT NULL, objects INTEGER NOT NULL, example TEXT NOT NULL, PRIMARY KEY (attribute, digest)
) WITHOUT ROWID;
"""
# CROSS JOIN keeps the order of the tables, so that an index gives the order and a page reads its rows only.
_VALUES: Final = (
    "SELECT path, text, length, found.objects, example FROM found"
    " CROSS JOIN attributes ON attributes.id = found.attribute WHERE {}"
    " ORDER BY {}found.objects, found.attribute, text LIMIT :limit OFFSET :offset"
)


@dataclass(frozen=True, slots=True)
class ListedAttribute:
    """An attribute of a release.

    Attributes
    ----------
    path : str
        Keywords, or tags, joined by dots; a private attribute as ``(gggg,"CREATOR",ee)``.
    vr : str
        Value representation.
    private : bool
        Whether it, or a sequence around it, is private.
    objects, distinct : int
        Numbers of objects that have it, and of its different values.
    """

    path: str
    vr: str
    private: bool
    objects: int
    distinct: int


@dataclass(frozen=True, slots=True, repr=False)
class ListedValue:
    """A value of an attribute, as it is in a release.

    Attributes
    ----------
    attribute : str
        As in `ListedAttribute`.
    value : str
        Its first 1,000 characters; ``N bytes`` for binary data.
    length : int
        Length in bytes.
    objects : int
        Number of objects that have it.
    example : str
        Path of one of them in the release.
    """

    attribute: str
    value: str
    length: int
    objects: int
    example: str

    def __repr__(self) -> str:
        return f"ListedValue({self.attribute})"


class ValueIndex:
    """An index of values.

    Parameters
    ----------
    path : Path
        Its file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Read by several threads of a server, each in its turn.
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def __enter__(self) -> ValueIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def objects(self) -> int:
        """Number of objects whose values are listed."""
        return int(self._meta("objects") or 0)

    @property
    def unlisted(self) -> int:
        """Number of objects that are no DICOM files, or that could not be read."""
        return int(self._meta("unlisted") or 0)

    def is_of(self, digest: str) -> bool:
        """Report whether the index is complete, and of the objects with this digest."""
        try:
            return self._meta("format") == _FORMAT and self._meta("digest") == digest
        except sqlite3.DatabaseError:
            return False

    @translated_errors()
    def attributes(
        self, *, search: str = "", private: bool | None = None, offset: int = 0, limit: int = 100
    ) -> tuple[ListedAttribute, ...]:
        """Return a page of the attributes, by path.

        Parameters
        ----------
        search : str, optional
            Part of the path, or of a value that the attribute has.
        private : bool, optional
            Only private attributes, or only public ones.
        offset, limit : int, optional
            First row, and number of rows.
        """
        where, names = ["1"], {"offset": offset, "limit": limit, "pattern": _like(search)}
        if search:
            where.append(
                "(path LIKE :pattern ESCAPE '!' OR id IN"
                " (SELECT attribute FROM found WHERE folded LIKE :pattern ESCAPE '!'))"
            )
        if private is not None:
            where.append(f"private = {int(private)}")
        rows = self._db.execute(
            "SELECT path, vr, private, objects, distinct_values FROM attributes"  # noqa: S608
            f" WHERE {' AND '.join(where)} ORDER BY path, vr LIMIT :limit OFFSET :offset",
            names,
        )
        return tuple(ListedAttribute(path, vr, bool(flag), *counts) for path, vr, flag, *counts in rows)

    @translated_errors()
    def values(
        self,
        attribute: str | None = None,
        *,
        search: str = "",
        private: bool | None = None,
        at_most: int | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> tuple[ListedValue, ...]:
        """Return a page of the values, the rarest first.

        Parameters
        ----------
        attribute : str, optional
            Path of one attribute.
        search : str, optional
            Part of the value, regardless of case.
        private : bool, optional
            Only values of private attributes, or only of public ones.
        at_most : int, optional
            Only values in at most this number of objects.
        offset, limit : int, optional
            First row, and number of rows.
        """
        where, names = _conditions(attribute, search, private, at_most)
        # A search reads all texts: in the order of the table, not of an index (+ hides the column from it).
        order = "+" if search else ""
        rows = self._db.execute(_VALUES.format(where, order), {**names, "offset": offset, "limit": limit})
        return tuple(ListedValue(*row) for row in rows)

    @translated_errors()
    def count(
        self,
        attribute: str | None = None,
        *,
        search: str = "",
        private: bool | None = None,
        at_most: int | None = None,
    ) -> int:
        """Count the values that `values` lists."""
        where, names = _conditions(attribute, search, private, at_most)
        row = self._db.execute(
            f"SELECT count(*) FROM found JOIN attributes ON attributes.id = attribute WHERE {where}",  # noqa: S608
            names,
        ).fetchone()
        return int(row[0])

    def all_values(self, attribute: str | None = None, at_most: int | None = None) -> Iterator[ListedValue]:
        """Yield all values of an attribute, the rarest first, in constant memory."""
        where, names = _conditions(attribute, "", None, at_most)
        rows = self._db.execute(_VALUES.format(where, ""), {**names, "offset": 0, "limit": -1})
        while page := rows.fetchmany(_PAGE):
            yield from (ListedValue(*row) for row in page)

    def _meta(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])


def _conditions(
    attribute: str | None, search: str, private: bool | None, at_most: int | None
) -> tuple[str, dict[str, Any]]:
    where, names = ["1"], {"attribute": attribute, "pattern": _like(search), "most": at_most}
    if attribute is not None:
        where.append("found.attribute IN (SELECT id FROM attributes WHERE path = :attribute)")
    if search:
        where.append("folded LIKE :pattern ESCAPE '!'")
    if private is not None:
        where.append(f"private = {int(private)}")
    if at_most is not None:
        where.append("found.objects <= :most")
    return " AND ".join(where), names


def _like(search: str) -> str:
    folded = search.casefold()
    for special in "!%_":
        folded = folded.replace(special, f"!{special}")
    return f"%{folded}%"


class ValueIndexWriter:
    """Writes a new index; it is complete once `finish` returns.

    Parameters
    ----------
    path : Path
        A file that is replaced.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with storage_errors():
            for suffix in ("", "-journal"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        os.environ["SQLITE_TMPDIR"] = str(path.parent)
        self._db = sqlite3.connect(path, isolation_level=None)
        # A killed process starts again; nothing is to be recovered.
        self._db.execute("PRAGMA journal_mode=OFF")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.executescript(_SCHEMA)
        self._ids: dict[AttributePath, int] = {}
        self._attributes: Counter[int] = Counter()
        self._found: dict[tuple[int, bytes], tuple[ObjectValue, str]] = {}
        self._counts: Counter[tuple[int, bytes]] = Counter()
        self._objects = 0

    @translated_errors()
    def add(self, path: str, values: Mapping[AttributePath, Mapping[bytes, ObjectValue]]) -> None:
        """Add the values of one object."""
        self._objects += 1
        for attribute, found in values.items():
            number = self._number(attribute)
            self._attributes[number] += 1
            for digest, value in found.items():
                self._counts[number, digest] += 1
                self._found.setdefault((number, digest), (value, path))
        if len(self._found) >= _WAITING:
            self._flush()

    @translated_errors()
    def finish(self, digest: str, unlisted: int) -> None:
        """Write what waits, and mark the index complete."""
        with closing(self._db):
            self._flush()
            self._db.execute("CREATE INDEX found_objects ON found (objects, attribute, text)")
            self._db.execute("CREATE INDEX found_attribute ON found (attribute, objects, text)")
            self._db.executemany(
                "UPDATE attributes SET objects = ?, distinct_values ="
                " (SELECT count(*) FROM found WHERE attribute = attributes.id) WHERE id = ?",
                [(count, number) for number, count in self._attributes.items()],
            )
            stated = {"digest": digest, "objects": self._objects, "unlisted": unlisted, "format": _FORMAT}
            self._db.executemany("INSERT INTO meta VALUES (?, ?)", [(k, str(v)) for k, v in stated.items()])

    def discard(self) -> None:
        """Remove an index that is not finished."""
        self._db.close()
        with storage_errors():
            self._path.unlink(missing_ok=True)

    def _number(self, attribute: AttributePath) -> int:
        number = self._ids.get(attribute)
        if number is None:
            row = (attribute.path, attribute.vr, attribute.private)
            self._db.execute(
                "INSERT INTO attributes (path, vr, private) VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET private = max(private, excluded.private)",
                row,
            )
            (number,) = self._db.execute(
                "SELECT id FROM attributes WHERE path = ? AND vr = ?", row[:2]
            ).fetchone()
            self._ids[attribute] = int(number)
        return int(number)

    def _flush(self) -> None:
        self._db.execute("BEGIN")
        self._db.executemany(
            "INSERT INTO found VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET objects = objects + excluded.objects",
            (
                (*key, *_texts(value.text), value.length, self._counts[key], path)
                for key, (value, path) in self._found.items()
            ),
        )
        self._db.execute("COMMIT")
        self._found.clear()
        self._counts.clear()


def _texts(text: str) -> tuple[str, str]:
    """Return a text, and its form for searches, without lone surrogates, which SQLite does not store."""
    shown = text.encode("utf-8", "replace").decode()
    return shown, shown.casefold()
