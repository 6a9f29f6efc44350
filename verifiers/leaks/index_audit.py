"""Audit of the research index: each row beside the manifest and the header of its object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

from medsanitize.release import layout
from medsanitize.release.manifest import ObjectRow
from medsanitize.release.manifest_file import read_batches
from medsanitize.release.research_index import INDEX_SCHEMA, SAME
from medsanitize.sanitize.dicom.patient_characteristics import years_of
from medsanitize.sanitize.dicom.research_attributes import AGE, DECIMALS, INTEGERS, TEXTS
from medsanitize.sanitize.formats.dicom.charset import decode_text
from medsanitize.sanitize.result import Finding
from medsanitize.verifiers.leaks.dicom_reader import Parsed

IndexRow = Mapping[str, Any]

_CHARACTER_SET: Final = 0x00080005
_RULE: Final = "audit:index"
_OF_HEADERS: Final = tuple(name for name in INDEX_SCHEMA.names if name not in SAME)


def has_index(release: Path) -> bool:
    """Whether a release has a research index: those of earlier versions have none."""
    return (release / layout.INDEX).is_file()


def index_rows(release: Path) -> Iterator[IndexRow | None]:
    """Yield the rows of the research index, then None without end.

    Raises
    ------
    IntegrityError
        The index is damaged.
    """
    if has_index(release):
        batches = read_batches(release / layout.INDEX, INDEX_SCHEMA)
        yield from (row for batch in batches for row in batch.to_pylist())
    yield from repeat(None)


def audit_index_row(row: ObjectRow, said: IndexRow | None) -> Iterator[Finding]:
    """Compare a row of the index with that of the manifest; a picture or slide has no header."""
    if said is None:
        yield Finding("file", _RULE)
        return
    headless = () if row.kind == "dicom" else _OF_HEADERS
    differs = any(said[name] != getattr(row, column) for name, column in SAME.items())
    if differs or any(said[name] is not None for name in headless):
        yield Finding("file", _RULE)


def audit_described(parsed: Parsed, said: IndexRow) -> Iterator[Finding]:
    """Compare what a row of the index says with the header, as the audit's own reader reads it.

    Codes and spacings may be in sequences; they are searched for identifiers like every value of the index.
    """
    charset = parsed.value(_CHARACTER_SET) or b""
    texts = {
        tag: decode_text(parsed.value(tag) or b"", charset).strip(" \0")
        for tag in (*TEXTS, *DECIMALS, *INTEGERS)
    }
    for tag, name in TEXTS.items():
        if said[name] is not None and said[name] != texts[tag]:
            yield _at(tag)
        if name == "PatientAge" and said[AGE] is not None and said[AGE] != years_of(texts[tag]):
            yield _at(tag)
    for tag, name in chain(DECIMALS.items(), INTEGERS.items()):
        if said[name] is not None and said[name] != _number(texts[tag]):
            yield _at(tag)


def _number(text: str) -> float | None:
    try:
        return float(text.partition("\\")[0])
    except ValueError:
        return None


def _at(tag: int) -> Finding:
    return Finding(f"({tag >> 16:04X},{tag & 0xFFFF:04X})", _RULE)
