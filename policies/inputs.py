"""Inputs other than folders: a DICOMweb service, a DIMSE peer, an address in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from medsanitize.policies.base import EnvName, Section, Text
from pydantic import Field, StringConstraints

OBJECT_STORES: Final = ("s3", "gs", "abfs")
"""What can be read from and written to."""
STORES: Final = (*OBJECT_STORES, "https", "http")
"""What can be read from."""
LONGEST_ADDRESS: Final = 2000
StoreUrl = Annotated[str, StringConstraints(pattern=r"^(s3|gs|abfs|https?)://", max_length=LONGEST_ADDRESS)]
"""Address of a place in a store; all that is not, is a local path."""

AeTitle = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,16}$")]
Port = Annotated[int, Field(ge=1, le=65535)]

STUDY_KEYS = frozenset(
    "AccessionNumber IssuerOfPatientID ModalitiesInStudy PatientBirthDate PatientID PatientName PatientSex"
    " ReferringPhysicianName StudyDate StudyDescription StudyID StudyInstanceUID StudyTime".split()
)
"""Keywords that choose studies (PS3.4 tables C.6-5 and 10.6.1-5, and what archives offer beside them)."""
SERIES_KEYS = frozenset(
    "BodyPartExamined Modality SeriesDate SeriesDescription SeriesInstanceUID SeriesNumber".split()
)
"""Keywords that choose series within those studies."""


class StudyQuery(Section):
    """Which studies of a PACS are read. At least one of ``worklist`` and ``query`` is needed."""

    worklist: Path | None = None
    """CSV with one column, ``AccessionNumber`` or ``StudyInstanceUID``: the studies to read. One that the
    PACS does not have goes to quarantine."""
    query: dict[str, Text] = Field(default_factory=dict)
    """DICOM keywords and what they must match, as C-FIND and QIDO-RS take it: a value, one with * and ?, a
    range of dates (20240101-20241231) or times (0800-1159). Every answer is compared with it. Beside a
    worklist it narrows it."""


class DicomWeb(StudyQuery):
    """A DICOMweb service, read by QIDO-RS and WADO-RS as it stores its objects."""

    dicomweb: Annotated[
        str, StringConstraints(pattern=r"^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~/-]*)?$")
    ]
    """Its address, as in https://pacs.example.org/dicom-web. Credentials only travel over https."""
    token: EnvName | None = None
    """Name of the environment variable that holds a bearer token."""
    login: EnvName | None = None
    """Name of the environment variable that holds user:password."""


class Dimse(StudyQuery):
    """A DICOM peer, asked by C-FIND and read by C-GET or C-MOVE."""

    dimse: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,16}@[A-Za-z0-9.-]+:[0-9]{1,5}$")]
    """Its AE title, host and port, as in PACS@pacs.example.org:104."""
    calling: AeTitle = "MEDSANITIZE"
    """The AE title to call it with, which it must know."""
    retrieve: Literal["get", "move"] = "get"
    """``get``: C-GET. ``move``: C-MOVE to ``calling``, which the peer must know by this machine's address and
    ``port``."""
    port: Port | None = None
    """With ``retrieve: move``: the port to receive at."""


def is_url(value: object) -> bool:
    """Whether a text is an address with a scheme."""
    return isinstance(value, str) and "://" in value
