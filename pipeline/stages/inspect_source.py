"""Inspection of one source for the inventory, in the workers: what it is, and whose it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from medsanitize.errors import MedsanitizeError
from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.stages.faces import judges_faces, slice_row
from medsanitize.pipeline.state.demographics import DemographicsRow, demographics_row
from medsanitize.pipeline.state.inventory_rows import CONTAINER_OPENED, InventoryRow
from medsanitize.pipeline.state.keys import patient_key, sealed_paths
from medsanitize.pipeline.state.listed_files import ListedRow
from medsanitize.pipeline.state.patients import KnownRow, Patient, PatientRow, known_row
from medsanitize.pipeline.state.series import SliceRow
from medsanitize.pipeline.storage.containers.reader import open_container
from medsanitize.pipeline.storage.protocol import UNKNOWN_VERSION, Content
from medsanitize.pipeline.storage.slide_files import is_slide_part, slide_view
from medsanitize.pipeline.storage.sources import SourceEntry, SourceProblem, open_new_source, stamp_of
from medsanitize.policies.model import Policy
from medsanitize.policies.other_files import FileKind
from medsanitize.sanitize.context import Inspection, KnownValue
from medsanitize.sanitize.quarantine import Quarantined

_SANITIZED = frozenset(["dicom", "raster", "slide"])
_ACTION_OUTCOMES = {"drop": "dropped", "quarantine": "quarantined"}
_UNREAD_RULES = {"unlisted": "unreadable", "absent": "not-at-peer", "short": "listed-in-part"}
_UNOPENED: dict[str, FileKind] = {"link": "link", "special": "special"}


@dataclass(frozen=True, slots=True)
class InventoriedObject:
    """What a worker says of one source: a row, its patient's row and identifiers, its place, all sealed.

    ``listed`` are the files that a DICOMDIR refers to.
    """

    row: InventoryRow
    patient: PatientRow | None = None
    known: tuple[KnownRow, ...] = ()
    slice: SliceRow | None = None
    demographics: DemographicsRow | None = None
    listed: tuple[ListedRow, ...] = ()


Item = tuple[int, SourceEntry]


@dataclass(frozen=True, slots=True)
class _Source:
    """One source under inspection, and what its row states whatever it is."""

    worker: Worker
    number: int
    found: SourceEntry
    size: int
    stamp: bytes
    sealed: bytes

    @property
    def policy(self) -> Policy:
        return self.worker.setup.policy

    def ruled_out(self, kind: str, outcome: str, rule: str) -> InventoriedObject:
        """Return the row of a source that is not sanitized."""
        return InventoriedObject(
            InventoryRow(self.number, self.size, self.stamp, kind, self.sealed, outcome, rule)
        )

    def refused(self, rule: str) -> InventoriedObject:
        """Return the row of a source that is quarantined."""
        return self.ruled_out("unreadable", "quarantined", rule)

    def other_file(self, kind: FileKind) -> InventoriedObject:
        """Return the row of a file that is no image: left out if the policy names its kind."""
        named = "dicomdir" if kind == "dicomdir" else "other"
        if kind in self.policy.ignore:
            return self.ruled_out(named, "dropped", f"ignored:{kind}")
        return self.ruled_out(named, "quarantined", f"other-file:{kind}")


def peek_batch(worker: Worker, batch: Sequence[Item]) -> list[InventoriedObject]:
    """Inspect a batch of sources."""
    return [_peek_one(worker, number, found) for number, found in batch]


def _peek_one(worker: Worker, number: int, found: SourceEntry) -> InventoriedObject:
    seal = worker.seal
    size = sum(one.size for one in found.files)
    source = _Source(worker, number, found, size, stamp_of(seal, found), sealed_paths(seal, found))
    if found.sort in _UNOPENED:
        return source.other_file(_UNOPENED[found.sort])
    if found.sort != "file":
        # In a container, the sort of a file that cannot be read is its rule.
        return source.refused(_UNREAD_RULES.get(found.sort, found.sort))
    try:
        with open_new_source(found, seal) as (contents, size, stamp):
            return _inspect(replace(source, size=size, stamp=stamp), contents)
    except SourceProblem as problem:
        return source.refused(problem.rule)
    except MedsanitizeError:
        raise
    except Exception:  # noqa: BLE001  a defect must neither release an object nor stop the run
        return source.refused("internal-error")


def _inspect(source: _Source, contents: Sequence[Content]) -> InventoriedObject:
    from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
    from medsanitize.sanitize.raster.raster_sanitizer import inspect_raster
    from medsanitize.sanitize.wsi.inspect_slide import inspect_slide, slide_key

    content, found, limits = contents[0], source.found, source.policy.dicom.limits
    view = slide_view(tuple(one.path for one in found.files), contents)
    seen = (
        inspect_slide(view) or inspect_raster(content) or inspect_dicom(content, limits, source.worker.kept)
    )
    if seen.kind == "dicomdir":
        return _dicomdir(source, content)
    if seen.kind == "other":
        return _other(source, content)
    settled = _settled(source, seen)
    if settled is not None:
        return settled
    # Objects without a UID are identified by content, so that copies get one pseudonym.
    key = slide_key(view) if seen.kind == "slide" else seen.sop_uid or sha256(content).hexdigest()
    return _inventoried(source, seen, key, content)


def _settled(source: _Source, seen: Inspection) -> InventoriedObject | None:
    """Return the row of a source whose outcome needs no sanitizing."""
    policy, found = source.policy, source.found
    if seen.kind == "slide" and policy.wsi.action in _ACTION_OUTCOMES:
        return source.ruled_out("slide", _ACTION_OUTCOMES[policy.wsi.action], "slide")
    if found.parts and seen.kind in _SANITIZED - {"slide"}:
        return source.refused("slide-not-supported")
    if seen.kind == "raster" and policy.raster.action in _ACTION_OUTCOMES:
        return source.ruled_out("raster", _ACTION_OUTCOMES[policy.raster.action], "raster-image")
    if seen.kind == "raster" and (found.near_slide or is_slide_part(found.path)):
        return source.refused("slide-not-supported")
    return source.refused(seen.rule or "unreadable") if seen.kind not in _SANITIZED else None


def _other(source: _Source, content: Content) -> InventoriedObject:
    """Return the row of a file that is no image; the files of a container get rows of their own later."""
    from medsanitize.sanitize.formats.container_kind import container_kind
    from medsanitize.sanitize.formats.file_kind import file_kind

    # An archive returns objects; that it should return a container is no reason to trust it.
    if source.found.times == UNKNOWN_VERSION or container_kind(content) is None:
        return source.other_file(file_kind(content))
    action = source.policy.containers.action
    if action in _ACTION_OUTCOMES:
        return source.ruled_out("container", _ACTION_OUTCOMES[action], "container")
    open_container(source.found, content)
    return source.ruled_out("container", "dropped", CONTAINER_OPENED)


def _dicomdir(source: _Source, content: Content) -> InventoriedObject:
    """Return the row of a DICOMDIR, and the files that it lists."""
    from medsanitize.sanitize.dicom.dicomdir import listed_files

    seal = source.worker.seal
    try:
        listed = listed_files(content, source.policy.dicom.limits)
    except Quarantined:
        return source.ruled_out("dicomdir", "quarantined", "dicomdir-unreadable")
    rows = tuple(
        ListedRow(
            source.number,
            seal.name("sop", one.sop_uid) if one.sop_uid else b"",
            seal.close(one.path, b"listed"),
        )
        for one in listed
    )
    return replace(source.other_file("dicomdir"), listed=rows)


def _inventoried(source: _Source, seen: Inspection, key: str, content: Content) -> InventoriedObject:
    """Return the row of an object to sanitize, with its patient and known identifiers."""
    from medsanitize.sanitize.faces.read_header import read_slice

    worker, number = source.worker, source.number
    seal, policy = worker.seal, source.policy
    header = (
        read_slice(content, policy.dicom.limits)
        if seen.kind == "dicom" and judges_faces(policy.pixels.faces)
        else None
    )
    sop = seal.name("sop", key) if seen.sop_uid else seal.name("content", key)
    patient, study, patient_row = _names(worker, seen, sop)
    # Which of two patients an object shows cannot be decided here.
    rule = "two-patient-ids" if len(seen.patient_ids) > 1 else None
    row = InventoryRow(
        number,
        source.size,
        source.stamp,
        seen.kind,
        source.sealed,
        "quarantined" if rule else None,
        rule,
        patient,
        study,
        sop,
        len(seen.patient_ids),
        seen.image,
        seal.name("series", seen.series_uid) if seen.series_uid else b"",
        seal.name("device", *seen.device) if any(seen.device) else b"",
    )
    owners = (patient, study) if study else (patient,)
    place = slice_row(seal, number, patient, study, header) if header else None
    person = _new_demographics(worker, patient, seen)
    return InventoriedObject(row, patient_row, _new_known(worker, owners, seen.known), place, person)


def _names(worker: Worker, seen: Inspection, sop: bytes) -> tuple[bytes, bytes, PatientRow | None]:
    """Return the keyed names of patient and study, and the patient's row unless sent recently."""
    seal = worker.seal
    study = seal.name("study", seen.study_uid) if seen.study_uid else b""
    issuer, identifier = seen.patient_ids[0] if seen.patient_ids else ("", "")
    key = patient_key(issuer, identifier, seen.study_uid, sop.hex())
    patient = seal.name("patient", key)
    if not worker.is_new_patient(patient):
        return patient, study, None
    person = seal.name("person", identifier) if identifier else b""
    return patient, study, (patient, person, Patient(key, issuer, identifier).sealed(seal))


def _new_demographics(worker: Worker, patient: bytes, seen: Inspection) -> DemographicsRow | None:
    """Return what the object states about its patient, unless sent recently; None without a PatientID."""
    if seen.demographics is None or len(seen.patient_ids) != 1:
        return None
    row = demographics_row(worker.seal, patient, seen.demographics)
    return row if worker.is_new_demographics((patient, row[2])) else None


def _new_known(
    worker: Worker, owners: tuple[bytes, ...], known: frozenset[KnownValue]
) -> tuple[KnownRow, ...]:
    return tuple(
        known_row(worker.seal, owner, one.category, one.value)
        for owner in owners
        for one in worker.filter_recently_sent(owner, known)
    )
