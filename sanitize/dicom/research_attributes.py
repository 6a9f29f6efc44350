"""What the rewritten header of an object says about patient, acquisition and image, for the manifest."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from io import BytesIO
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from medsanitize.sanitize.dicom.assemble import elements_of
from medsanitize.sanitize.dicom.patient_characteristics import years_of
from medsanitize.sanitize.formats.dicom.charset import decode_text
from medsanitize.sanitize.formats.dicom.transfer_syntax import Layout

if TYPE_CHECKING:
    from pydicom import Dataset

Value = str | float | int

TEXTS: Final[Mapping[int, str]] = MappingProxyType(
    {
        0x00080008: "ImageType",
        0x00080020: "StudyDate",
        0x00080070: "Manufacturer",
        0x00081030: "StudyDescription",
        0x0008103E: "SeriesDescription",
        0x00081090: "ManufacturerModelName",
        0x00100040: "PatientSex",
        0x00101010: "PatientAge",
        0x00180010: "ContrastBolusAgent",
        0x00180015: "BodyPartExamined",
        0x00180020: "ScanningSequence",
        0x00180021: "SequenceVariant",
        0x00180023: "MRAcquisitionType",
        0x00181030: "ProtocolName",
        0x00181210: "ConvolutionKernel",
        0x00185100: "PatientPosition",
        0x00185101: "ViewPosition",
        0x00200060: "Laterality",
        0x00200062: "ImageLaterality",
        0x00280004: "PhotometricInterpretation",
    }
)
"""Columns of text. Several values are separated by a backslash, as DICOM encodes them."""
DECIMALS: Final[Mapping[int, str]] = MappingProxyType(
    {
        0x00180050: "SliceThickness",
        0x00180060: "KVP",
        0x00180080: "RepetitionTime",
        0x00180081: "EchoTime",
        0x00180082: "InversionTime",
        0x00180087: "MagneticFieldStrength",
        0x00180088: "SpacingBetweenSlices",
        0x00181314: "FlipAngle",
    }
)
"""Columns of numbers (DS): the first value."""
INTEGERS: Final[Mapping[int, str]] = MappingProxyType(
    {
        0x00181150: "ExposureTime",
        0x00181151: "XRayTubeCurrent",
        0x00200011: "SeriesNumber",
        0x00200013: "InstanceNumber",
    }
)
"""Columns of whole numbers (IS)."""
CODES: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        0x00081032: ("ProcedureCodeSequence", "ProcedureCode"),
        0x00082218: ("AnatomicRegionSequence", "AnatomicRegionCode"),
        0x00540220: ("ViewCodeSequence", "ViewCode"),
    }
)
"""Sequences and columns of coded concepts: scheme and value of the first item, separated by a colon."""
AGE: Final = "PatientAgeYears"
SPACINGS: Final = ("PixelSpacingRow", "PixelSpacingColumn")
"""Distances in mm between the centers of adjacent rows and of adjacent columns (PS3.3 10.7.1.3)."""

_CHARSET, _AGE, _PIXEL_SPACING, _IMAGER_PIXEL_SPACING = 0x00080005, 0x00101010, 0x00280030, 0x00181164
_FUNCTIONAL_GROUPS = 0x52009229
_SEQUENCES = frozenset([*CODES, _FUNCTIONAL_GROUPS])
_VALUES = frozenset([*TEXTS, *DECIMALS, *INTEGERS, _CHARSET, _PIXEL_SPACING, _IMAGER_PIXEL_SPACING])
# Longer texts are no terms that anybody would group by, and would fill the manifest.
_MOST_CHARACTERS = 256
_INT32 = 2**31
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def research_attributes(out: list[bytes], layout: Layout) -> dict[str, Value]:
    """Return the columns that the rewritten elements of an object give, ordered by name.

    Parameters
    ----------
    out : list of bytes
        The rewritten elements in ascending order of their tags. Only they are read, so that nothing is
        returned that is not in the released object.
    layout : Layout

    Returns
    -------
    dict of str to str, float or int
        Absent and malformed values are left out.
    """
    values = elements_of(out, layout, _VALUES)
    plain = {tag: chunk[start:] for tag, (chunk, start) in values.items()}
    nested = elements_of(out, layout, _SEQUENCES)
    sequences = _read([values.get(_CHARSET), *nested.values()], layout) if nested else None
    columns = _texts(plain) | _measures(plain) | _spacing(plain, sequences) | _codes(sequences)
    return dict(sorted(columns.items()))


def _texts(plain: Mapping[int, bytes]) -> dict[str, Value]:
    charset, columns = plain.get(_CHARSET, b""), dict[str, Value]()
    for tag, name in TEXTS.items():
        text = decode_text(plain.get(tag, b""), charset).strip(" \0")
        if 0 < len(text) <= _MOST_CHARACTERS:
            columns[name] = text
    years = years_of(plain.get(_AGE, b"").decode("latin-1").strip(" \0"))
    return columns if years is None else {**columns, AGE: years}


def _measures(plain: Mapping[int, bytes]) -> dict[str, Value]:
    columns: dict[str, Value] = {}
    for tag, name in (*DECIMALS.items(), *INTEGERS.items()):
        number = next(iter(_numbers(plain.get(tag, b""))), None)
        if number is not None and tag in DECIMALS:
            columns[name] = number
        elif number is not None and number.is_integer() and abs(number) < _INT32:
            columns[name] = int(number)
    return columns


def _numbers(value: bytes) -> list[float]:
    """Return the values of a DS or IS; none if one of them is no number."""
    parts = [part.strip(b" \0") for part in value.split(b"\\")]
    # Not float() alone: it reads "nan", "inf" and "1_0" as well.
    numbers = [float(part) for part in parts if _NUMBER.fullmatch(part)]
    return numbers if len(numbers) == len(parts) and all(map(isfinite, numbers)) else []


def _spacing(plain: Mapping[int, bytes], sequences: Dataset | None) -> dict[str, Value]:
    spacing = _numbers(plain.get(_PIXEL_SPACING, b"")) or _numbers(plain.get(_IMAGER_PIXEL_SPACING, b""))
    if not spacing and sequences is not None:
        groups = _first(sequences, "SharedFunctionalGroupsSequence")
        measures = _first(groups, "PixelMeasuresSequence")
        spacing = _numbers("\\".join(map(str, measures.get("PixelSpacing") or ())).encode("ascii"))
    return dict(zip(SPACINGS, spacing, strict=True)) if len(spacing) == len(SPACINGS) else {}


def _codes(sequences: Dataset | None) -> dict[str, Value]:
    columns: dict[str, Value] = {}
    if sequences is None:
        return columns
    for keyword, name in CODES.values():
        code = _first(sequences, keyword)
        scheme, value = (str(code.get(word) or "") for word in ("CodingSchemeDesignator", "CodeValue"))
        if scheme and value:
            columns[name] = f"{scheme}:{value}"
    return columns


def _first(data_set: Dataset, keyword: str) -> Dataset:
    """Return the first item of a sequence; an empty data set if there is none."""
    from pydicom import Dataset

    items = data_set.get(keyword)
    return items[0] if items else Dataset()


def _read(elements: Iterable[tuple[bytes, int] | None], layout: Layout) -> Dataset | None:
    """Read encoded elements with pydicom; None if it cannot."""
    from pydicom.filereader import read_dataset

    encoded = BytesIO(b"".join(one[0] for one in elements if one))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydicom's quote values
        try:
            data_set = read_dataset(encoded, not layout.explicit, not layout.big)
            data_set.walk(lambda *_: None)  # pydicom converts a value when it is first asked for
        except Exception:  # noqa: BLE001  an absent column says nothing wrong, whatever ended the reading
            return None
    return data_set
