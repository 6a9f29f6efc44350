"""What is known of a patient and a study before one of their objects is sanitised.

Inventory peeks at every object once; the union over a patient's and a study's objects is the
sealed context that the object function receives. It never leaves the holder's side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from medsanitize.sanitize.faces.face import Face


@dataclass(frozen=True, slots=True)
class Known:
    """One identifying value of a patient or study and what sort of thing it is.

    ``category``: ``name``, ``id``, ``date``, ``address``, ``phone``, ``institution``, ``uid`` or ``text``;
    and three whose values may be ordinary words elsewhere, so that free text is cleaned of them and the
    audit does not search for them: ``label`` (stations, devices, ranks, plates), ``organisation``
    (departments, services, issuers) and ``place``.
    """

    category: str
    value: str


@dataclass(frozen=True, slots=True)
class Peek:
    """What inventory reads from one object without sanitising it.

    ``kind`` is ``dicom``, ``raster``, ``slide``, ``dicomdir``, ``not-an-image`` or ``unreadable``. Empty
    strings mean absent.
    ``patient_ids`` are the distinct (issuer, id) pairs after trimming; more than one is an error
    of the study.
    """

    kind: str
    rule: str = ""
    patient_ids: tuple[tuple[str, str], ...] = ()
    study_uid: str = ""
    series_uid: str = ""
    sop_uid: str = ""
    accession: str = ""
    known: frozenset[Known] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided of one doubt: ``place`` is the doubt's, ``verdict`` says what to do there.

    ``keep`` leaves it as it is, ``blank`` blanks or cuts it, ``quarantine`` refuses the object.
    """

    place: str
    verdict: Literal["keep", "blank", "quarantine"]


@dataclass(frozen=True, slots=True, repr=False)
class Place:
    """Where a slide stands, as the holder's table says: ids of its own patient, sample, block and section,
    stain and scanner; empty where the table says nothing.
    """

    patient: str = ""
    sample: str = ""
    block: str = ""
    section: str = ""
    stain: str = ""
    scanner: str = ""

    def __repr__(self) -> str:
        return "Place(...)"


@dataclass(frozen=True, slots=True)
class Context:
    """What the object function may know beyond the object.

    ``patient`` is the canonical secret key of the patient (issuer and id, or of the study or
    object where no PatientID exists): equal for two objects exactly when they are one patient.
    ``pseudonym`` is set where the policy's pseudonym table names it. ``known`` is everything
    gathered over the patient's and the study's objects. ``object_key`` makes missing UIDs: it is
    stable for the same source object. ``refuse`` is a rule id when the set already rules the object
    out (two patients in one study ...). ``decisions`` are those of the review. ``face`` is what is known of
    the object's series, None where nobody looked. ``place`` is a slide's.
    """

    patient: str
    object_key: str
    known: frozenset[Known] = frozenset()
    pseudonym: str | None = None
    refuse: str = ""
    decisions: tuple[Decision, ...] = ()
    face: Face | None = None
    place: Place | None = None
