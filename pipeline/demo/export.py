"""A small synthetic hospital export, for a first run.

All persons are invented. The export has the problems of real ones: several patients with issuers, studies
days apart that refer to each other, names in nested sequences and private blocks, a name burned into an
ultrasound image, duplicates, compressed and multi-frame images, a screenshot, a photograph, a scanned sheet,
a slide, a DICOMDIR, files that are not images and damaged files. A table next to the export lists every
planted identifier.
"""

from __future__ import annotations

import csv
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.demo.images import CHEST, chest, draw, frames, marked, scan, set_pixels
from medsanitize.pipeline.demo.pictures import photograph, screenshot, sheet
from medsanitize.pipeline.demo.slide import slide
from medsanitize.pipeline.runtime.optional_dependencies import is_missing

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_ROOT: Final = "1.3.6.1.4.1.99999.7"
_CT: Final = "1.2.840.10008.5.1.4.1.1.2"
_MR: Final = "1.2.840.10008.5.1.4.1.1.4"
_DX: Final = "1.2.840.10008.5.1.4.1.1.1.1"
_US: Final = "1.2.840.10008.5.1.4.1.1.6.1"
_US_FRAMES: Final = "1.2.840.10008.5.1.4.1.1.3.1"
_SR: Final = "1.2.840.10008.5.1.4.1.1.88.11"
_RTSTRUCT: Final = "1.2.840.10008.5.1.4.1.1.481.3"
_DICOMDIR: Final = "1.2.840.10008.1.3.10"


@dataclass(frozen=True, slots=True)
class DemoExport:
    """Folder of the export, number of its files and patients, and the table of planted identifiers."""

    folder: Path
    planted: Path
    files: int
    patients: int


@dataclass(frozen=True, slots=True)
class _Patient:
    name: str
    id: str
    issuer: str
    birth: str
    sex: str
    address: str
    phone: str
    physician: str
    folder: str
    charset: str = "ISO_IR 100"


# All values are invented.
_PATIENTS: Final = (
    _Patient(
        *("Fairweather^Imogen^Rose", "MRN-4821377", "GENERAL-HOSPITAL", "19570311", "F"),
        *("14 Larkspur Crescent, Ashby Hollow", "+44 1632 960417", "Pemberton^Alistair^^Dr"),
        folder="FAIRWEATHER_IMOGEN_MRN-4821377",
    ),
    _Patient(
        *("Müller^Jörg", "MRN-7719024", "GENERAL-HOSPITAL", "19820729", "M"),
        *("Ahornweg 3, Kleinhausen", "+49 30 23125 881", "Pemberton^Alistair^^Dr"),
        folder="MUELLER_JOERG",
    ),
    _Patient(
        *("Okafor^Adaeze", "US-3350198", "GENERAL-HOSPITAL", "19940502", "F"),
        *("9 Tanglewood Mews, Ashby Hollow", "+44 1632 960588", "Lindqvist^Signe"),
        folder="OKAFOR",
    ),
    _Patient(
        *("Rossetti^Giulio", "MRN-9064412", "GENERAL-HOSPITAL", "19310825", "M"),
        *("Via dei Salici 27, Borgo Alto", "+39 055 0196 342", "Lindqvist^Signe"),
        folder="Rossetti, Giulio (1931)",
    ),
    _Patient(
        *("Yamada^Tarou=山田^太郎", "RT-6681250", "GENERAL-HOSPITAL", "19690214", "M"),
        *("2-11 Midorigaoka, Aoyama-cho", "+81 3 5550 0173", "Pemberton^Alistair^^Dr"),
        folder="YAMADA_TAROU",
        charset="\\ISO 2022 IR 87",
    ),
    _Patient(
        *("Castellanos^Ines", "MRN-4821377", "NORTH-CLINIC", "20011130", "F"),
        *("Calle del Olmo 88, Villanueva", "+34 926 555 0142", "Okonkwo^Ngozi"),
        folder="CASTELLANOS_INES",
    ),
)


@dataclass(slots=True)
class _Export:
    """The export under construction: its root, and rows (file, location, value) of planted identifiers."""

    root: Path
    planted: list[tuple[str, str, str]] = field(default_factory=list)
    files: int = 0

    def write(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.files += 1

    def add(self, name: str, data_set: Dataset, cut: int = 0) -> bytes:
        """Write one object without its last ``cut`` bytes, and record the identifiers in it."""
        stream = BytesIO()
        data_set.save_as(stream, enforce_file_format=True)
        # Cut after writing, so that the header is complete and the pixels are not.
        self.write(name, stream.getvalue()[: stream.tell() - cut])
        self.planted.extend((name, location, value) for location, value in _identifiers(data_set))
        return stream.getvalue()


def make_export(folder: Path) -> DemoExport:
    """Create the demo export in ``folder``, and the table of planted identifiers next to it.

    With the same versions of pydicom and Pillow, the bytes are always the same.

    Parameters
    ----------
    folder : Path
        A new or empty folder.

    Returns
    -------
    DemoExport
        Its paths and counts.

    Raises
    ------
    UsageError
        The folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError("The folder for the demo export is not empty", "Name a new folder")
    export = _Export(folder)
    _chest_ct(export, _PATIENTS[0])
    _brain_mr(export, _PATIENTS[1])
    _ultrasound(export, _PATIENTS[2])
    _chest_radiograph(export, _PATIENTS[3])
    _radiotherapy(export, _PATIENTS[4])
    _same_id_elsewhere(export, _PATIENTS[5])
    _pictures(export)
    _slide(export, _PATIENTS[3])
    _no_images(export)
    planted = folder.parent / "planted.csv"
    with planted.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("file", "location", "value"))
        rows.writerows(export.planted)
    return DemoExport(folder, planted, export.files, len(_PATIENTS))


# -- the patients ---------------------------------------------------------------------------


def _chest_ct(export: _Export, patient: _Patient) -> None:
    """Two studies 37 days apart, the second referring to the first, and one image twice."""
    earlier: list[Dataset] = []
    for study, date in ((1, "20230114"), (2, "20230220")):
        for number in (1, 2, 3):
            data_set = _from_wheel("CT_small.dcm", patient, _CT, study, 1, number, date)
            data_set.StudyDescription = f"CT CHEST {_family(patient).upper()} FOLLOW UP"
            data_set.BodyPartExamined = "CHEST"
            data_set.PixelData = marked(data_set.PixelData, study * 10 + number)
            if study == 2:
                _refer(data_set, earlier[number - 1])
            name = f"{patient.folder}/{date}_CT/IM{number:04d}.dcm"
            data = export.add(name, data_set)
            if study == 1:
                earlier.append(data_set)
            if (study, number) == (1, 2):
                # A byte-identical copy under another name, for the duplicate check.
                copy = f"{patient.folder}/{date}_CT/IM0002 (copy).dcm"
                export.write(copy, data)
                export.planted.extend((copy, location, value) for location, value in _identifiers(data_set))


def _brain_mr(export: _Export, patient: _Patient) -> None:
    """Uncompressed images without file suffixes, and the first one again with RLE compression."""
    from pydicom.uid import RLELossless

    for number in (1, 2):
        data_set = _from_wheel("MR_small.dcm", patient, _MR, 1, 1, number, "20230302")
        data_set.PixelData = marked(data_set.PixelData, number)
        export.add(f"{patient.folder}/MR/{number:08d}", data_set)
    squeezed = _from_wheel("MR_small.dcm", patient, _MR, 1, 2, 1, "20230302")
    squeezed.PixelData = marked(squeezed.PixelData, 1)
    # A generated UID would differ from run to run.
    squeezed.compress(RLELossless, generate_instance_uid=False)
    squeezed.SeriesDescription = "archive copy"
    export.add(f"{patient.folder}/MR/00000003", squeezed)
    later = _from_wheel("MR_small.dcm", patient, _MR, 2, 1, 4, "20230817")
    later.PixelData = marked(later.PixelData, 4)
    export.add(f"{patient.folder}/MR2/00000001", later)


def _ultrasound(export: _Export, patient: _Patient) -> None:
    """A still image with the patient's name and number in its pixels, and a loop of six frames."""
    still = _new(patient, _US, "US", 1, 1, 1, "20230405")
    pixels = scan(120, 200)
    text = f"{_family(patient)} {patient.id[-7:]}".upper()
    draw(pixels, text, 4, 4)
    set_pixels(still, pixels)
    still.ImageType = ["ORIGINAL", "PRIMARY"]
    still.BurnedInAnnotation = "YES"
    name = f"{patient.folder}/20230405_US/still.dcm"
    export.add(name, still)
    export.planted.append((name, "pixels", text))
    loop = _new(patient, _US_FRAMES, "US", 1, 1, 2, "20230405")
    set_pixels(loop, frames(6, 64, 96))
    loop.NumberOfFrames, loop.FrameTime, loop.FrameIncrementPointer = 6, "40", 0x00181063
    loop.ImageType = ["ORIGINAL", "PRIMARY"]
    loop.BurnedInAnnotation = "NO"
    export.add(f"{patient.folder}/20230405_US/loop.dcm", loop)


def _chest_radiograph(export: _Export, patient: _Patient) -> None:
    """Images of a patient over 89, and a report that contains names."""
    image = _radiograph(patient, 1, "20230509")
    export.add(f"{patient.folder}/DX/IM_1.dcm", image)
    export.add(f"{patient.folder}/SR/report.dcm", _report(patient, image))
    later = _radiograph(patient, 2, "20230615")
    export.add(f"{patient.folder}/DX/IM_2.dcm", later)


def _radiograph(patient: _Patient, study: int, date: str) -> Dataset:
    image = _new(patient, _DX, "DX", study, 1, 1, date)
    # Safe Harbor combines all ages over 89 (45 CFR 164.514(b)(2)).
    image.PatientAge = "091Y"
    set_pixels(image, chest(CHEST, study - 1))
    image.ImageType = ["ORIGINAL", "PRIMARY", ""]
    image.BodyPartExamined, image.ViewPosition, image.ImageLaterality = "CHEST", "PA", "U"
    image.PresentationIntentType, image.BurnedInAnnotation = "FOR PRESENTATION", "NO"
    image.PixelIntensityRelationship, image.PixelIntensityRelationshipSign = "LIN", 1
    image.RescaleIntercept, image.RescaleSlope, image.RescaleType = "0", "1", "US"
    image.PresentationLUTShape, image.LossyImageCompression = "IDENTITY", "00"
    image.AcquisitionContextSequence = []
    return image


def _radiotherapy(export: _Export, patient: _Patient) -> None:
    """A planning CT and its structure set, with regions named after the patient."""
    image = _from_wheel("CT_small.dcm", patient, _CT, 1, 1, 1, "20230606")
    image.PixelData = marked(image.PixelData, 99)
    export.add(f"{patient.folder}/PLAN/CT.1.dcm", image)
    structures = _new(patient, _RTSTRUCT, "RTSTRUCT", 1, 2, 1, "20230606")
    structures.StructureSetLabel = _family(patient)
    structures.StructureSetDate, structures.StructureSetTime = "20230606", "101500"
    region, contour, observation = (_dataset() for _ in range(3))
    region.ROINumber, region.ReferencedFrameOfReferenceUID = 1, image.FrameOfReferenceUID
    region.ROIName, region.ROIGenerationAlgorithm = f"PTV {_family(patient)}", "MANUAL"
    contour.ReferencedROINumber = 1
    observation.ObservationNumber, observation.ReferencedROINumber = 1, 1
    observation.RTROIInterpretedType, observation.ROIInterpreter = "PTV", patient.physician
    structures.StructureSetROISequence = [region]
    structures.ROIContourSequence = [contour]
    structures.RTROIObservationsSequence = [observation]
    _refer(structures, image)
    export.add(f"{patient.folder}/PLAN/RS.1.dcm", structures)


def _same_id_elsewhere(export: _Export, patient: _Patient) -> None:
    """Another patient, with the first one's ID from another issuer; and a truncated file."""
    for number in (1, 2, 3):
        data_set = _from_wheel("CT_small.dcm", patient, _CT, 1, 1, number, "20230711")
        data_set.PixelData = marked(data_set.PixelData, 50 + number)
        export.add(f"{patient.folder}/CT{number}.dcm", data_set, cut=5000 if number == 3 else 0)


def _pictures(export: _Export) -> None:
    """A screenshot, a photograph and a scanned sheet, with identifiers in their metadata."""
    first, second, third = _PATIENTS[:3]
    name = first.name.replace("^", " ").upper()
    for path, (data, planted) in (
        (f"{first.folder}/screenshot.png", screenshot(name, first.id, first.physician)),
        (f"{second.folder}/IMG_0417.JPG", photograph("Brightwater^Tess")),
        (f"{third.folder}/scan 1.tif", sheet(third.name, third.id, third.physician)),
    ):
        export.write(path, data)
        export.planted.extend((path, location, value) for location, value in planted)


def _slide(export: _Export, patient: _Patient) -> None:
    """A whole-slide image, if the libraries for slides are installed."""
    if is_missing("wsi"):
        return
    path = f"{patient.folder}/S23-0417.svs"
    data, planted = slide(patient.name.replace("^", " "), "S23-0417-A", "pemberton.a")
    export.write(path, data)
    export.planted.extend((path, location, value) for location, value in planted)


def _no_images(export: _Export) -> None:
    """Files that are not images, as real exports contain them."""
    first = _PATIENTS[0]
    note = f"Export for research.\nAsk {first.physician} about {first.name}, {first.id}.\n"
    export.write("README.txt", note.encode())
    export.write("Thumbs.db", _thumbnails())
    export.write("empty.dcm", b"")
    directory = _dataset()
    directory.FileSetID = "HOSPITAL"
    directory.DirectoryRecordSequence = []
    for patient in _PATIENTS:
        record = _dataset()
        record.OffsetOfTheNextDirectoryRecord = record.OffsetOfReferencedLowerLevelDirectoryEntity = 0
        record.RecordInUseFlag, record.DirectoryRecordType = 0xFFFF, "PATIENT"
        record.SpecificCharacterSet = patient.charset.split("\\")
        record.PatientName, record.PatientID = patient.name, patient.id
        directory.DirectoryRecordSequence.append(record)
    _file_meta(directory, _DICOMDIR, f"{_ROOT}.0")
    export.add("DICOMDIR", directory)
    export.planted.extend(("README.txt", "file", value) for value in (first.physician, first.name, first.id))


def _thumbnails() -> bytes:
    """Create an OLE file (MS-CFB) with the empty index of thumbnails that Windows writes."""
    head = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16) + struct.pack("<4H", 0x3E, 3, 0xFFFE, 9)
    names = ("Root Entry", "Catalog")
    entries = (
        name.encode("utf-16-le").ljust(64, b"\0") + struct.pack("<H", 2 * len(name) + 2) for name in names
    )
    # The directory is the first sector of 512 bytes after the header.
    return head.ljust(512, b"\0") + b"".join(entry.ljust(128, b"\0") for entry in entries).ljust(512, b"\0")


# -- building objects -----------------------------------------------------------------------


def _dataset() -> Dataset:
    from pydicom.dataset import Dataset

    return Dataset()


def _family(patient: _Patient) -> str:
    return patient.name.split("^")[0]


def _uid(patient: _Patient, *parts: int) -> str:
    return ".".join(map(str, (_ROOT, _PATIENTS.index(patient) + 1, *parts)))


def _file_meta(data_set: Dataset, sop_class: str, instance: str) -> None:
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = sop_class  # type: ignore[assignment]
    meta.MediaStorageSOPInstanceUID = instance  # type: ignore[assignment]
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.SourceApplicationEntityTitle = "GENHOSP_CT1"
    data_set.file_meta = meta
    data_set.preamble = bytes(128)


def _from_wheel(
    name: str, patient: _Patient, sop_class: str, study: int, series: int, number: int, date: str
) -> Dataset:
    """Create an object of ``patient`` from one of pydicom's own test files."""
    from pydicom import dcmread
    from pydicom.data import get_testdata_file

    data_set = dcmread(str(get_testdata_file(name, download=False)))
    # The test files have identifiers of their own, which would not be listed as planted.
    data_set.remove_private_tags()
    for tag in [
        element.tag for element in data_set if element.VR in ("PN", "SQ") or element.tag >= 0xFFFC0000
    ]:
        del data_set[tag]
    for keyword in ("OtherPatientIDs", "AdditionalPatientHistory", "AcquisitionDate", "ContentDate"):
        if keyword in data_set:
            del data_set[keyword]
    _identify(data_set, patient, sop_class, str(data_set.Modality), (study, series, number), date)
    data_set.FrameOfReferenceUID = _uid(patient, study, 1000)
    data_set.ImageType = ["ORIGINAL", "PRIMARY", "OTHER" if sop_class == _MR else "AXIAL"]
    return data_set


def _new(
    patient: _Patient, sop_class: str, modality: str, study: int, series: int, number: int, date: str
) -> Dataset:
    data_set = _dataset()
    data_set.Manufacturer = "Acme Imaging"
    _identify(data_set, patient, sop_class, modality, (study, series, number), date)
    return data_set


def _identify(
    data_set: Dataset,
    patient: _Patient,
    sop_class: str,
    modality: str,
    position: tuple[int, int, int],
    date: str,
) -> None:
    """Write the patient's identifiers to every attribute where scanners and archives write them."""
    study, series, number = position
    _file_meta(data_set, sop_class, _uid(patient, study, series, number))
    # The preamble is free for applications, and some write identifiers into it.
    data_set.preamble = patient.id.encode("ascii").ljust(128, b"\0")
    data_set.SpecificCharacterSet = patient.charset.split("\\")
    data_set.SOPClassUID, data_set.SOPInstanceUID = sop_class, _uid(patient, study, series, number)
    data_set.StudyInstanceUID = _uid(patient, study)
    data_set.SeriesInstanceUID = _uid(patient, study, series, 0)
    data_set.Modality, data_set.SeriesNumber, data_set.InstanceNumber = modality, series, number
    data_set.StudyDate = data_set.SeriesDate = data_set.ContentDate = date
    data_set.StudyTime = data_set.SeriesTime = data_set.ContentTime = f"0{study}{series}{number:02d}00"[:6]
    data_set.AccessionNumber = f"ACC{_PATIENTS.index(patient) + 1}0{study}5537"
    data_set.StudyID = f"S{study}"
    data_set.PatientName, data_set.PatientID = patient.name, patient.id
    data_set.IssuerOfPatientID, data_set.PatientBirthDate = patient.issuer, patient.birth
    data_set.PatientSex, data_set.PatientAddress = patient.sex, patient.address
    data_set.PatientTelephoneNumbers = patient.phone
    data_set.ReferringPhysicianName = patient.physician
    data_set.OperatorsName = "Brightwater^Tess"
    data_set.InstitutionName = "Ashby Hollow General Hospital"
    data_set.InstitutionAddress = "1 Infirmary Road, Ashby Hollow"
    data_set.StationName = "AHGH-SCANNER-2"
    data_set.DeviceSerialNumber = "SN-55120-77"
    data_set.PatientComments = f"Call {_family(patient)} at {patient.phone}"
    data_set.RequestAttributesSequence = [_request(patient)]
    # An identifier in a private element, as vendors store them.
    block = data_set.private_block(0x0009, "ACME PATIENT 1.0", create=True)
    block.add_new(0x01, "LO", f"{_family(patient)} {patient.id}")
    inner = _dataset()
    inner.PatientName = patient.name
    block.add_new(0x02, "SQ", [inner])


def _request(patient: _Patient) -> Dataset:
    """A request that contains the patient's name two levels deep."""
    request, code = _dataset(), _dataset()
    request.RequestedProcedureID = patient.id
    request.RequestedProcedureDescription = f"For {_family(patient)}"
    request.ScheduledProcedureStepID = "STEP1"
    code.CodeValue, code.CodingSchemeDesignator = "LOCAL1", "99ASHBY"
    code.CodeMeaning = f"Routine {_family(patient)}"
    request.ScheduledProtocolCodeSequence = [code]
    return request


def _refer(data_set: Dataset, target: Dataset) -> None:
    reference = _dataset()
    reference.ReferencedSOPClassUID = target.SOPClassUID
    reference.ReferencedSOPInstanceUID = target.SOPInstanceUID
    data_set.ReferencedImageSequence = [reference]


def _report(patient: _Patient, image: Dataset) -> Dataset:
    """A Basic Text SR report."""
    report = _new(patient, _SR, "SR", 1, 2, 1, "20230509")
    report.CompletionFlag, report.VerificationFlag = "COMPLETE", "UNVERIFIED"
    report.ReferencedPerformedProcedureStepSequence = []
    report.PerformedProcedureCodeSequence = []
    report.ValueType, report.ContinuityOfContent = "CONTAINER", "SEPARATE"
    report.ConceptNameCodeSequence = [_concept("18748-4", "LN", "Diagnostic imaging report")]
    finding, reader = _dataset(), _dataset()
    finding.RelationshipType, finding.ValueType = "CONTAINS", "TEXT"
    finding.ConceptNameCodeSequence = [_concept("121071", "DCM", "Finding")]
    finding.TextValue = (
        f"{_family(patient)}, born {patient.birth}, lives at {patient.address}: lungs are clear."
    )
    reader.RelationshipType, reader.ValueType = "HAS OBS CONTEXT", "PNAME"
    reader.ConceptNameCodeSequence = [_concept("121008", "DCM", "Person Observer Name")]
    reader.PersonName = patient.physician
    report.ContentSequence = [reader, finding]
    _refer(report, image)
    return report


def _concept(value: str, scheme: str, meaning: str) -> Dataset:
    code = _dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = value, scheme, meaning
    return code


# -- the table of what was planted ----------------------------------------------------------


def _identifiers(data_set: Dataset) -> Iterator[tuple[str, str]]:
    """Yield location and value of every element that identifies a person, place or device."""
    patients = {patient.name for patient in _PATIENTS}
    told = {
        word
        for patient in _PATIENTS
        for word in (_family(patient), patient.id, patient.phone, patient.address)
    }
    if any(data_set.preamble or b""):
        yield "preamble", bytes(data_set.preamble or b"").rstrip(b"\0").decode("ascii")
    if "SourceApplicationEntityTitle" in data_set.file_meta:
        yield "(0002,0016)", str(data_set.file_meta.SourceApplicationEntityTitle)
    yield from _identifiers_in(data_set, "", patients | told)


_ALWAYS: Final = frozenset(
    [
        *("AccessionNumber", "PatientBirthDate", "StationName", "DeviceSerialNumber"),
        *("InstitutionName", "InstitutionAddress"),
        *("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID"),
        *("FrameOfReferenceUID", "ReferencedSOPInstanceUID"),
    ]
)


def _identifiers_in(data_set: Dataset, above: str, told: set[str]) -> Iterator[tuple[str, str]]:
    for element in data_set:
        location = f"{above}({element.tag.group:04X},{element.tag.element:04X})"
        if element.VR == "SQ":
            for item in element.value:
                yield from _identifiers_in(item, location + ">", told)
        elif element.VR == "PN" or element.keyword in _ALWAYS:
            yield location, str(element.value)
        elif isinstance(element.value, str) and any(word in element.value for word in told):
            yield location, element.value
