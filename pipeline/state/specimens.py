"""Slides whose patient and specimen are in a table of the data controller; specimens are encrypted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from medsanitize.pipeline.state.database import PAGE, State
from medsanitize.pipeline.state.keys import open_paths, patient_key
from medsanitize.pipeline.state.patients import Patient, add_known, add_patients, known_row, patients_with_id
from medsanitize.sanitize.context import SpecimenIds

# Attributes of a specimen, in stored order.
LEVELS = ("patient", "sample", "block", "section", "stain", "scanner")
# Minimum length of identifiers for the search of released bytes; shorter ones occur by chance.
_MIN_LENGTH = 6


@dataclass(frozen=True, slots=True, repr=False)
class PendingSlide:
    """A slide without an outcome; the path of its main file comes first."""

    id: int
    paths: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"PendingSlide({self.id})"


def pending_slides(state: State) -> Iterator[PendingSlide]:
    """Yield the slides without an outcome, by row."""
    after = -1
    while rows := state.db.execute(
        "SELECT id, source FROM objects WHERE kind = 'slide' AND outcome IS NULL AND id > ?"
        " ORDER BY id LIMIT ?",
        (after, PAGE),
    ).fetchall():
        after = rows[-1][0]
        for number, source in rows:
            yield PendingSlide(number, open_paths(state.seal, source))


def count_pending_slides(state: State) -> int:
    """Count the slides without an outcome."""
    return state.count("kind = 'slide' AND outcome IS NULL")


def specimen_of(state: State, number: int) -> SpecimenIds | None:
    """Return the specimen of a slide, or None if no table states it."""
    row = state.db.execute("SELECT value FROM specimens WHERE id = ?", (number,)).fetchone()
    return None if row is None else SpecimenIds(*json.loads(state.seal.open(row[0], b"specimen")))


def store_specimen(state: State, number: int, specimen: SpecimenIds) -> None:
    """Store the specimen of a slide, and assign the slide to the patient of the table."""
    value = state.seal.close(json.dumps([getattr(specimen, level) for level in LEVELS]).encode(), b"specimen")
    state.write("INSERT OR REPLACE INTO specimens VALUES (?, ?)", [(number, value)])
    if not specimen.patient:
        return
    named = patients_with_id(state, specimen.patient)
    if len(named) != 1:
        # Unknown or ambiguous (several issuers): create a patient without an issuer.
        patient = Patient(patient_key("", specimen.patient, "", ""), "", specimen.patient)
        named = [state.seal.name("patient", patient.key)]
        person = state.seal.name("person", specimen.patient)
        add_patients(state, [(named[0], person, patient.sealed(state.seal))])
    state.write("UPDATE objects SET patient = ?, identified = 1 WHERE id = ?", [(named[0], number)])
    # The identifier search of the released bytes covers the identifiers of the table, too.
    found = (one for one in (specimen.patient, specimen.sample, specimen.block) if len(one) >= _MIN_LENGTH)
    add_known(state, [known_row(state.seal, named[0], "id", one) for one in found])
