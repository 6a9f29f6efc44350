"""Audit of one released object or evidence file: does it still contain identifiers?

Three searches cover each other's gaps:

1. *run-wide* (`medsanitize.verifiers.leaks.identifier_search`): identifiers of all patients, in every byte;
2. *patient* (`medsanitize.verifiers.leaks.patient_search`): every token of the object's own patient, in its
text; 3. *structure* (`medsanitize.verifiers.leaks.dicom_conformance`): elements and bytes that no object may
contain.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from medsanitize.errors import IntegrityError
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.result import Finding
from medsanitize.verifiers.leaks.dicom_conformance import (
    NATIVE,
    Expected,
    check_container,
    check_elements,
    check_subject,
)
from medsanitize.verifiers.leaks.dicom_reader import (
    DEFLATED,
    MAPPED_BYTES,
    PIXEL_DATA,
    MalformedFile,
    Parsed,
    read,
)
from medsanitize.verifiers.leaks.identifier_search import (
    CHUNK,
    OVERLAP,
    IdentifierHit,
    IdentifierSearch,
    stands_alone,
)
from medsanitize.verifiers.leaks.patient_search import build_patient_search, search_texts

__all__ = ["Expected", "IdentifierSearch", "audit_file", "audit_object", "audit_parsed"]

_BINARY: Final = frozenset(
    [b"OB", b"OW", b"OD", b"OF", b"OL", b"OV", b"US", b"SS", b"FL", b"FD", b"UL", b"SL"]
)
_NUMERIC: Final = frozenset([b"IS", b"DS", b"TM", b"AS", b"DA", b"DT"])
# Sizes and counts in evidence files are numbers, too.
_LEAST_DIGITS_IN_EVIDENCE: Final = 8
_PIXEL_GROUP: Final = 0x7FE0
_SAMPLE_VRS: Final = frozenset([b"OB", b"OW", b"OD", b"OF", b"OL", b"OV"])
_PROFILE: Final = 0x00282000
_NO_IMAGE: Final = 256
_RUN_LENGTHS: Final = "1.2.840.10008.1.2.5"
PIXELS: Final = "pixels"
"""Location of a hit in the image data of an object, or in other samples."""


def audit_object(
    path: Path, *, own: Collection[KnownValue], search: IdentifierSearch, expected: Expected
) -> tuple[Finding, ...]:
    """Audit a released object.

    Parameters
    ----------
    path : Path
        The released file.
    own : collection of KnownValue
        Known values of its patient and study, without the categories that the policy keeps. A frozenset is
        fastest: the matcher built from it is cached for other objects of the patient.
    search : IdentifierSearch
        The run-wide search.
    expected : Expected
        What the object is checked against.

    Returns
    -------
    tuple of Finding
        Location and rule (``audit:name``, ``audit:uid``, ``audit:structure``, ...), sorted; never a value.
    """
    try:
        parsed = read(path)
    except MalformedFile as problem:
        return (Finding("file", f"audit:malformed-{problem.rule}"),)
    return audit_parsed(parsed, own=own, search=search, expected=expected)


def audit_parsed(
    parsed: Parsed, *, own: Collection[KnownValue], search: IdentifierSearch, expected: Expected
) -> tuple[Finding, ...]:
    """Audit an object that `medsanitize.verifiers.leaks.dicom_reader.read` has parsed; see `audit_object`."""
    findings = set(check_container(parsed, expected))
    structural, texts = check_elements(parsed, expected)
    findings.update(structural)
    findings.update(check_subject(parsed, expected))
    if own:
        known = build_patient_search(own, search.vocabulary, search.matchers)
        pseudonym = (expected.pseudonym or "").encode("utf-8")
        for index, category in search_texts(parsed, texts, known, pseudonym, expected.allowed_dates):
            findings.add(Finding(parsed.path(index), f"audit:{category}"))
    findings.update(
        Finding(location, f"audit:{hit.rule}") for location, _, hit in located_hits(parsed, search, expected)
    )
    return tuple(sorted(findings, key=lambda finding: (finding.location, finding.rule)))


def located_hits(
    parsed: Parsed, search: IdentifierSearch, expected: Expected
) -> Iterator[tuple[str, bytes | mmap.mmap, IdentifierHit]]:
    """Yield the location of every hit that is no coincidence, the bytes that were searched, and the hit.

    Parameters
    ----------
    parsed : Parsed
        The object.
    search : IdentifierSearch
        The run-wide search.
    expected : Expected
        What the object is checked against.
    """
    hits = list(_hits(parsed, search))
    if hits:
        innermost = _Locations(parsed, search)
        for hit in hits:
            location = innermost.of(hit, expected)
            if location is not None:
                yield location, parsed.buffer, hit
    # The deflated bytes too: an identifier in them is not one of the dataset.
    if parsed.transfer_syntax == DEFLATED:
        size = len(parsed.raw)
        for hit in search.hits(parsed.raw):
            counts = search.counts_in_image(parsed.raw, hit, 0, size, native=False)
            if counts and stands_alone(parsed.raw, hit, 0, size):
                yield "file", parsed.raw, hit


def _hits(parsed: Parsed, search: IdentifierSearch) -> Iterator[IdentifierHit]:
    """Yield all relevant hits; within large native samples, those that `_Locations` accepts."""
    samples = _large_samples(parsed)
    if samples is None:
        yield from search.hits(parsed.buffer)
        return
    start, end = samples
    # The samples overlap with what precedes and follows, so that values across the borders are found.
    yield from search.hits(parsed.buffer, 0, start + OVERLAP)
    yield from search.hits_in_samples(parsed.buffer, start, end)
    yield from search.hits(parsed.buffer, end - OVERLAP)


def _large_samples(parsed: Parsed) -> tuple[int, int] | None:
    """Return the range of native Pixel Data that is large enough for the prefilter."""
    if parsed.transfer_syntax not in NATIVE:
        return None
    for tag, vr, start, end, item in parsed.elements:
        if tag == PIXEL_DATA and item < 0 and vr in _BINARY and end - start > CHUNK:
            return start, end
    return None


class _Locations:
    """Finds the innermost element that contains a hit; built only if there is a hit."""

    def __init__(self, parsed: Parsed, search: IdentifierSearch) -> None:
        self.parsed = parsed
        self.search = search
        self.packed = parsed.transfer_syntax not in NATIVE
        self.starts = [element[2] for element in parsed.elements]

    def of(self, hit: IdentifierHit, expected: Expected) -> str | None:
        """Return the location of a hit, or None if it is a coincidence."""
        parsed = self.parsed
        index = bisect_right(self.starts, hit.start) - 1
        # Elements are in file order: enclosing sequences start before their content.
        while index >= 0 and parsed.elements[index][3] <= hit.start:
            index -= 1
        if index < 0 or hit.end > parsed.elements[index][3]:
            # Across elements it is chance, except in the preamble or around a delimiter that hides it.
            return "file" if hit.end <= 132 and stands_alone(parsed.buffer, hit, 0, 128) else None
        tag, vr, start, end, _ = parsed.elements[index]
        if hit.rule == "uid":
            return parsed.path(index)
        if tag in expected.kept_attributes or (vr == b"UI" and expected.uid_prefix is None):
            return None
        if hit.digits and vr in _NUMERIC:
            return None
        pixels = tag >> 16 == _PIXEL_GROUP
        # Binary values of up to 256 bytes are no images: every hit counts.
        samples = pixels
        if vr in _BINARY and (end - start > _NO_IMAGE or (pixels and self.packed)):
            native = not (pixels and self.packed) or parsed.transfer_syntax == _RUN_LENGTHS
            if not self.search.counts_in_image(parsed.buffer, hit, start, end, native=native):
                return None
            # Waveforms, tables and surfaces are samples as well: chance may spell a value in them.
            samples = pixels or (vr in _SAMPLE_VRS and tag != _PROFILE)
        if not stands_alone(parsed.buffer, hit, start, end):
            return None
        if expected.pseudonym and parsed.buffer[start:end].rstrip(b" \0") == expected.pseudonym.encode(
            "utf-8"
        ):
            return None
        return PIXELS if samples else parsed.path(index)


def audit_file(path: Path, search: IdentifierSearch) -> tuple[Finding, ...]:
    """Search an evidence file (manifest, report, JSON, log) for the identifiers of the run.

    Parquet files are searched as bytes and as decoded text. IDs of digits only count from 8 digits, since
    counts and sizes are numbers, too.

    Parameters
    ----------
    path : Path
        The file.
    search : IdentifierSearch
        The run-wide search.

    Returns
    -------
    tuple of Finding
        Rules found, sorted; the location is always ``file``.

    Raises
    ------
    IntegrityError
        A Parquet file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(MAPPED_BYTES + 1)
        if len(head) <= MAPPED_BYTES:
            findings = set(audit_bytes(head, search))
        else:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                findings = set(audit_bytes(mapped, search))
    if path.suffix == ".parquet":
        for text in _parquet_texts(path):
            findings.update(audit_bytes(text, search))
    return tuple(sorted(findings, key=lambda finding: finding.rule))


def audit_bytes(data: bytes | mmap.mmap, search: IdentifierSearch) -> Iterator[Finding]:
    """Search bytes of a file that is not DICOM."""
    for hit in search.hits(data):
        if hit.digits and hit.length < _LEAST_DIGITS_IN_EVIDENCE:
            continue
        if stands_alone(data, hit, 0, len(data)):
            yield Finding("file", f"audit:{hit.rule}")


def _parquet_texts(path: Path) -> Iterator[bytes]:
    """Yield the text columns of a Parquet file in batches, values separated."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from medsanitize.release.parquet_io import read_record_batches

    try:
        with pq.ParquetFile(path) as file:
            # Compressed and dictionary-encoded columns show no value in the raw bytes.
            for batch in read_record_batches(file, 1024):
                for column in batch.columns:
                    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                        distinct = column.unique().to_pylist()
                        yield "\x1e".join(value for value in distinct if value).encode("utf-8")
    except pa.ArrowException:
        raise IntegrityError("A table of the release cannot be read", "Do not publish it") from None
