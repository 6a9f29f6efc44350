"""Audit of a whole release without any key: every file is read again, no statement of the run is trusted."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
from medsanitize.verifiers.leaks.index_audit import (
    IndexRow,
    audit_described,
    audit_index_row,
    has_index,
    index_rows,
)
from medsanitize.verifiers.leaks.raster_files import audit_raster
from medsanitize.verifiers.leaks.scan_object import audit_file, audit_parsed

SAMPLE: Final = 20
"""Number of objects that pydicom reads as well: those with the smallest digests."""

_UUID_ROOT: Final = "2.25."


@dataclass(frozen=True, slots=True)
class ReleaseAudit:
    """Result of an audit.

    Attributes
    ----------
    objects, files, sampled : int
        Number of listed files of objects, of other files, and of objects that pydicom read as well.
    identifiers : CheckResult
        ``not_run`` if there were no known identifiers to search for.
    findings : tuple of (str, Finding)
        Path in the release, and location and rule of the finding.
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
    """The files of an object: paths in the release, and their size in bytes."""

    paths: tuple[str, ...]
    size: int


class ReleaseFiles(Protocol):
    """The files of a release, in a folder or a store."""

    def walk(self) -> Iterator[FolderEntry]:
        """Yield all files and folders."""

    def at_hand(self, wanted: Iterable[AuditTarget]) -> Iterator[Path]:
        """Yield for each object a folder that contains its files until the next one is requested."""


@dataclass(frozen=True, slots=True)
class ReleaseFolder:
    """Files of a local folder."""

    path: Path

    def walk(self) -> Iterator[FolderEntry]:
        """Yield everything below the folder; links are not followed."""
        return walk_files(self.path)

    def at_hand(self, wanted: Iterable[AuditTarget]) -> Iterator[Path]:
        """Yield the folder itself for every object."""
        return (self.path for _ in wanted)


def audit_release(
    release: Path,
    search: IdentifierSearch | None = None,
    *,
    private_creators: frozenset[str] | None = None,
    files: ReleaseFiles | None = None,
) -> ReleaseAudit:
    """Read every file of a release and check it against the manifest and the rules of structure.

    Parameters
    ----------
    release : Path
        Root of a published or staged release; with ``files``, a folder with its manifests.
    search : IdentifierSearch, optional
        The identifiers of the run; without them that check is ``not_run``.
    private_creators : frozenset of str, optional
        Private creators that the policy keeps; by default any creator is accepted.
    files : ReleaseFiles, optional
        All files, if they are not in ``release``.

    Returns
    -------
    ReleaseAudit
        Counts and findings.

    Raises
    ------
    IntegrityError
        The manifest cannot be read.
    """
    # Without identifiers the structure is still checked: an empty search matches nothing.
    active_search = build_identifier_search(()) if search is None else search
    files = files or ReleaseFolder(release)
    findings: list[tuple[str, Finding]] = []
    listed: set[str] = set()
    sample: list[tuple[str, AuditTarget]] = []
    # files.at_hand may read ahead of the loop; tee buffers only the rows in between.
    rows, ahead = tee(read_rows(release))
    indexed, described = has_index(release), index_rows(release)
    for row, root in zip(rows, files.at_hand(map(_wanted, ahead)), strict=True):
        wanted, said = _wanted(row), next(described)
        listed.update(wanted.paths)
        if indexed:
            findings.extend((layout.INDEX, finding) for finding in audit_index_row(row, said))
        findings.extend(
            (row.path, finding) for finding in _audit_row(root, row, said, active_search, private_creators)
        )
        if row.kind == "dicom":
            # The smallest digests: a sample that cannot be chosen and is the same on every machine.
            sample = sorted([*sample, (row.sha256, wanted)], key=itemgetter(0))[:SAMPLE]
    again = [one for _, one in sample]
    for one, root in zip(again, files.at_hand(again), strict=True):
        path = one.paths[0]
        if (root / path).is_file():
            findings.extend((path, finding) for finding in second_opinion(root / path))
    others = 0
    for path, finding in _audit_evidence(files, listed, None if search is None else active_search):
        others += 1
        if finding is not None:
            findings.append((path, finding))
    findings.extend((layout.PATIENTS, finding) for finding in _check_patients(release))
    if next(described) is not None:
        findings.append((layout.INDEX, Finding("file", "audit:index")))
    found_known = any(finding.rule in _KNOWN_RULES for _, finding in findings)
    identifiers = (
        CheckResult.NOT_RUN if search is None else CheckResult.FLAGGED if found_known else CheckResult.PASSED
    )
    ordered = sorted(set(findings), key=lambda pair: (pair[0], pair[1].location, pair[1].rule))
    return ReleaseAudit(len(listed), others, len(sample), identifiers, tuple(ordered))


def without_findings(audit: ReleaseAudit, known: Collection[tuple[str, str, str]]) -> ReleaseAudit:
    """Return an audit without some findings, each given by path, location and rule."""
    left = tuple(
        (path, finding)
        for path, finding in audit.findings
        if (path, finding.location, finding.rule) not in known
    )
    flagged = any(finding.rule in _KNOWN_RULES for _, finding in left)
    passed = audit.identifiers is CheckResult.FLAGGED and not flagged
    return replace(audit, findings=left, identifiers=CheckResult.PASSED if passed else audit.identifiers)


# Rules of the identifier search; all others are about structure.
_KNOWN_RULES: Final = frozenset(
    f"audit:{category}" for category in ("name", "id", "phone", "address", "institution", "text", "uid")
)


_KEPT_IN_TILES: Final = "K:tile-metadata"
"""Rule in the manifest for comments in tiles that the policy keeps."""


_MALFORMED: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions of reading a column with malformed content."""


def _wanted(row: ObjectRow) -> AuditTarget:
    """Return the files of an object; only the main one if the manifest lists them incorrectly."""
    try:
        parts = tuple(path for path, _, _ in read_parts(row.path, row.parts))
    except _MALFORMED:
        parts = ()
    return AuditTarget(parts or (row.path,), row.bytes)


def _audit_row(
    release: Path,
    row: ObjectRow,
    said: IndexRow | None,
    search: IdentifierSearch,
    private_creators: frozenset[str] | None,
) -> Iterator[Finding]:
    # Before any path is opened: a hostile manifest could name files outside the release.
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
    if said is not None:
        yield from audit_described(parsed, said)


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
    """Compare the manifest row of an object with its header."""
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
    """Check that the row of a picture states no DICOM attributes, which a picture does not have."""
    if size != row.bytes:
        yield Finding("file", "audit:size")
    modality = row.modality if row.kind != "slide" else row.modality.removeprefix("SM")
    if any((modality, row.sop_class, row.transfer_syntax, row.study, row.series)):
        yield Finding("file", "audit:manifest")


def _audit_evidence(
    files: ReleaseFiles, listed: set[str], search: IdentifierSearch | None
) -> Iterator[tuple[str, Finding | None]]:
    """Yield every file that is no listed object once, and each of its findings."""
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
    """Check that the patient manifest is the aggregate of the object manifest."""
    from medsanitize.release.manifest import PATIENT_SCHEMA
    from medsanitize.release.manifest_file import read_batches

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
    """Compare the elements that pydicom reads with those of the audit's own reader."""
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
    # Without group 0002, which pydicom keeps apart from the dataset.
    ours = [parsed.path(index) for index in range(parsed.meta, len(parsed.elements))]
    if sorted(ours) != sorted(theirs):
        yield Finding("file", "audit:second-reader")


def tags_by_pydicom(data_set: Any, above: str = "") -> list[str]:
    """Return the location of every element of a pydicom dataset, in file order."""
    places: list[str] = []
    for element in data_set:
        place = f"{above}({element.tag.group:04X},{element.tag.element:04X})"
        places.append(place)
        if element.VR == "SQ":
            for item in element.value:
                places.extend(tags_by_pydicom(item, place + ">"))
    return places
