"""Patients, and the identifiers collected for patients and studies: keyed names, encrypted values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.state.database import State
from medsanitize.sanitize.context import KnownValue

# Keyed names of the patient and of the PatientID, encrypted `Patient`.
PatientRow = tuple[bytes, bytes, bytes]
# Keyed name of the patient or study, keyed name of the identifier, encrypted identifier.
KnownRow = tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True, repr=False)
class Patient:
    """A patient as the inputs state it: canonical key, issuer and PatientID."""

    key: str
    issuer: str
    identifier: str

    def __repr__(self) -> str:
        return "Patient(...)"

    def sealed(self, seal: Seal) -> bytes:
        """Return the encrypted value of the patient's row."""
        return seal.close(json.dumps([self.key, self.issuer, self.identifier]).encode(), b"patient")


def known_row(seal: Seal, owner: bytes, category: str, value: str) -> KnownRow:
    """Build the row of an identifier of a patient or study."""
    return (
        owner,
        # The name is keyed by category and value, so that equal identifiers are stored once per owner.
        seal.name("known", category, value),
        seal.close(json.dumps([category, value]).encode(), b"known"),
    )


def add_patients(state: State, rows: Sequence[PatientRow]) -> None:
    """Add the patients that the state does not have yet."""
    if rows:
        state.write("INSERT OR IGNORE INTO patients VALUES (?, ?, ?)", rows)


def add_known(state: State, rows: Sequence[KnownRow]) -> None:
    """Add the identifiers that the state does not have yet."""
    if rows:
        state.write("INSERT OR IGNORE INTO known_identifiers VALUES (?, ?, ?)", rows)


def patient_of(state: State, name: bytes) -> Patient:
    """Decrypt a patient's row."""
    row = state.db.execute("SELECT value FROM patients WHERE patient = ?", (name,)).fetchone()
    return Patient(*json.loads(state.seal.open(row[0], b"patient")))


def has_patient(state: State, name: bytes) -> bool:
    """Report whether the inputs state this patient."""
    return state.db.execute("SELECT 1 FROM patients WHERE patient = ?", (name,)).fetchone() is not None


def patients_with_id(state: State, identifier: str) -> list[bytes]:
    """Return the keyed names of the patients with this PatientID, as merged; several if issuers share it."""
    person = state.seal.name("person", identifier)
    rows = state.db.execute(
        "SELECT patient FROM patients WHERE person = ? AND patient NOT IN (SELECT alias FROM merged)"
        " UNION SELECT patient FROM merged WHERE person = ? AND patient IN (SELECT patient FROM patients)",
        (person, person),
    )
    return [bytes(name) for (name,) in rows]


def known_of(state: State, patient: bytes, study: bytes) -> frozenset[KnownValue]:
    """Return all identifiers collected from the objects of a patient and a study."""
    rows = state.db.execute(
        "SELECT value FROM known_identifiers WHERE owner IN (?, ?)", (patient, study or patient)
    )
    return frozenset(_opened(state, value) for (value,) in rows)


def all_known(state: State) -> Iterator[KnownValue]:
    """Yield every identifier of every patient and study, once per owner."""
    for (value,) in state.db.execute("SELECT value FROM known_identifiers"):
        yield _opened(state, value)


def studies_of(state: State, patient: bytes) -> list[bytes]:
    """Return the keyed names of a patient's studies; b"" stands for objects that state none."""
    rows = state.db.execute("SELECT DISTINCT study FROM objects WHERE patient = ?", (patient,))
    return [bytes(study) for (study,) in rows.fetchall()]


def released_pseudonym(state: State, patient: bytes) -> str | None:
    """Return the pseudonym of a patient with a released object, or None."""
    row = state.db.execute(
        "SELECT p_patient FROM objects WHERE patient = ? AND outcome = 'released' LIMIT 1", (patient,)
    ).fetchone()
    return None if row is None else str(row[0])


def _opened(state: State, value: bytes) -> KnownValue:
    return KnownValue(*json.loads(state.seal.open(value, b"known")))
