"""Merging of patients: rows of one patient that the inputs state under several identities."""

from __future__ import annotations

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.identities import Identities, Identity
from medsanitize.pipeline.state.keys import patient_key
from medsanitize.pipeline.state.patients import Patient, add_known, add_patients, known_row


def merge_patients(state: State, identities: Identities) -> int:
    """Assign objects and known identifiers of merged identities to one patient, in the open transaction.

    Objects without a PatientID are not concerned: their study or they themselves are their patient.

    Returns
    -------
    int
        Number of identities of the inputs that were merged into another one.
    """
    db, seal, merged = state.db, state.seal, 0
    for identity, chosen in sorted(identities.patient.items()):
        if identity == chosen:
            continue
        alias, patient = _name(state, identity), _name(state, chosen)
        # Also an identity that the inputs do not state: a list may name the patient by it.
        person = seal.name("person", identity[1])
        db.execute("INSERT OR REPLACE INTO merged VALUES (?, ?, ?)", (alias, person, patient))
        if not db.execute("SELECT 1 FROM patients WHERE patient = ?", (alias,)).fetchone():
            continue
        merged += 1
        issuer, identifier = chosen
        stated = Patient(patient_key(issuer, identifier, "", ""), issuer, identifier)
        add_patients(state, [(patient, seal.name("person", identifier), stated.sealed(seal))])
        # Texts of one identity may state the number of the other.
        add_known(state, [known_row(seal, patient, "id", identifier)])
        db.execute(
            "INSERT OR IGNORE INTO known_identifiers"
            " SELECT ?, name, value FROM known_identifiers WHERE owner = ?",
            (patient, alias),
        )
        db.execute("UPDATE objects SET patient = ? WHERE patient = ?", (patient, alias))
    return merged


def patients_as_stated(state: State) -> list[bytes]:
    """Return the keyed names of the patients of the inputs, each identity for itself."""
    rows = state.db.execute("SELECT DISTINCT patient FROM demographics ORDER BY patient")
    return [bytes(name) for (name,) in rows]


def patient_with(state: State, issuer: str, identifier: str) -> bytes:
    """Return the keyed name of the patient that an identity belongs to."""
    name = _name(state, (issuer, identifier))
    row = state.db.execute("SELECT patient FROM merged WHERE alias = ?", (name,)).fetchone()
    return bytes(row[0]) if row else name


def _name(state: State, identity: Identity) -> bytes:
    issuer, identifier = identity
    return state.seal.name("patient", patient_key(issuer, identifier, "", ""))
