"""Outcomes that depend on the whole set, decided before sanitizing; called within one transaction."""

from __future__ import annotations

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.merged_patients import patient_with
from medsanitize.pipeline.state.patients import has_patient, patients_with_id


def index_inventory(state: State) -> None:
    """Create the indexes that pay off only once the inventory is complete."""
    state.db.execute("CREATE INDEX objects_group ON objects (patient, study, id)")
    state.db.execute("CREATE INDEX objects_study ON objects (study)")
    state.db.execute("CREATE INDEX objects_sop ON objects (sop)")
    state.db.execute("CREATE INDEX patients_person ON patients (person)")
    state.db.execute("CREATE INDEX demographics_birth ON demographics (birth)")


def drop_without_consent(state: State, issuer: str | None, identifier: str) -> bool:
    """Drop one excluded patient's objects; return whether the patient is in the inputs."""
    found = False
    names = patients_with_id(state, identifier)
    if issuer is not None:
        names = [patient_with(state, issuer, identifier)]
    for name in names:
        if has_patient(state, name):
            found = True
            state.db.execute(
                "UPDATE objects SET outcome = 'dropped', rule = 'consent' WHERE patient = ?", (name,)
            )
    return found


def drop_unidentified_without_consent(state: State) -> None:
    """Drop objects without PatientID in a study of an excluded patient."""
    # Fail closed: they may be the excluded patient's.
    state.db.execute(
        "UPDATE objects SET outcome = 'dropped', rule = 'consent'"
        " WHERE identified = 0 AND outcome IS NULL AND study <> X''"
        " AND study IN (SELECT study FROM objects WHERE rule = 'consent')"
    )


def quarantine_mixed_studies(state: State) -> None:
    """Quarantine studies whose objects state more than one patient."""
    state.db.execute(
        "UPDATE objects SET outcome = 'quarantined', rule = 'two-patients-in-study'"
        " WHERE outcome IS NULL AND study <> X'' AND study IN ("
        "  SELECT study FROM objects WHERE identified > 0 AND study <> X'' GROUP BY study"
        "  HAVING count(DISTINCT patient) > 1 OR max(identified) > 1)"
    )


def mark_contested(state: State) -> None:
    """Mark objects whose SOP Instance UID occurs in another object as well."""
    state.db.execute(
        "UPDATE objects SET contested = 1 WHERE sop IN ("
        "  SELECT sop FROM objects WHERE sop <> X'' GROUP BY sop HAVING count(*) > 1)"
    )
