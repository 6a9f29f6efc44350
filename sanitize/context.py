"""Facts about a patient, a study and a series that the sanitization of one object needs.

The inventory inspects every object once. The union of its findings over all objects of a patient and a study
is the context of each of these objects. It contains PHI and is kept only in the encrypted state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

VOLUME_SOP_CLASSES = frozenset(
    "1.2.840.10008.5.1.4.1.1." + suffix
    for suffix in "2 2.1 2.2 4 4.1 4.3 4.4 128 128.1 130 13.1.1 13.1.2".split()
)
"""Storage SOP classes whose frames are slices: CT, MR and PET with their enhanced and legacy converted forms,
and enhanced X-ray 3D images."""
FaceVerdict = Literal["none", "possible", "uncut", "projection"]
"""``none``: no face can be rendered; ``possible``: a face may be rendered; ``uncut``: a face may be rendered
and no cut was proved to remove it; ``projection``: the image is a projection, not a slice, so that it
contributes to no rendering."""


@dataclass(frozen=True, slots=True)
class KnownValue:
    """One identifying value of a patient or study, and its category.

    Attributes
    ----------
    category : str
        ``name``, ``id``, ``date``, ``address``, ``phone``, ``institution``, ``uid`` or ``text``; or
        ``label`` (stations, devices, ranks, plates), ``organization`` (departments, services, issuers) or
        ``place``. Values of the last three may be ordinary words elsewhere: they are removed from free text,
        but the audit does not search for them. ``denied`` is an entry of the policy's never-words.
    value : str
    """

    category: str
    value: str


@dataclass(frozen=True, slots=True)
class ImageSize:
    """Size of an image as its header states it, and whether the header lets burned-in text be expected."""

    rows: int
    columns: int
    frames: int
    may_show_text: bool


@dataclass(frozen=True, slots=True, repr=False)
class Demographics:
    """What one object states about its patient, to find double patients. PHI.

    Attributes
    ----------
    name : str
        Patient's Name.
    birth_date : str
        YYYYMMDD.
    sex : str
        ``M``, ``F``, ``O`` or empty.
    other_ids : tuple of str
        Other Patient IDs, sorted.
    """

    name: str = ""
    birth_date: str = ""
    sex: str = ""
    other_ids: tuple[str, ...] = ()

    # PHI must not reach logs and tracebacks.
    def __repr__(self) -> str:
        return "Demographics(...)"


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the inventory reads from one object without sanitizing it. Empty strings mean absent.

    Attributes
    ----------
    kind : str
        ``dicom``, ``raster``, ``slide``, ``dicomdir``, ``other`` (no image) or ``unreadable``.
    rule : str
        Why the object is ``unreadable``.
    patient_ids : tuple of (str, str)
        Distinct pairs of issuer and PatientID, without padding; more than one is an error of the study.
    study_uid, series_uid, sop_uid, accession : str
    known : frozenset of KnownValue
        Identifying values found in the object.
    image : ImageSize or None
        None for objects without an image, and where the header could not be read. An estimate of the work
        that an object makes: no decision is based on it.
    demographics : Demographics or None
        None for objects that state none.
    device : tuple of str
        Manufacturer, model and software of the device.
    """

    kind: str
    rule: str = ""
    patient_ids: tuple[tuple[str, str], ...] = ()
    study_uid: str = ""
    series_uid: str = ""
    sop_uid: str = ""
    accession: str = ""
    known: frozenset[KnownValue] = frozenset()
    image: ImageSize | None = None
    demographics: Demographics | None = None
    device: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """A reviewer's decision on one review item.

    Attributes
    ----------
    location : str
        Location of the review item.
    verdict : str
        ``keep`` leaves the location unchanged, ``blank`` blanks or removes it, ``quarantine`` quarantines
        the object.
    """

    location: str
    verdict: Literal["keep", "blank", "quarantine"]


@dataclass(frozen=True, slots=True, repr=False)
class SpecimenIds:
    """Identifiers of a slide from the data controller's table; empty where the table has no value."""

    patient: str = ""
    sample: str = ""
    block: str = ""
    section: str = ""
    stain: str = ""
    scanner: str = ""

    # PHI must not reach logs and tracebacks.
    def __repr__(self) -> str:
        return "SpecimenIds(...)"


@dataclass(frozen=True, slots=True)
class Context:
    """What a sanitizer knows about an object in addition to its bytes.

    Attributes
    ----------
    patient : str
        Canonical key of the patient (issuer and PatientID, or the study or object where no PatientID exists):
        equal for two objects exactly when they belong to one patient. PHI.
    object_key : str
        Identifies the source object in every run; missing UIDs are derived from it.
    known : frozenset of KnownValue
        Union of the identifying values of all objects of the patient and the study.
    pseudonym : str or None
        The patient's pseudonym where the policy's pseudonym table has one.
    refuse : str
        Rule that quarantines the object because of other objects (two patients in one study); else empty.
    decisions : tuple of ReviewDecision
    face : SeriesFace or None
        Result of the face check of the object's series; None where it did not run.
    specimen : SpecimenIds or None
        Identifiers of a slide.
    own_uid : bool
        Whether the object gets a SOP Instance UID derived from its content, since another object states the
        same UID.
    """

    patient: str
    object_key: str
    known: frozenset[KnownValue] = frozenset()
    pseudonym: str | None = None
    refuse: str = ""
    decisions: tuple[ReviewDecision, ...] = ()
    face: SeriesFace | None = None
    specimen: SpecimenIds | None = None
    own_uid: bool = False


@dataclass(frozen=True, slots=True)
class FaceCut:
    """The part of space that is removed with a face: a coronal grid of blocks, each with its own depth.

    In the patient coordinate system (LPS, mm; PS3.3 C.7.6.2.1.1) block (i, j) covers ``block`` mm of x from
    ``left + j * block`` and ``block`` mm of z downwards from ``top - i * block``. All of the block with y
    less than ``depths[i][j]`` is set to air, including what is air already; None leaves the block unchanged.
    """

    left: float
    top: float
    block: float
    depths: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class SeriesFace:
    """Result of the face check of a series: the verdict, and the cuts of its frame of reference."""

    verdict: FaceVerdict
    cuts: tuple[FaceCut, ...] = ()


def cut_to_json(cut: FaceCut) -> str:
    """Serialize a cut for the encrypted state."""
    return json.dumps([cut.left, cut.top, cut.block, cut.depths])


def cut_from_json(text: str) -> FaceCut:
    """Deserialize the output of ``cut_to_json``."""
    left, top, block, depths = json.loads(text)
    return FaceCut(left, top, block, tuple(map(tuple, depths)))
