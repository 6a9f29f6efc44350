"""What is known of a patient and a study before one of their objects is sanitised.

Inventory peeks at every object once; the union over a patient's and a study's objects is the
sealed context that the object function receives. It never leaves the holder's side.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

VOLUME_SOP_CLASSES = frozenset(
    "1.2.840.10008.5.1.4.1.1." + suffix
    for suffix in "2 2.1 2.2 4 4.1 4.3 4.4 128 128.1 130 13.1.1 13.1.2".split()
)
"""SOP classes whose frames are slices: CT, MR, PET, their enhanced and converted forms, cone-beam CT."""
FaceVerdict = Literal["none", "possible", "uncut", "projection"]
"""``none``: no face can be rendered; ``possible``: it may; ``uncut``: it may, and no cut is proved to remove
it; ``projection``: the image lies in no plane, so that nothing can be rendered from it."""


@dataclass(frozen=True, slots=True)
class KnownValue:
    """One identifying value of a patient or study and what sort of thing it is.

    ``category``: ``name``, ``id``, ``date``, ``address``, ``phone``, ``institution``, ``uid`` or ``text``;
    and three whose values may be ordinary words elsewhere, so that free text is cleaned of them and the
    audit does not search for them: ``label`` (stations, devices, ranks, plates), ``organisation``
    (departments, services, issuers) and ``place``.
    """

    category: str
    value: str


@dataclass(frozen=True, slots=True)
class Inspection:
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
    known: frozenset[KnownValue] = frozenset()


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """What a person decided of one doubt: ``place`` is the doubt's, ``verdict`` says what to do there.

    ``keep`` leaves it as it is, ``blank`` blanks or cuts it, ``quarantine`` refuses the object.
    """

    place: str
    verdict: Literal["keep", "blank", "quarantine"]


@dataclass(frozen=True, slots=True, repr=False)
class SpecimenIds:
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
    known: frozenset[KnownValue] = frozenset()
    pseudonym: str | None = None
    refuse: str = ""
    decisions: tuple[ReviewDecision, ...] = ()
    face: SeriesFace | None = None
    place: SpecimenIds | None = None


@dataclass(frozen=True, slots=True)
class FaceCut:
    """Where a face is cut off: a plane facing forward for every block of a coarse grid.

    In the patient coordinate system (LPS, mm; PS3.3 C.7.6.2.1.1) block (i, j) covers ``block`` mm of x from
    ``left + j * block`` and of z downwards from ``top - i * block``. Everything in it with a y less than
    ``depths[i][j]`` goes, outside air included; None leaves the block as it is.
    """

    left: float
    top: float
    block: float
    depths: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class SeriesFace:
    """What an object is told of its series: the verdict, and the cuts of its frame of reference."""

    verdict: FaceVerdict
    cuts: tuple[FaceCut, ...] = ()


def cut_to_json(cut: FaceCut) -> str:
    """The cut as the sealed state keeps it."""
    return json.dumps([cut.left, cut.top, cut.block, cut.depths])


def cut_from_json(text: str) -> FaceCut:
    """Rebuild what ``cut_to_json`` kept."""
    left, top, block, depths = json.loads(text)
    return FaceCut(left, top, block, tuple(map(tuple, depths)))
