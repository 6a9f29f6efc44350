"""What the objects of a patient state about the person: name, birth date, sex, other IDs; encrypted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple

from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.state.database import State
from medsanitize.sanitize.context import Demographics

# Keyed names of the patient as stated, of the birth date (empty without one) and of all values; the values.
DemographicsRow = tuple[bytes, bytes, bytes, bytes]
_PURPOSE = b"demographics"


def demographics_row(seal: Seal, patient: bytes, stated: Demographics) -> DemographicsRow:
    """Build the row of what one object states about its patient."""
    values = json.dumps(astuple(stated))
    birth = seal.name("birth", stated.birth_date) if stated.birth_date else b""
    return patient, birth, seal.name("demographics", values), seal.close(values.encode(), _PURPOSE)


def add_demographics(state: State, rows: Sequence[DemographicsRow]) -> None:
    """Add what the state does not have yet."""
    if rows:
        state.write("INSERT OR IGNORE INTO demographics VALUES (?, ?, ?, ?)", rows)


def demographics_of(state: State, patient: bytes) -> list[Demographics]:
    """Return everything that was stated about a patient, in a fixed order."""
    rows = state.db.execute("SELECT value FROM demographics WHERE patient = ? ORDER BY name", (patient,))
    return [_opened(state, value) for (value,) in rows]


def born_on_one_day(state: State) -> Iterator[list[tuple[bytes, Demographics]]]:
    """Yield, for each birth date that several patients state, these patients and what they state."""
    days = state.db.execute(
        "SELECT birth FROM demographics WHERE birth <> X'' GROUP BY birth"
        " HAVING count(DISTINCT patient) > 1 ORDER BY birth"
    ).fetchall()
    for (birth,) in days:
        rows = state.db.execute(
            "SELECT patient, value FROM demographics WHERE birth = ? ORDER BY patient, name", (birth,)
        )
        yield [(bytes(patient), _opened(state, value)) for patient, value in rows]


def with_other_ids(state: State) -> Iterator[tuple[bytes, Demographics]]:
    """Yield the patients whose objects state other IDs."""
    rows = state.db.execute("SELECT patient, value FROM demographics ORDER BY patient, name")
    for patient, value in rows:
        stated = _opened(state, value)
        if stated.other_ids:
            yield bytes(patient), stated


def sharing_a_study(state: State) -> Iterator[tuple[bytes, bytes]]:
    """Yield pairs of patients with a PatientID whose objects state one study."""
    yield from state.db.execute(
        "WITH stated AS (SELECT DISTINCT study, patient FROM objects WHERE identified = 1 AND study IN"
        " (SELECT study FROM objects WHERE study <> X'' AND identified = 1 GROUP BY study"
        "  HAVING count(DISTINCT patient) > 1))"
        " SELECT DISTINCT one.patient, other.patient FROM stated AS one JOIN stated AS other"
        " ON one.study = other.study AND one.patient < other.patient ORDER BY 1, 2"
    )


def sharing_pixels(state: State) -> Iterator[tuple[bytes, bytes]]:
    """Yield pairs of patients with a PatientID who alone have images of the same pixels.

    Pixels of three patients or more are a test pattern, or an empty image.
    """
    yield from state.db.execute(
        "SELECT DISTINCT min(patient) AS one, max(patient) AS other FROM objects"
        " WHERE pixels NOT NULL AND identified = 1"
        " GROUP BY pixels HAVING count(DISTINCT patient) = 2 ORDER BY one, other"
    )


def _opened(state: State, value: bytes) -> Demographics:
    name, birth_date, sex, other_ids = json.loads(state.seal.open(value, _PURPOSE))
    return Demographics(name, birth_date, sex, tuple(other_ids))
