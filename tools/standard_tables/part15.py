"""Read Tables E.1-1 and E.3.10-1 of PS3.15, from its DocBook or from a table as JSON.

The DocBook (``part15.xml``) contains both tables and states its edition. In a JSON file, each row of Table
E.1-1 states the edition of its last change.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import UsageError

Row = Mapping[str, str]

CONFIDENTIALITY, SAFE_PRIVATE = "table_E.1-1", "table_E.3.10-1"

_COLUMNS: Mapping[str, Mapping[str, str]] = {
    CONFIDENTIALITY: {
        "attributename": "name",
        "tag": "tag",
        "basicprof": "basicProfile",
        "rtnsafeprivopt": "rtnSafePrivOpt",
        "rtnuidsopt": "rtnUIDsOpt",
        "rtndevidopt": "rtnDevIdOpt",
        "rtninstidopt": "rtnInstIdOpt",
        "rtnpatcharsopt": "rtnPatCharsOpt",
        "rtnlongfulldatesopt": "rtnLongFullDatesOpt",
        "rtnlongmodifdatesopt": "rtnLongModifDatesOpt",
        "cleandescopt": "cleanDescOpt",
        "cleanstructcontopt": "cleanStructContOpt",
        "cleangraphopt": "cleanGraphOpt",
    },
    SAFE_PRIVATE: {
        "dataelement": "element",
        "privatecreator": "creator",
        "vr": "vr",
        "vm": "vm",
        "meaning": "meaning",
    },
}
"""Table -> letters of a column's heading -> name of the column in JSON."""
# Headings such as "Retd. (from PS3.6)" name another part of the standard in parentheses.
_PARENTHESES = re.compile(r"\(.*?\)")
_EDITION = re.compile(r"20\d\d[a-e]")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of PS3.15: its rows by the names of the JSON format, and the edition (empty if not stated)."""

    rows: tuple[Row, ...]
    edition: str


def read_table(path: Path, table: str) -> Table:
    """Read a table.

    Parameters
    ----------
    path : Path
        The DocBook of PS3.15, or the table as JSON: a list of objects.
    table : str
        ``CONFIDENTIALITY`` or ``SAFE_PRIVATE``.

    Raises
    ------
    UsageError
        The file does not contain the table, or not all of its columns.
    """
    text = path.read_text(encoding="utf-8")
    read = _from_json(text) if text.lstrip().startswith("[") else _from_docbook(text, table)
    missing = set(_COLUMNS[table].values()) - {name for row in read.rows for name in row}
    if missing:
        raise UsageError(f"The table has no column {min(missing)}", "Compare its headings with part15.py")
    return read


def _from_json(text: str) -> Table:
    rows = tuple({name: value.strip() for name, value in row.items()} for row in json.loads(text))
    return Table(rows, max((row.get("edition", "") for row in rows), default=""))


def _from_docbook(text: str, table: str) -> Table:
    # A maintainer gives a document of the standard; no other program reads it.
    root = ElementTree.fromstring(text)  # noqa: S314
    title = next((_text(one) for one in root if _name(one) in ("subtitle", "title") and _edition(one)), "")
    for element in root.iter():
        if _name(element) == "table" and element.get("{http://www.w3.org/XML/1998/namespace}id") == table:
            return Table(tuple(_rows(element, _COLUMNS[table])), "".join(_EDITION.findall(title)[:1]))
    raise UsageError("The document does not contain the table", f"Give the DocBook with {table}")


def _rows(table: ElementTree.Element, columns: Mapping[str, str]) -> Iterator[Row]:
    heads: list[str] = []
    for row in (one for one in table.iter() if _name(one) == "tr"):
        cells = [one for one in row if _name(one) in ("td", "th")]
        texts = [_text(one) for one in cells]
        if all(_name(one) == "th" for one in cells):
            heads = [re.sub(r"[^a-z]", "", _PARENTHESES.sub("", text).lower()) for text in texts]
            continue
        yield {columns[head]: text for head, text in zip(heads, texts, strict=True) if head in columns}


def _text(element: ElementTree.Element) -> str:
    """Text of a cell without footnotes, which belong to the page, and without zero width spaces."""
    return " ".join("".join(_pieces(element)).replace("\u200b", "").split())


def _pieces(element: ElementTree.Element) -> Iterator[str]:
    if _name(element) != "footnote":
        yield element.text or ""
        for child in element:
            yield from _pieces(child)
            yield child.tail or ""


def _edition(element: ElementTree.Element) -> bool:
    return _EDITION.search(_text(element)) is not None


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
