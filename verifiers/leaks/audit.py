"""Audit a whole release without any key: read everything again, believe nothing."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import tee
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Protocol

from medsanitize.release import layout
from medsanitize.release.checksums import FolderEntry, walk_files
from medsanitize.release.manifest import ObjectRow, count_patients, read_rows
from medsanitize.release.multi_file_objects import read_parts
from medsanitize.sanitize.result import CheckResult, FilePart, Finding
from medsanitize.verifiers.leaks.dicom_conformance import Expected
from medsanitize.verifiers.leaks.dicom_reader import MalformedFile, Parsed, read
from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch, build_identifier_search
from medsanitize.verifiers.leaks.raster_files import audit_raster
from medsanitize.verifiers.leaks.scan_object import audit_file, audit_parsed

SAMPLE: Final = 20
"""How many objects pydicom reads once more: those whose digests come first."""

_UUID_ROOT: Final = "2.25."


@dataclass(frozen=True, slots=True)
class ReleaseAudit:
    """What an audit found.

    ``findings`` pairs a path in the release with a place in that file and the rule.
    ``identifiers`` is ``not_run`` when no known identifiers were at hand to search for.
    """

    objects: int
    files: int
    sampled: int
    identifiers: CheckResult
    findings: tuple[tuple[str, Finding], ...]

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """The files of an object, by their paths in the release, and the bytes that they should have."""

    paths: tuple[str, ...]
    size: int


class ReleaseFiles(Protocol):
    """The files of a release, wherever they lie."""

    def walk(self) -> Iterator[FolderEntry]:
        """Everything there is."""

    def at_hand(self, wanted: Iterable[AuditTarget]) -> Iterator[Path]:
        """For each object a folder below which its files lie until the next is asked for, those there are."""


@dataclass(frozen=True, slots=True)
class ReleaseFolder:
    """Files of a folder."""

    path: Path

    def walk(self) -> Iterator[FolderEntry]:
        """Everything below the folder; links are not followed."""
        return walk_files(self.path)

    def at_hand(self, wanted: Iterable[AuditTarget]) -> Iterator[Path]:
        """The folder itself."""
        return (self.path for _ in wanted)


def audit_release(
    release: Path,
    search: IdentifierSearch | None = None,
    *,
    private_creators: frozenset[str] | None = None,
    files: ReleaseFiles | None = None,
) -> ReleaseAudit:
    """Read every file of a release again and hold it to the manifest and to the rules of structure.

    Parameters
    ----------
    release : Path
        Root of a release, published or staged; with ``files`` a copy of its manifests.
    search : IdentifierSearch, optional
        The identifiers of the run; without them that check is reported as not run.
    private_creators : frozenset of str, optional
        Private creators that the policy keeps; when None, any creator may be there.
    files : ReleaseFiles, optional
        All files, where they do not lie in ``release``.

    Raises
    ------
    IntegrityError
        When the manifest cannot be read.
    """
    net = build_identifier_search(()) if search is None else search
    files = files or ReleaseFolder(release)
    findings: list[tuple[str, Finding]] = []
    listed: set[str] = set()
    sample: list[tuple[str, AuditTarget]] = []
    rows, ahead = tee(read_rows(release))
    for row, root in zip(rows, files.at_hand(map(_wanted, ahead)), strict=True):
        wanted = _wanted(row)
        listed.update(wanted.paths)
        findings.extend((row.path, finding) for finding in _audit_row(root, row, net, private_creators))
        if row.kind == "dicom":
            sample = sorted([*sample, (row.sha256, wanted)], key=itemgetter(0))[:SAMPLE]
    again = [one for _, one in sample]
    for one, root in zip(again, files.at_hand(again), strict=True):
        path = one.paths[0]
        if (root / path).is_file():
            findings.extend((path, finding) for finding in second_opinion(root / path))
    others = 0
    for path, finding in _audit_evidence(files, listed, None if search is None else net):
        others += 1
        if finding is not None:
            findings.append((path, finding))
    findings.extend((layout.PATIENTS, finding) for finding in _check_patients(release))
    found_known = any(finding.rule in _KNOWN_RULES for _, finding in findings)
    identifiers = (
        CheckResult.NOT_RUN if search is None else CheckResult.FLAGGED if found_known else CheckResult.PASSED
    )
    ordered = sorted(set(findings), key=lambda pair: (pair[0], pair[1].place, pair[1].rule))
    return ReleaseAudit(len(listed), others, len(sample), identifiers, tuple(ordered))


_KNOWN_RULES: Final = frozenset(
    f"audit:{category}" for category in ("name", "id", "phone", "address", "institution", "text", "uid")
)


_KEPT_IN_TILES: Final = "K:tile-metadata"
"""The rule by which a manifest says that comments in tiles stayed as the policy asked."""


_MALFORMED: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""What a column that is not what it must be raises where it is read."""


def _wanted(row: ObjectRow) -> AuditTarget:
    """The files of an object; where the manifest does not list them as it must, its main one."""
    try:
        parts = tuple(path for path, _, _ in read_parts(row.path, row.parts))
    except _MALFORMED:
        parts = ()
    return AuditTarget(parts or (row.path,), row.bytes)


def _audit_row(
    release: Path, row: ObjectRow, search: IdentifierSearch, private_creators: frozenset[str] | None
) -> Iterator[Finding]:
    if not all(map(layout.is_safe, _wanted(row).paths)):
        yield Finding("file", "audit:manifest")
        return
    path = release / row.path
    if row.kind == "slide":
        yield from _audit_slide(path, row, search)
        return
    if not path.is_file() or path.is_symlink():
        yield Finding("file", "audit:missing")
        return
    if row.kind == "raster":
        yield from _audit_raster(path, row, search)
        return
    try:
        parsed = read(path)
    except MalformedFile as problem:
        yield Finding("file", f"audit:malformed-{problem.rule}")
        return
    expected = Expected(
        sha256=row.sha256,
        pseudonym=row.patient,
        uid_prefix=_UUID_ROOT if row.instance.startswith(_UUID_ROOT) else None,
        private_creators=private_creators,
    )
    yield from audit_parsed(parsed, own=(), search=search, expected=expected)
    yield from _check_row(parsed, row, path.stat().st_size)


def _audit_raster(path: Path, row: ObjectRow, search: IdentifierSearch) -> Iterator[Finding]:
    try:
        parts = tuple(FilePart(*part) for part in json.loads(row.parts)) if row.parts else ()
    except _MALFORMED:
        yield Finding("file", "audit:manifest")
        return
    try:
        files = [path, path.with_suffix(".json")] if parts else [path]
        size = sum(file.stat().st_size for file in files)
        yield from audit_raster(path, search=search, digest=row.sha256, parts=parts)
    except OSError:
        yield Finding("file", "audit:missing")
        return
    yield from _check_raster_row(row, size)


def _audit_slide(path: Path, row: ObjectRow, search: IdentifierSearch) -> Iterator[Finding]:
    from medsanitize.verifiers.leaks.slide_audit import StagedSlide, audit_slide, manifest_facts

    try:
        parts = tuple(FilePart(*part) for part in json.loads(row.parts)) if row.parts else ()
        stated, rules = manifest_facts(row), json.loads(row.rules)
    except _MALFORMED:
        yield Finding("file", "audit:manifest")
        return
    kept = _KEPT_IN_TILES in rules
    yield from audit_slide(StagedSlide(path, row.sha256, stated, parts, metadata=kept), search=search)
    yield from _check_raster_row(row, row.bytes)


def _check_row(parsed: Parsed, row: ObjectRow, size: int) -> Iterator[Finding]:
    """The manifest must say of an object what the object says itself."""
    if size != row.bytes:
        yield Finding("file", "audit:size")
    stated: Mapping[int, str] = {
        0x00020010: row.transfer_syntax,
        0x00080016: row.sop_class,
        0x00080018: row.instance,
        0x00080060: row.modality,
        0x0020000D: row.study,
        0x0020000E: row.series,
    }
    for tag, value in stated.items():
        if (parsed.value(tag) or b"").decode("utf-8", "replace") != value:
            yield Finding(f"({tag >> 16:04X},{tag & 0xFFFF:04X})", "audit:manifest")


def _check_raster_row(row: ObjectRow, size: int) -> Iterator[Finding]:
    """A picture states nothing of itself, so the manifest must not either."""
    if size != row.bytes:
        yield Finding("file", "audit:size")
    modality = row.modality if row.kind != "slide" else row.modality.removeprefix("SM")
    if any((modality, row.sop_class, row.transfer_syntax, row.study, row.series)):
        yield Finding("file", "audit:manifest")


def _audit_evidence(
    files: ReleaseFiles, listed: set[str], search: IdentifierSearch | None
) -> Iterator[tuple[str, Finding | None]]:
    """Walk over everything that is no listed object; yield each file once, and each finding."""
    for found in files.walk():
        if found.kind == "folder" or found.path in listed:
            continue
        yield found.path, None
        if found.kind != "file" or found.path.startswith(f"{layout.DATA}/"):
            yield found.path, Finding("file", "audit:unlisted")
        elif search is not None:
            for root in files.at_hand([AuditTarget((found.path,), found.size)]):
                for finding in _search_file(root / found.path, search):
                    yield found.path, finding


def _search_file(path: Path, search: IdentifierSearch) -> tuple[Finding, ...]:
    return audit_file(path, search) if path.is_file() else (Finding("file", "audit:missing"),)


def _check_patients(release: Path) -> Iterator[Finding]:
    """The rows of patients must be the sums of the rows of objects."""
    from medsanitize.release.manifest import PATIENT_SCHEMA, read_batches

    stated = (
        row for batch in read_batches(release / layout.PATIENTS, PATIENT_SCHEMA) for row in batch.to_pylist()
    )
    for row in count_patients(release):
        found = next(stated, None)
        if found is None or any(getattr(row, name) != value for name, value in found.items()):
            yield Finding("file", "audit:manifest")
            return
    if next(stated, None) is not None:
        yield Finding("file", "audit:manifest")


def second_opinion(path: Path) -> Iterator[Finding]:
    """Let pydicom read an object and compare what it found with what our reader found."""
    import pydicom
    from pydicom.errors import InvalidDicomError

    try:
        parsed = read(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = tags_by_pydicom(pydicom.dcmread(path))
    except MalformedFile:
        return  # reported where the object was audited
    except (InvalidDicomError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError):
        yield Finding("file", "audit:second-reader")
        return
    ours = [parsed.path(index) for index in range(parsed.meta, len(parsed.elements))]
    if sorted(ours) != sorted(theirs):
        yield Finding("file", "audit:second-reader")


def tags_by_pydicom(data_set: Any, above: str = "") -> list[str]:
    """Return the place of every element of a pydicom data set, in the order of the file."""
    places: list[str] = []
    for element in data_set:
        place = f"{above}({element.tag.group:04X},{element.tag.element:04X})"
        places.append(place)
        if element.VR == "SQ":
            for item in element.value:
                places.extend(tags_by_pydicom(item, place + ">"))
    return places
