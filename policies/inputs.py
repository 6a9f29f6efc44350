"""Inputs other than folders: DICOMweb services, DIMSE peers and object store URLs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from medsanitize.policies.base import EnvName, Section, Text
from pydantic import Field, StringConstraints

OBJECT_STORES: Final = ("s3", "gs", "abfs")
"""Schemes that can be read and written."""
STORES: Final = (*OBJECT_STORES, "https", "http")
"""Schemes that can be read."""
LONGEST_ADDRESS: Final = 2000
StoreUrl = Annotated[str, StringConstraints(pattern=r"^(s3|gs|abfs|https?)://", max_length=LONGEST_ADDRESS)]
"""Address in a store; any other text is a local path."""

# AE titles have at most 16 characters (PS3.5 6.2).
AeTitle = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,16}$")]
Port = Annotated[int, Field(ge=1, le=65535)]

STUDY_KEYS = frozenset(
    "AccessionNumber IssuerOfPatientID ModalitiesInStudy PatientBirthDate PatientID PatientName PatientSex"
    " ReferringPhysicianName StudyDate StudyDescription StudyID StudyInstanceUID StudyTime".split()
)
"""Keywords that select studies (PS3.4 tables C.6-5 and 10.6.1-5, and common extensions of archives)."""
SERIES_KEYS = frozenset(
    "BodyPartExamined Modality SeriesDate SeriesDescription SeriesInstanceUID SeriesNumber".split()
)
"""Keywords that select series within these studies."""


class StudyQuery(Section):
    """Which studies of a PACS are read. At least one of ``worklist`` and ``query`` is required."""

    worklist: Path | None = None
    """CSV with one column, ``AccessionNumber`` or ``StudyInstanceUID``: the studies to read. Studies that the
    PACS does not have are quarantined."""
    query: dict[str, Text] = Field(default_factory=dict)
    """DICOM keywords and the values they must match, as in C-FIND and QIDO-RS: a value, a value with * and ?,
    a range of dates (20240101-20241231) or times (0800-1159). Every response is compared with it. Together
    with a worklist it narrows the selection."""


class DicomWeb(StudyQuery):
    """A DICOMweb service, read by QIDO-RS and WADO-RS in the stored transfer syntax."""

    # No user or query in the URL: a policy must not contain credentials.
    dicomweb: Annotated[
        str, StringConstraints(pattern=r"^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~/-]*)?$")
    ]
    """URL of the service, as in https://pacs.example.org/dicom-web. Credentials require https."""
    token: EnvName | None = None
    """Name of the environment variable that contains a bearer token."""
    login: EnvName | None = None
    """Name of the environment variable that contains user:password."""


class Dimse(StudyQuery):
    """A DIMSE peer, queried by C-FIND and read by C-GET or C-MOVE."""

    dimse: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,16}@[A-Za-z0-9.-]+:[0-9]{1,5}$")]
    """AE title, host and port of the peer, as in PACS@pacs.example.org:104."""
    calling: AeTitle = "MEDSANITIZE"
    """AE title of this machine, which must be registered with the peer."""
    retrieve: Literal["get", "move"] = "get"
    """``get``: C-GET. ``move``: C-MOVE to ``calling``, which must be registered with the peer, with the
    address of this machine and ``port``."""
    port: Port | None = None
    """With ``retrieve: move``: the local port that receives objects."""


def is_url(value: object) -> bool:
    """Whether a value is a text with a URL scheme."""
    return isinstance(value, str) and "://" in value
