"""Folders of phantoms with patients, visits and a table, as training, evaluation and overlap read them.

Written as PNG files, or as DICOM objects of a made-up hospital with names and numbers planted in their
headers, which a release has to take out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UsageError
from medsanitize.generators.phantoms.chest import chest_phantom, chest_visit
from medsanitize.generators.phantoms.fields import stream
from medsanitize.generators.phantoms.tissue import tissue_phantom

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pydicom.dataset import Dataset

COLUMNS = ("file", "patient_id", "split", "view", "offset_days", "finding")
"""Columns of the table beside the images, by the names that the commands expect."""
_ROOT = "1.3.6.1.4.1.99999.8"
_DX = "1.2.840.10008.5.1.4.1.1.1.1"
_TEST = 3
_FAMILIES = (
    "Abernathy",
    "Bellweather",
    "Carradine",
    "Dunmore",
    "Eversleigh",
    "Farquhar",
    "Greenhalgh",
    "Holloway",
)
_GIVEN = ("Agnes", "Bertram", "Cecily", "Dorian", "Edith", "Felix", "Greta", "Hugo", "Ines", "Jasper", "Kit")


@dataclass(frozen=True, slots=True)
class Taken:
    """One image of a cohort: whose and when."""

    patient: int
    visit: int
    file: str
    split: str


def visits_of(patient: int, least: int, most: int, *, seed: int) -> int:
    """How many visits a patient has, ``least`` to ``most``."""
    return int(stream(seed, patient, 9).integers(least, most + 1))


def write_chests(
    folder: Path,
    patients: Sequence[int],
    *,
    visits: tuple[int, int] = (2, 4),
    first: int = 0,
    size: int = 256,
    seed: int = 0,
) -> Path:
    """Write radiographs of ``patients`` as 8-bit PNG files with a table ``labels.csv`` beside them.

    Parameters
    ----------
    folder : Path
        Made if it is not there; must be empty.
    patients : sequence of int
        Numbers of patients. Every third one is of the split ``test``, the others of ``train``.
    visits : (int, int)
        Fewest and most images of one patient.
    first : int
        Number of the first visit: cohorts of the same patients with other visits share people, not images.
    size, seed : int
        As of `chest_phantom`.

    Returns
    -------
    Path
        The table.

    Raises
    ------
    UsageError
        When the folder holds anything already.
    """
    _require_empty(folder)
    rows = []
    for taken in _taken(patients, visits, first, seed):
        state = chest_visit(taken.patient, taken.visit, seed=seed)
        path = folder / taken.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_png(chest_phantom(taken.patient, taken.visit, size=size, seed=seed)))
        row = (taken.file, taken.patient, taken.split, state.view, state.days, state.finding)
        rows.append(tuple(str(one) for one in row))
    return _table(folder, COLUMNS, rows)


def write_slides(
    folder: Path,
    patients: Sequence[int],
    *,
    sections: Sequence[int] = (0, 1, 30),
    scanners: Sequence[int] = (0,),
    size: int = 512,
    seed: int = 0,
) -> Path:
    """Write slides of one block of each patient as PNG files with a table ``labels.csv``.

    Parameters
    ----------
    folder, patients, size, seed
        As of `write_chests`.
    sections : sequence of int
        Which sections of the block, each scanned by each of ``scanners``.

    Returns
    -------
    Path
        The table; ``block``, ``section`` and ``scanner`` are columns of their own.

    Raises
    ------
    UsageError
        When the folder holds anything already.
    """
    _require_empty(folder)
    rows = []
    for patient in patients:
        for section in sections:
            for scanned in scanners:
                name = f"p{patient:04d}/s{section:03d}_{scanned}.png"
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_png(tissue_phantom(patient, 0, section, scanned, size=size, seed=seed)))
                rows.append((name, str(patient), _split(patient), "0", str(section), str(scanned)))
    return _table(folder, ("file", "patient_id", "split", "block", "section", "scanner"), rows)


def write_hospital(
    folder: Path,
    patients: Sequence[int],
    *,
    visits: tuple[int, int] = (1, 2),
    first: int = 0,
    size: int = 256,
    seed: int = 0,
) -> list[tuple[str, str, str]]:
    """Write radiographs as DICOM objects of a made-up hospital, names and numbers in their headers.

    Parameters are those of `write_chests`. Images are 12 bit, every fourth patient's MONOCHROME1.

    Returns
    -------
    list of (str, str, str)
        File, place and value of what was planted, for the holder.

    Raises
    ------
    UsageError
        When the folder holds anything already.
    """
    _require_empty(folder)
    planted = []
    for taken in _taken(patients, visits, first, seed):
        name = str(Path(taken.file).with_suffix(".dcm"))
        data_set = _object(taken, size, seed)
        buffer = BytesIO()
        data_set.save_as(buffer, enforce_file_format=True)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buffer.getvalue())
        for place, value in (("(0010,0010)", data_set.PatientName), ("(0010,0020)", data_set.PatientID)):
            planted.append((name, place, str(value)))
    return planted


def _taken(patients: Sequence[int], visits: tuple[int, int], first: int, seed: int) -> Iterator[Taken]:
    for patient in patients:
        for number in range(visits_of(patient, *visits, seed=seed)):
            name = f"p{patient:04d}/{first + number:02d}.png"
            yield Taken(patient, first + number, name, _split(patient))


def _split(patient: int) -> str:
    return "test" if patient % _TEST == _TEST - 1 else "train"


def _object(taken: Taken, size: int, seed: int) -> Dataset:
    """One digital radiograph with everything that a hospital writes about a person."""
    from datetime import date, timedelta

    import numpy as np
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import UID, ExplicitVRLittleEndian

    state = chest_visit(taken.patient, taken.visit, seed=seed)
    shown = chest_phantom(taken.patient, taken.visit, size=size, seed=seed)
    study = f"{_ROOT}.{seed}.{taken.patient}.{taken.visit}"
    ds = Dataset()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds.file_meta.MediaStorageSOPClassUID = ds.SOPClassUID = UID(_DX)
    ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPInstanceUID = UID(f"{study}.1.1")
    ds.StudyInstanceUID, ds.SeriesInstanceUID = study, f"{study}.1"
    number = taken.patient
    ds.PatientName = f"{_FAMILIES[number % len(_FAMILIES)]}^{_GIVEN[number % len(_GIVEN)]}^{_roman(number)}"
    ds.PatientID, ds.IssuerOfPatientID = f"PH-{seed:02d}{number:05d}", "PHANTOM-HOSPITAL"
    ds.PatientBirthDate = f"{1930 + number % 60}{1 + number % 12:02d}{1 + number % 28:02d}"
    ds.PatientSex, ds.Modality, ds.BodyPartExamined = "FM"[number % 2], "DX", "CHEST"
    day = date(2015, 1, 1) + timedelta(days=number % 365 + state.days)
    ds.StudyDate = ds.SeriesDate = ds.AcquisitionDate = ds.ContentDate = day.strftime("%Y%m%d")
    ds.StudyTime = ds.AcquisitionTime = ds.ContentTime = "101500"
    ds.StudyID, ds.SeriesNumber, ds.InstanceNumber = str(taken.visit + 1), 1, 1
    ds.AccessionNumber, ds.ReferringPhysicianName = f"ACC{number:05d}{taken.visit:02d}", "Pemberton^Alistair"
    ds.ViewPosition, ds.ImageLaterality, ds.PatientOrientation = state.view, "U", ["L", "F"]
    ds.ImageType, ds.PresentationIntentType = ["ORIGINAL", "PRIMARY", ""], "FOR PRESENTATION"
    ds.BurnedInAnnotation, ds.LossyImageCompression, ds.AcquisitionContextSequence = "NO", "00", []
    ds.PixelIntensityRelationship = "LOG"
    ds.RescaleIntercept, ds.RescaleSlope, ds.RescaleType = "0", "1", "US"
    ds.WindowCenter, ds.WindowWidth = "2048", "4096"
    inverted = number % 4 == 3
    ds.PixelIntensityRelationshipSign = -1 if inverted else 1
    ds.PresentationLUTShape = "INVERSE" if inverted else "IDENTITY"
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME1" if inverted else "MONOCHROME2"
    ds.Rows = ds.Columns = size
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
    values = np.rint((1 - shown if inverted else shown) * 4095).astype("<u2")
    ds.PixelData = values.tobytes()
    ds["PixelData"].VR = "OW"
    return ds


def _roman(number: int) -> str:
    """A third name of letters alone, so that no two patients share all three."""
    return "".join("ABCDEFGHIJ"[int(digit)] for digit in str(number)).capitalize()


# -- files ------------------------------------------------------------------------------------


def _require_empty(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise UsageError("The folder for the phantoms is not empty", "Name a new folder")
    folder.mkdir(parents=True, exist_ok=True)


def _png(picture: NDArray[Any]) -> bytes:
    import numpy as np
    from PIL import Image

    if picture.dtype != np.uint8:
        picture = np.rint(picture * 255).astype(np.uint8)
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def _table(folder: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    path = folder / "labels.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return path
