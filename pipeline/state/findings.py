"""Findings of the audit, and the staged objects that it has not read yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from medsanitize.pipeline.state.database import PAGE, State
from medsanitize.pipeline.state.excerpts import IN_PIXELS, SealedExcerpt, store_excerpts
from medsanitize.release.layout import staged_path

_KNOWN_VALUES = frozenset(
    f"audit:{category}" for category in ("name", "id", "phone", "address", "institution", "text", "uid")
)
_TO_AUDIT = "outcome = 'released' AND audited = 0"


@dataclass(frozen=True, slots=True, repr=False)
class ObjectToAudit:
    """A staged object not yet audited; ``native`` is None if it has no pixels."""

    patient: bytes
    study: bytes
    id: int
    names: tuple[str, str, str, str]
    suffix: str
    sha256: bytes
    native: bool | None
    kind: str
    payload: bytes
    source: bytes
    stamp: bytes

    def __repr__(self) -> str:
        return f"ObjectToAudit({self.id})"

    @property
    def path(self) -> str:
        """Path in the release."""
        return staged_path(*self.names, self.suffix)


@dataclass(frozen=True, slots=True)
class Audited:
    """Audit result of one object.

    Attributes
    ----------
    findings : tuple of (str, str)
        Location and rule of each finding.
    pixels_check : int
        1 if the pixels were compared, 0 if they must be decoded first, -1 if they cannot be read.
    pixels : bytes or None
        Digest of the pixels.
    scans : tuple of bytes
        Digests of further tile sets: of a DICOM slide, of each channel of an AFI.
    gone : bool
        Whether the file no longer exists.
    excerpts : tuple of SealedExcerpt
        What the findings consist of, as far as a person can judge it.
    chance : tuple of (str, str)
        Location and rule of each finding that a person judged to be chance.
    """

    id: int
    findings: tuple[tuple[str, str], ...]
    pixels_check: int
    pixels: bytes | None
    scans: tuple[bytes, ...] = ()
    gone: bool = False
    excerpts: tuple[SealedExcerpt, ...] = ()
    chance: tuple[tuple[str, str], ...] = ()

    @property
    def is_only_in_pixels(self) -> bool:
        """Whether everything found is a known value in pixel data."""
        return bool(self.findings) and all(
            location == "pixels" and rule in _KNOWN_VALUES for location, rule in self.findings
        )


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """The number of objects to be released with one location and rule of a finding."""

    location: str
    rule: str
    objects: int


def count_to_audit(state: State) -> int:
    """Count the staged objects not yet audited."""
    return state.count(_TO_AUDIT)


def staged_bytes(state: State) -> int:
    """Return the size in bytes of all sanitized objects, whatever a later stage decides about them.

    It decides how unlikely a hit must be, so a resumed run must find the same size as an uninterrupted one.
    """
    row = state.db.execute(
        "SELECT total(bytes) FROM objects WHERE p_instance NOT NULL AND id NOT IN (SELECT id FROM synthetics)"
    ).fetchone()
    return int(row[0])


def any_slide_to_audit(state: State) -> bool:
    """Report whether a staged slide is not yet audited."""
    return state.count(f"kind = 'slide' AND {_TO_AUDIT}") > 0


def objects_to_audit(state: State) -> Iterator[ObjectToAudit]:
    """Yield the staged objects not yet audited, grouped by patient and study."""
    after: tuple[bytes, bytes, int] = (b"", b"", -1)
    while True:
        # The objects of a study share the identifiers to search for.
        page = state.db.execute(
            "SELECT patient, study, id, p_patient, p_study, p_series, p_instance, p_suffix, sha256, native,"  # noqa: S608
            f" kind, payload, source, stamp FROM objects WHERE {_TO_AUDIT}"
            " AND (patient, study, id) > (?, ?, ?) ORDER BY patient, study, id LIMIT ?",
            (*after, PAGE),
        ).fetchall()
        if not page:
            return
        for patient, study, number, *names, suffix, digest, native, kind, payload, source, stamp in page:
            plain = None if native is None else bool(native)
            facts = (suffix, digest, plain, kind, payload, source, stamp)
            yield ObjectToAudit(patient, study, number, (names[0], names[1], names[2], names[3]), *facts)
        after = page[-1][:3]


def without_chance(audited: Audited, judged: Collection[bytes]) -> Audited:
    """Take out the findings all of whose excerpts a person judged to be chance."""
    if not audited.excerpts:
        return audited
    excerpts = {
        finding: [one.name for one in audited.excerpts if (one.location, one.rule) == finding]
        for finding in audited.findings
    }
    chance = tuple(
        finding for finding, names in excerpts.items() if names and all(name in judged for name in names)
    )
    left = tuple(finding for finding in audited.findings if finding not in chance)
    return replace(audited, findings=left, chance=chance)


def store_audit(state: State, audited: Sequence[Audited], *, quarantine_pixels: bool = True) -> None:
    """Store audit results within the open batch.

    Parameters
    ----------
    state : State
        The state of the run.
    audited : sequence of Audited
        The results.
    quarantine_pixels : bool
        Whether an object with known values only in its pixel data is quarantined by itself.
    """
    state.write(
        "UPDATE objects SET audited = 1, pixels_check = ?, pixels = ? WHERE id = ?",
        [(one.pixels_check, one.pixels, one.id) for one in audited],
    )
    scans = [(digest, one.id) for one in audited for digest in one.scans]
    if scans:
        state.write("INSERT OR IGNORE INTO scans VALUES (?, ?)", scans)
    if waived := [(one.id, *finding) for one in audited for finding in one.chance]:
        state.write("INSERT OR IGNORE INTO chance_findings VALUES (?, ?, ?)", waived)
    found = [(one.id, location, rule) for one in audited for location, rule in one.findings]
    if found:
        store_excerpts(state, [(one.id, excerpt) for one in audited for excerpt in one.excerpts])
        state.write("INSERT OR IGNORE INTO findings VALUES (?, ?, ?)", found)
        # A slide is quarantined by itself; findings in other objects are left to the gate.
        failed = [(one.findings[0][1], one.id) for one in audited if one.findings]
        state.write(
            "UPDATE objects SET outcome = 'quarantined', rule = ? WHERE id = ? AND kind = 'slide'", failed
        )
    if quarantine_pixels:
        state.write(
            "UPDATE objects SET outcome = 'quarantined', rule = ? WHERE id = ? AND kind <> 'slide'"
            " AND id NOT IN (SELECT id FROM synthetics)",
            [(IN_PIXELS, one.id) for one in audited if one.is_only_in_pixels],
        )


def clear_audit(state: State) -> None:
    """Delete the results of earlier audits, as one transaction."""
    with state.transaction() as db:
        db.execute("UPDATE objects SET audited = 0 WHERE outcome = 'released'")
        # What is quarantined is not audited again.
        for table in ("findings", "excerpts", "chance_findings"):
            db.execute(
                f"DELETE FROM {table} WHERE id NOT IN (SELECT id FROM objects WHERE rule = ?)",  # noqa: S608
                (IN_PIXELS,),
            )
        db.execute("DELETE FROM scans")


def object_findings(state: State, limit: int = 10_000) -> list[tuple[str, str, str]]:
    """List the findings (path, location, rule) in objects to be released; at most ``limit``."""
    rows = state.db.execute(
        "SELECT p_patient, p_study, p_series, p_instance, p_suffix, location, findings.rule FROM findings"
        " JOIN objects USING (id) WHERE outcome = 'released' ORDER BY 1, 2, 3, 4, 5, 6, 7 LIMIT ?",
        (limit,),
    )
    return [(staged_path(*row[:5]), row[5], row[6]) for row in rows]


def finding_groups(state: State) -> list[FindingGroup]:
    """Count the findings without excerpts in objects to be released, by location and rule."""
    rows = state.db.execute(
        "SELECT location, findings.rule, count(*) FROM findings JOIN objects USING (id)"
        " WHERE outcome = 'released' AND NOT EXISTS (SELECT 1 FROM excerpts WHERE excerpts.id = findings.id"
        "  AND excerpts.location = findings.location AND excerpts.rule = findings.rule)"
        " GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
    )
    return [FindingGroup(*row) for row in rows.fetchall()]


def finding_kinds(state: State) -> list[tuple[str, str]]:
    """List every location and rule of a finding."""
    return state.db.execute("SELECT DISTINCT location, rule FROM findings").fetchall()
