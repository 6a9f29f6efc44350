"""The research index: what the released headers say about patients, acquisitions and images, by object.

Columns have the names of DICOM's attributes (PS3.6), as in the index of the Imaging Data Commons (idc-index).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.manifest import ObjectRow
from medsanitize.release.manifest_file import column, with_metadata, write_table

Row = Mapping[str, str | int | float | None]

# The order of the object manifest.
_ORDER: Final = ("PatientID", "StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID")


def _text(name: str, description: str) -> Any:
    return column(name, pa.string(), description, nullable=True)


def _number(name: str, description: str) -> Any:
    return column(name, pa.float64(), description, nullable=True)


def _count(name: str, description: str) -> Any:
    return column(name, pa.int32(), description, nullable=True)


INDEX_SCHEMA: Final = pa.schema(
    [
        column("object_id", pa.string(), "As in the object manifest."),
        column("path", pa.string(), "Path of the released file, relative to the release."),
        column("kind", pa.string(), "As in the object manifest: dicom, raster or slide."),
        column("PatientID", pa.string(), "Pseudonym of the patient."),
        column("StudyInstanceUID", pa.string(), "Pseudonymous UID of the study."),
        column("SeriesInstanceUID", pa.string(), "Pseudonymous UID of the series."),
        column("SOPInstanceUID", pa.string(), "Pseudonymous UID of the object."),
        column("SOPClassUID", pa.string(), "SOP class; empty for raster files and slides."),
        column("TransferSyntaxUID", pa.string(), "Transfer syntax; empty for raster files and slides."),
        column("Modality", pa.string(), "Modality; empty when none is stated."),
        column("instance_size", pa.int64(), "Size of the released object in bytes."),
        _count("Rows", "Rows of an image, in pixels."),
        _count("Columns", "Columns of an image, in pixels."),
        _count("NumberOfFrames", "Number of frames."),
        _text("PatientAge", "Age as released, such as 045Y."),
        _count("PatientAgeYears", "PatientAge in whole years."),
        _text("PatientSex", "Sex as released."),
        _text("StudyDate", "Date of the study as released: shifted, or only its year, as the policy says."),
        _text("StudyDescription", "Description of the study after cleaning."),
        _text("SeriesDescription", "Description of the series after cleaning."),
        _text("ProtocolName", "Name of the protocol after cleaning."),
        _count("SeriesNumber", "Number of the series."),
        _count("InstanceNumber", "Number of the object in its series."),
        _text("BodyPartExamined", "Body part."),
        _text("AnatomicRegionCode", "Code of the anatomic region, with its scheme: SCT:51185008."),
        _text("Laterality", "Side of the body, of the series."),
        _text("ImageLaterality", "Side of the body, of the image."),
        _text("ViewPosition", "Direction of the view of a radiograph, such as PA."),
        _text("ViewCode", "Code of the view, with its scheme."),
        _text("PatientPosition", "Position of the patient in the scanner, such as HFS."),
        _text("ProcedureCode", "Code of the procedure, with its scheme, such as RADLEX or LN (LOINC)."),
        _text("Manufacturer", "Maker of the device."),
        _text("ManufacturerModelName", "Model of the device."),
        _text("ImageType", "Image Type; its values are separated by backslashes."),
        _text("PhotometricInterpretation", "Meaning of the samples, such as MONOCHROME2."),
        _number("PixelSpacingRow", "Distance of the centers of adjacent rows in mm."),
        _number("PixelSpacingColumn", "Distance of the centers of adjacent columns in mm."),
        _number("SliceThickness", "Thickness of a slice in mm."),
        _number("SpacingBetweenSlices", "Distance of adjacent slices in mm."),
        _text("ContrastBolusAgent", "Contrast agent."),
        _number("KVP", "Peak voltage of the X-ray generator in kV."),
        _count("XRayTubeCurrent", "Current of the X-ray tube in mA."),
        _count("ExposureTime", "Time of X-ray exposure in ms."),
        _text("ConvolutionKernel", "Kernel of the reconstruction."),
        _number("MagneticFieldStrength", "Field strength of the magnet in tesla."),
        _text("MRAcquisitionType", "2D or 3D."),
        _text("ScanningSequence", "Kind of MR sequence, such as SE or GR."),
        _text("SequenceVariant", "Variant of the MR sequence."),
        _number("RepetitionTime", "Repetition time in ms."),
        _number("EchoTime", "Echo time in ms."),
        _number("InversionTime", "Inversion time in ms."),
        _number("FlipAngle", "Flip angle in degrees."),
    ]
)
"""Columns of the research index. Of an object that is not DICOM, those of the header are null."""


SAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        "object_id": "object_id",
        "path": "path",
        "kind": "kind",
        "PatientID": "patient",
        "StudyInstanceUID": "study",
        "SeriesInstanceUID": "series",
        "SOPInstanceUID": "instance",
        "SOPClassUID": "sop_class",
        "TransferSyntaxUID": "transfer_syntax",
        "Modality": "modality",
        "instance_size": "bytes",
        "Rows": "rows",
        "Columns": "columns",
        "NumberOfFrames": "frames",
    }
)
"""Columns that the object manifest has as well, and their names there; the others are of the header."""


def index_row(row: ObjectRow, described: Row) -> Row:
    """Return the row of an object: what the manifest says of it, and what its header says."""
    return {**described, **{name: getattr(row, column) for name, column in SAME.items()}}


def write_index(rows: Iterator[Row], folder: Path, *, metadata: Mapping[str, str]) -> Path:
    """Write ``manifest/index.parquet``, one row group at a time.

    Parameters
    ----------
    rows : iterator of Row
        Values by column, in the order of the object manifest; a missing column is null.
    folder : Path
        Root of the staged release.
    metadata : mapping
        Added to the file metadata.

    Raises
    ------
    EnvironmentFailure
        The disk is full or fails.
    """
    path = folder / layout.INDEX
    with storage_errors():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, with_metadata(INDEX_SCHEMA, metadata), rows, _ORDER, _value)
    return path


def _value(row: Row, name: str) -> str | int | float | None:
    return row.get(name)
