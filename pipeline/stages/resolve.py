"""The stage resolve: decisions that need the whole set, made before any object is sanitized.

Objects of patients without consent are dropped, studies with more than one patient are quarantined, and
contested SOP Instance UIDs are marked. The module also reads the data controller's lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from medsanitize.errors import UsageError
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.stages.csv_list import read_csv_list
from medsanitize.pipeline.stages.double_patients import suspicions
from medsanitize.pipeline.stages.faces import faces_of
from medsanitize.pipeline.stages.slides import check_slide_extra
from medsanitize.pipeline.stages.stage import Advance, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.decisions import any_decision, decisions_on
from medsanitize.pipeline.state.identities import Identities, Identity, join_identities, read_ledger
from medsanitize.pipeline.state.keys import open_paths
from medsanitize.pipeline.state.merged_patients import merge_patients
from medsanitize.pipeline.state.patients import known_of, patient_of, patients_with_id
from medsanitize.pipeline.state.pending_objects import CostWeights, PendingObject, pending_objects
from medsanitize.pipeline.state.result_types import ExcludedPatients
from medsanitize.pipeline.state.set_rules import (
    drop_unidentified_without_consent,
    drop_without_consent,
    index_inventory,
    mark_contested,
    quarantine_mixed_studies,
)
from medsanitize.pipeline.state.specimens import specimen_of
from medsanitize.pipeline.state.stage_results import EXCLUDED, RESOLVED, SUSPECTED
from medsanitize.policies.model import FacesAction
from medsanitize.sanitize.context import Context

_NONE = Identities()
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """An object to sanitize; a slide of several files has several ``paths``, the main file first."""

    id: int
    kind: str
    paths: tuple[bytes, ...]
    size: int
    stamp: bytes
    contested: bool
    context: Context
    cost: float

    def __repr__(self) -> str:
        return f"Job({self.id})"


@dataclass(frozen=True, slots=True)
class ResolveStage(Stage):
    """Decide what the whole set rules out before any object is sanitized: consent, mixed studies, UIDs."""

    exclude: Path | None
    pseudonyms: Path | None
    identities: Path | None = None
    ledger: Path | None = None

    name: ClassVar = "resolve"
    phase: ClassVar[Phase] = "inventory"
    in_plan: ClassVar = True
    invalidated_by: ClassVar = frozenset({"inventory", "specimens"})

    def check(self) -> None:
        """Check the lists ``exclude``, ``identities`` and ``pseudonyms.table``."""
        check_pseudonyms(read_pseudonyms(self.pseudonyms), join_identities(read_identities(self.identities)))
        read_excluded(self.exclude)

    def pending(self, state: State) -> int | None:
        """Return 0 if the decisions are made."""
        return 0 if RESOLVED.is_set(state) else None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Make the decisions, after checking that the libraries for slides are installed."""
        check_slide_extra(context.state)
        identities = identities_of(context.state, self.identities, self.ledger)
        resolve(context.state, self.exclude, identities, self.pseudonyms)
        SUSPECTED.store(context.state, len(suspicions(context.state, identities)))


def identities_of(state: State, table: Path | None, ledger: Path | None) -> Identities:
    """Return which identities are one patient, by the table ``identities`` and the ledger."""
    return join_identities(read_identities(table), read_ledger(ledger, state.seal))


def resolve(
    state: State,
    exclude: Path | None,
    identities: Identities = _NONE,
    pseudonyms: Path | None = None,
) -> None:
    """Merge patients, rule out objects by consent and mixed studies, and mark contested UIDs.

    One transaction.
    """
    excluded = read_excluded(exclude)
    with state.transaction():
        index_inventory(state)
        merge_patients(state, identities)
        check_pseudonyms(read_pseudonyms(pseudonyms), identities)
        refuse_ambiguous_pseudonyms(state, pseudonyms)
        missing = sum(not drop_without_consent(state, issuer, identifier) for identifier, issuer in excluded)
        # Patients on the list who are not found may be typos, so the data controller sees their number.
        EXCLUDED.store(state, ExcludedPatients(len(excluded), missing))
        drop_unidentified_without_consent(state)
        quarantine_mixed_studies(state)
        mark_contested(state)
        RESOLVED.set(state)


def jobs(
    state: State, table: Path | None, faces: FacesAction, weights: CostWeights, large: float
) -> Iterator[Job]:
    """Yield the pending objects in the order of ``pending_objects``, each with its context.

    Parameters
    ----------
    state : State
        The state of the run.
    table : Path or None
        The list ``pseudonyms.table``.
    faces : str
        The action of the policy for recognizable faces.
    weights, large
        As for ``pending_objects``.
    """
    pseudonyms = read_pseudonyms(table)
    decided = any_decision(state)
    face_of = faces_of(state, faces)
    # Known identifiers are decrypted once per study instead of once per object.
    for (patient, study), group in groupby(pending_objects(state, weights, large), key=_study_of):
        stated = patient_of(state, patient)
        known = known_of(state, patient, study)
        for one in group:
            context = Context(
                patient=stated.key,
                object_key=one.sop.hex(),
                known=known,
                pseudonym=pseudonyms.get(stated.identifier) if stated.identifier else None,
                decisions=decisions_on(state, one.id) if decided else (),
                face=face_of(one.id),
                specimen=specimen_of(state, one.id) if one.kind == "slide" else None,
                own_uid=one.own_uid,
            )
            paths = open_paths(state.seal, one.source)
            yield Job(one.id, one.kind, paths, one.size, one.stamp, one.contested, context, one.cost)


def _study_of(one: PendingObject) -> tuple[bytes, bytes]:
    return one.patient, one.study


# -- the data controller's lists ----------------------------------------------------------


def read_excluded(path: Path | None) -> list[tuple[str, str | None]]:
    """Read the list ``exclude``: a CSV with the column ``patient_id`` and optionally ``issuer``.

    Returns
    -------
    list of (str, str or None)
        PatientID and issuer of each patient, sorted and without duplicates.

    Raises
    ------
    UsageError
        The file cannot be read, or a column is missing.
    """
    if path is None:
        return []
    rows = read_csv_list(path, "exclude", ("patient_id",))
    listed = {(row["patient_id"].strip(), (row.get("issuer") or "").strip() or None) for row in rows}
    return sorted(((identifier, issuer) for identifier, issuer in listed if identifier), key=str)


def read_pseudonyms(path: Path | None) -> dict[str, str]:
    """Read ``pseudonyms.table``, which maps PatientID to pseudonym.

    Raises
    ------
    UsageError
        A patient or a pseudonym occurs twice, or a pseudonym is not a safe folder name.
    """
    if path is None:
        return {}
    table: dict[str, str] = {}
    for number, row in enumerate(
        read_csv_list(path, "pseudonyms.table", ("patient_id", "pseudonym")), start=2
    ):
        identifier, pseudonym = row["patient_id"].strip(), (row["pseudonym"] or "").strip()
        if not identifier or identifier in table:
            raise UsageError(
                f"pseudonyms.table: row {number} has no PatientID, or repeats one",
                "List each patient once",
            )
        if not is_safe_name(pseudonym):
            raise UsageError(
                f"pseudonyms.table: the pseudonym in row {number} cannot be used",
                "Use 1 to 64 letters, digits, '.', '_' and '-', starting with a letter or digit",
            )
        table[identifier] = pseudonym
    # Without case, because folders are named by pseudonyms and some file systems ignore case.
    if len({pseudonym.casefold() for pseudonym in table.values()}) != len(table):
        raise UsageError("pseudonyms.table gives two patients one pseudonym", "Make every pseudonym unique")
    return table


def read_identities(path: Path | None) -> list[tuple[Identity, str]]:
    """Read ``identities``: a CSV with columns ``patient_id``, ``person`` and optionally ``issuer``.

    Returns
    -------
    list of (Identity, str)
        Identity and person, in the order of the file.

    Raises
    ------
    UsageError
        The file cannot be read, a cell is empty, or an identity is listed twice.
    """
    if path is None:
        return []
    table: dict[Identity, str] = {}
    for number, row in enumerate(read_csv_list(path, "identities", ("patient_id", "person")), start=2):
        identity = (row.get("issuer") or "").strip(), (row["patient_id"] or "").strip()
        person = (row["person"] or "").strip()
        if not identity[1] or not person or identity in table:
            raise UsageError(
                f"identities: row {number} has no PatientID or no person, or repeats a PatientID",
                "List each PatientID of an issuer once, with the person it belongs to",
            )
        table[identity] = person
    return list(table.items())


def check_pseudonyms(table: Mapping[str, str], identities: Identities) -> None:
    """Refuse a pseudonym table that gives identities of one patient different pseudonyms.

    Raises
    ------
    UsageError
        A listed PatientID belongs to a patient whose pseudonym is another one.
    """
    for (_, identifier), (_, chosen) in identities.patient.items():
        if identifier in table and table[identifier] != table.get(chosen):
            raise UsageError(
                "pseudonyms.table gives one patient of identities two pseudonyms",
                "List only the PatientID that comes first in identities",
            )


def refuse_ambiguous_pseudonyms(state: State, table: Path | None) -> None:
    """Refuse a pseudonym table that would merge patients of different issuers.

    Raises
    ------
    UsageError
        A listed PatientID occurs with more than one issuer.
    """
    for identifier in read_pseudonyms(table):
        if len(patients_with_id(state, identifier)) > 1:
            raise UsageError(
                "pseudonyms.table lists a PatientID that two issuers gave to different patients",
                "Leave it out of the table, so that each of them gets a pseudonym of its own",
            )


def is_safe_name(name: str) -> bool:
    """Whether a pseudonym is a safe name of a folder or file on every system."""
    return _SAFE_NAME.fullmatch(name) is not None


def digest_of_lists(seal: Seal, lists: Iterable[Path | None]) -> str:
    """Return a keyed digest of the lists and tables of a policy, to detect changes between runs.

    Raises
    ------
    UsageError
        A file cannot be read.
    """
    from hashlib import sha256

    parts = []
    for path in lists:
        if path is not None:
            try:
                with path.open("rb") as file:
                    digest = sha256()
                    while block := file.read(2**20):
                        digest.update(block)
                    parts.append(digest.hexdigest())
            except OSError:
                raise UsageError(
                    "A file named by exclude, identities, pseudonyms.table, tables or wsi.specimens cannot be"
                    " read",
                    "Correct the path in the policy, or its permissions",
                ) from None
    # Keyed, because the digest of a short list of patients could be guessed.
    return seal.name("lists", *parts).hex()
