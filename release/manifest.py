"""The manifest: one row per object and one row per patient, in Parquet with page checksums.

Rows arrive ordered by pseudonym and are written one row group at a time, so memory does not grow with the
release. Equal rows give equal bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from medsanitize.errors import IntegrityError
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.manifest_file import column, read_batches, with_metadata, write_table
from medsanitize.sanitize.result import CheckResult

ORDER: Final = ("patient", "study", "series", "instance")
_HEX: Final = re.compile(r"[0-9a-f]{64}")


_COUNT = "Number of attributes {}."
_CHECK = "{} One of: passed, flagged, not_run, not_applicable."

OBJECT_SCHEMA: Final = pa.schema(
    [
        column("object_id", pa.string(), "Keyed pseudonym of the object, unique in the release."),
        column(
            "path",
            pa.string(),
            "Path of the released file (for a multi-file object, the main file), relative to the release,"
            " with forward slashes.",
        ),
        column(
            "kind",
            pa.string(),
            "Kind of object: dicom, raster (a PNG, JPEG or TIFF file) or slide (not DICOM).",
        ),
        column("modality", pa.string(), "Modality (0008,0060), SM for slides; empty when none is stated."),
        column("sop_class", pa.string(), "SOP Class UID; empty for raster files and slides."),
        column("transfer_syntax", pa.string(), "Transfer Syntax UID; empty for raster files and slides."),
        column("patient", pa.string(), "Pseudonym of the patient."),
        column("study", pa.string(), "Pseudonymous Study Instance UID."),
        column("series", pa.string(), "Pseudonymous Series Instance UID."),
        column(
            "instance",
            pa.string(),
            "Pseudonymous SOP Instance UID; for raster files and slides a generated UID.",
        ),
        column(
            "bytes",
            pa.int64(),
            "Size of the released file in bytes; for a multi-file object the sum of its files.",
        ),
        column(
            "sha256",
            pa.string(),
            "SHA-256 of the released file, hexadecimal. For a multi-file object, SHA-256 of a list with one"
            " line per file, ordered by name: SHA-256 of the file, two spaces, the file name after the"
            " object's name, line feed.",
        ),
        column(
            "parts",
            pa.string(),
            "For a multi-file object (a slide, or a synthetic image with a sidecar), a JSON list of its"
            " files, main file first: file name after the object's name, size in bytes, SHA-256.",
            nullable=True,
        ),
        column(
            "pixels_sha256",
            pa.string(),
            "SHA-256 of the decoded released pixels, hexadecimal.",
            nullable=True,
        ),
        column("rows", pa.int32(), "Rows of an image, in pixels.", nullable=True),
        column("columns", pa.int32(), "Columns of an image, in pixels.", nullable=True),
        column("frames", pa.int32(), "Number of frames.", nullable=True),
        column("actions_replaced", pa.int32(), _COUNT.format("replaced by a dummy value (D)")),
        column("actions_emptied", pa.int32(), _COUNT.format("emptied (Z)")),
        column("actions_removed", pa.int32(), _COUNT.format("removed (X)")),
        column("actions_cleaned", pa.int32(), _COUNT.format("cleaned (C)")),
        column("actions_uid", pa.int32(), _COUNT.format("replaced by a new, consistent UID (U)")),
        column("actions_kept", pa.int32(), _COUNT.format("kept although a rule applies to them (K)")),
        column("rules", pa.string(), "JSON object: rule id to number of times the rule was applied."),
        column("pixel_regions_cleaned", pa.int32(), "Number of blanked pixel regions."),
        column("check_pixels", pa.string(), _CHECK.format("Burned-in text.")),
        column("check_faces", pa.string(), _CHECK.format("Faces that could be rendered or recognized.")),
        column(
            "check_identifiers",
            pa.string(),
            _CHECK.format("Search for known identifiers in the released bytes."),
        ),
        column("check_duplicates", pa.string(), _CHECK.format("Duplicates within the release.")),
        column("check_registry", pa.string(), _CHECK.format("Duplicates in earlier releases.")),
        column("check_overlap", pa.string(), _CHECK.format("The same patient in other releases.")),
        column("slide_vendor", pa.string(), "Vendor format of a whole-slide image.", nullable=True),
        column(
            "slide_levels",
            pa.string(),
            "Levels of a slide's pyramid, width x height in pixels, the largest first, separated by commas.",
            nullable=True,
        ),
        column("slide_mpp", pa.float64(), "Micrometers per pixel at the largest level.", nullable=True),
        column("slide_objective", pa.float64(), "Magnification of the objective.", nullable=True),
        column("slide_stain", pa.string(), "Stain, if it is a known one.", nullable=True),
        column("slide_sample", pa.string(), "Pseudonym of the primary sample.", nullable=True),
        column("slide_block", pa.string(), "Pseudonym of the block cut from the sample.", nullable=True),
        column("slide_section", pa.string(), "Pseudonym of the section of the block.", nullable=True),
        column("slide_scanner", pa.string(), "Pseudonym of the scanner.", nullable=True),
        column(
            "slide_macros",
            pa.string(),
            "SHA-256 of the macro image, if it is kept (its label area is blanked); for AFI, of each file's"
            " macro image.",
            nullable=True,
        ),
        column("synthetic", pa.bool_(), "Whether the image is synthetic."),
        column("model_digest", pa.string(), "SHA-256 of the generator of a synthetic image.", nullable=True),
        column(
            "match_bound",
            pa.float64(),
            "Upper bound of the share of the generator's images that match a training patient, before these"
            " were removed.",
            nullable=True,
        ),
        column(
            "residual_bound",
            pa.float64(),
            "Upper bound of the share of copies of training images among the synthetic images that are left.",
            nullable=True,
        ),
        column(
            "gate_verdict",
            pa.string(),
            "Verdict of the privacy gate on a synthetic image.",
            nullable=True,
        ),
        column(
            "synthetic_label", pa.string(), "Class label a synthetic image was generated for.", nullable=True
        ),
    ]
)

PATIENT_SCHEMA: Final = pa.schema(
    [
        column("patient", pa.string(), "Pseudonym of the patient."),
        column("studies", pa.int32(), "Number of released studies."),
        column("series", pa.int32(), "Number of released series."),
        column("objects", pa.int64(), "Number of released objects."),
        column("bytes", pa.int64(), "Total size of the released files in bytes."),
        column("modalities", pa.string(), "Modalities, sorted, separated by commas."),
    ]
)


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """A released object; `OBJECT_SCHEMA` documents every field.

    ``rules`` is canonical JSON (`canonical_json`) of rule id -> count.
    """

    object_id: str
    path: str
    kind: str
    modality: str
    sop_class: str
    transfer_syntax: str
    patient: str
    study: str
    series: str
    instance: str
    bytes: int
    sha256: str
    parts: str | None = None
    pixels_sha256: str | None = None
    rows: int | None = None
    columns: int | None = None
    frames: int | None = None
    actions_replaced: int = 0
    actions_emptied: int = 0
    actions_removed: int = 0
    actions_cleaned: int = 0
    actions_uid: int = 0
    actions_kept: int = 0
    rules: str = "{}"
    pixel_regions_cleaned: int = 0
    check_pixels: CheckResult = CheckResult.NOT_RUN
    check_faces: CheckResult = CheckResult.NOT_RUN
    check_identifiers: CheckResult = CheckResult.NOT_RUN
    check_duplicates: CheckResult = CheckResult.NOT_RUN
    check_registry: CheckResult = CheckResult.NOT_RUN
    check_overlap: CheckResult = CheckResult.NOT_RUN
    slide_vendor: str | None = None
    slide_levels: str | None = None
    slide_mpp: float | None = None
    slide_objective: float | None = None
    slide_stain: str | None = None
    slide_sample: str | None = None
    slide_block: str | None = None
    slide_section: str | None = None
    slide_scanner: str | None = None
    slide_macros: str | None = None
    synthetic: bool = False
    model_digest: str | None = None
    match_bound: float | None = None
    residual_bound: float | None = None
    gate_verdict: str | None = None
    synthetic_label: str | None = None


@dataclass(frozen=True, slots=True)
class PatientRow:
    """A pseudonymous patient; `PATIENT_SCHEMA` documents every field."""

    patient: str
    studies: int
    series: int
    objects: int
    bytes: int
    modalities: str


def write_objects(
    rows: Iterable[ObjectRow],
    folder: Path,
    *,
    metadata: Mapping[str, str],
    rows_per_file: int = 1_000_000,
) -> tuple[Path, ...]:
    """Write ``manifest/objects.parquet``, or numbered part files if there are many rows.

    Parameters
    ----------
    rows : iterable of ObjectRow
        Ordered by patient, study, series, instance and path; consumed once, one row group at a time.
    folder : Path
        Root of the (staged) release. An earlier object manifest is replaced.
    metadata : mapping
        Added to the file metadata, next to ``schema_version``: policy digest, tool version.
    rows_per_file : int
        Maximum number of rows per part file.

    Returns
    -------
    tuple of Path
        The files, in order.

    Raises
    ------
    IntegrityError
        Rows are out of order or repeated, or contain an unsafe path or malformed digest.
    EnvironmentFailure
        The disk is full or fails.
    """
    target = folder / layout.MANIFEST
    schema = with_metadata(OBJECT_SCHEMA, metadata)
    checked = _checked(rows)
    written: list[Path] = []
    with storage_errors():
        target.mkdir(parents=True, exist_ok=True)
        # A shorter earlier manifest would otherwise leave its last parts behind.
        for stale in layout.object_manifests(folder):
            stale.unlink()
        # An empty release has a manifest too, with no rows.
        while (first := next(checked, None)) is not None or not written:
            part = target / f"objects-{len(written):05d}.parquet"
            head = () if first is None else (first,)
            write_table(part, schema, _chain(head, islice(checked, rows_per_file - len(head))), ORDER)
            written.append(part)
            if first is None:
                break
        # A single part has no number in its name.
        if len(written) == 1:
            written = [written[0].replace(folder / layout.OBJECTS)]
    return tuple(written)


def read_policy_digest(release: Path) -> str:
    """Return the digest of the policy that a release states in its manifest; empty if it states none.

    Raises
    ------
    IntegrityError
        The manifest is missing or damaged.
    """
    parts = layout.object_manifests(release)
    try:
        stated = pq.read_schema(parts[0]).metadata or {}
    except (IndexError, OSError, pa.ArrowException):
        raise IntegrityError("The object manifest cannot be read", "Fetch the release again") from None
    return str(stated.get(b"policy_digest", b"").decode("ascii", "replace"))


def write_patients(rows: Iterable[PatientRow], folder: Path, *, metadata: Mapping[str, str]) -> Path:
    """Write ``manifest/patients.parquet`` from rows ordered by patient; raises as `write_objects`."""
    path = folder / layout.PATIENTS
    with storage_errors():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, with_metadata(PATIENT_SCHEMA, metadata), _ascending(rows), ("patient",))
    return path


def read_objects(folder: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Read the object manifest of a release in batches, verifying page checksums.

    Parameters
    ----------
    folder : Path
        Root of the release.
    columns : sequence of str, optional
        Columns to read; by default all.

    Raises
    ------
    IntegrityError
        A file is missing, truncated or of another schema, or a page does not match its checksum.
    """
    parts = layout.object_manifests(folder)
    if not parts:
        raise IntegrityError("The release has no object manifest", "Fetch the release again")
    for part in parts:
        yield from read_batches(part, OBJECT_SCHEMA, columns)


def read_rows(folder: Path) -> Iterator[ObjectRow]:
    """Read the object manifest of a release row by row."""
    for batch in read_objects(folder):
        for values in batch.to_pylist():
            checks = {name: CheckResult(value) for name, value in values.items() if name.startswith("check_")}
            yield ObjectRow(**{**values, **checks})


def count_patients(folder: Path) -> Iterator[PatientRow]:
    """Aggregate the object manifest of a release to one row per patient."""
    columns = ["patient", "study", "series", "bytes", "modality"]
    rows = (row for batch in read_objects(folder, columns) for row in batch.to_pylist())
    # groupby needs no sorting here: the manifest is ordered by patient.
    for patient, group in groupby(rows, key=lambda row: str(row["patient"])):
        studies: set[str] = set()
        series: set[tuple[str, str]] = set()
        modalities: set[str] = set()
        objects = size = 0
        for row in group:
            studies.add(row["study"])
            # Series UIDs are counted per study: a retained UID may occur in two studies.
            series.add((row["study"], row["series"]))
            modalities.add(row["modality"])
            objects += 1
            size += row["bytes"]
        names = ",".join(sorted(modalities - {""}))
        yield PatientRow(patient, len(studies), len(series), objects, size, names)


def _chain(head: Iterable[ObjectRow], tail: Iterable[ObjectRow]) -> Iterator[ObjectRow]:
    yield from head
    yield from tail


def _checked(rows: Iterable[ObjectRow]) -> Iterator[ObjectRow]:
    before: tuple[str, ...] = ()
    for row in rows:
        key = (row.patient, row.study, row.series, row.instance, row.path)
        # Strictly increasing, so that duplicates are rejected, too.
        if key <= before:
            raise IntegrityError("The rows of the manifest are not sorted", "Report this as a bug")
        before = key
        layout.require_safe(row.path)
        if not row.path.startswith(f"{layout.DATA}/"):
            raise IntegrityError("A released object is outside data/", "Report this as a bug")
        if not _HEX.fullmatch(row.sha256) or not _HEX.fullmatch(row.pixels_sha256 or "0" * 64):
            raise IntegrityError("A digest in the manifest is malformed", "Report this as a bug")
        yield row


def _ascending(rows: Iterable[PatientRow]) -> Iterator[PatientRow]:
    before = ""
    for row in rows:
        if row.patient <= before:
            raise IntegrityError("The rows of the manifest are not sorted", "Report this as a bug")
        before = row.patient
        yield row
