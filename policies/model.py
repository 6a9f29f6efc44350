"""The policy: frozen pydantic models, one a section. Paths are absolute once loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Action = Literal["D", "Z", "X", "K", "C", "U"]
"""Actions of PS3.15 Table E.1-1a."""

PresetName = Literal["ps3.15-basic", "research", "hipaa-safe-harbor"]
Verdict = Literal["ignore", "flag", "drop", "quarantine", "fail"]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


class Section(BaseModel):
    """Base of every section: frozen, unknown keys refused, no coercion between types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Contact(Section):
    """A person or office a reader of the release may turn to."""

    name: str
    email: str | None = None
    url: str | None = None


class Release(Section):
    """What the release is called and what is said of it in public."""

    name: Slug
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}$")]
    mode: Literal["pseudonymous", "anonymous"]
    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    description: str | None = None
    creator: Contact | None = None
    license: str | None = None
    contact: Contact | None = None
    ethics: str | None = None
    approve: Literal["required", "not required"] = "not required"


class Keys(Section):
    """Where the release key comes from: exactly one of file, env and command."""

    file: Path | None = None
    env: str | None = None
    command: tuple[str, ...] | None = None
    scope: Literal["release", "project"] = "release"
    signing: Path | None = None


class Pseudonyms(Section):
    """What pseudonyms look like. ``table`` is a CSV with columns ``patient_id,pseudonym``."""

    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{0,24}$")] = ""
    table: Path | None = None
    uid_root: Annotated[str, StringConstraints(pattern=r"^[0-2](\.(0|[1-9][0-9]*))+$", max_length=24)] | None = None


class Options(Section):
    """The options of PS3.15 E.3, by the code that states them (CID 7050)."""

    clean_pixel_data: bool = False  # 113101
    clean_recognizable_visual_features: bool = False  # 113102
    clean_graphics: bool = False  # 113103
    clean_structured_content: bool = False  # 113104
    clean_descriptors: bool = False  # 113105
    retain_longitudinal_full_dates: bool = False  # 113106
    retain_longitudinal_modified_dates: bool = False  # 113107
    retain_patient_characteristics: bool = False  # 113108
    retain_device_identity: bool = False  # 113109
    retain_uids: bool = False  # 113110
    retain_safe_private: bool = False  # 113111
    retain_institution_identity: bool = False  # 113112


class Dates(Section):
    """How dates that an option keeps are changed.

    ``shift``: one whole-day shift per patient. ``year``: only the year stays (1 January).
    ``keep_weekday`` makes every shift a multiple of seven days, which narrows the search for it.
    """

    method: Literal["shift", "year"] = "shift"
    keep_weekday: bool = False
    times: Literal["keep", "remove"] = "keep"


class PrivateAttribute(Section):
    """One private attribute that is safe, named by its creator, never by its block."""

    creator: str
    group: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{3}[13579BDFbdf]$")]
    element: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{2}$")]
    vr: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")]


class Limits(Section):
    """Where an object is refused instead of read: bytes, sequence depth, number of elements."""

    object_bytes: Annotated[int, Field(gt=0)] = 64 * 2**30
    inflated_bytes: Annotated[int, Field(gt=0)] = 512 * 2**20
    header_bytes: Annotated[int, Field(gt=0)] = 256 * 2**20
    depth: Annotated[int, Field(gt=0, le=200)] = 64
    elements: Annotated[int, Field(gt=0)] = 1_000_000


class Dicom(Section):
    """How DICOM objects are treated."""

    options: Options = Options()
    dates: Dates = Dates()
    attributes: dict[str, Action] = Field(default_factory=dict)
    safe_private: tuple[PrivateAttribute, ...] = ()
    limits: Limits = Limits()


class Pixels(Section):
    """What happens to an object at risk of burned-in text while its pixels are not cleaned."""

    at_risk: Literal["release", "quarantine"] = "quarantine"


class Deduplicate(Section):
    """What happens to an object that is there twice, within the release and in the registry."""

    bytes: Verdict = "drop"
    pixels: Verdict = "flag"
    registry: Verdict = "flag"


class Table(Section):
    """An accompanying table. Columns not named here are dropped."""

    name: Slug
    file: Path
    patient: str
    issuer: str | None = None
    study: str | None = None
    instance: str | None = None
    accession: str | None = None
    dates: tuple[str, ...] = ()
    ages: tuple[str, ...] = ()
    zip_codes: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


class Registry(Section):
    """The registry of earlier releases; releases named in ``public`` may be named in manifests."""

    path: Path | None = None
    public: tuple[str, ...] = ()


class Engine(Section):
    """Who does the work."""

    workers: Annotated[int, Field(ge=1, le=1024)] | None = None


class Policy(Section):
    """A whole policy, preset applied, paths absolute."""

    version: Literal[1]
    preset: PresetName
    release: Release
    inputs: tuple[Path, ...]
    output: Path
    state: Path
    keys: Keys
    exclude: Path | None = None
    tables: tuple[Table, ...] = ()
    registry: Registry = Registry()
    pseudonyms: Pseudonyms = Pseudonyms()
    dicom: Dicom = Dicom()
    pixels: Pixels = Pixels()
    deduplicate: Deduplicate = Deduplicate()
    engine: Engine = Engine()
