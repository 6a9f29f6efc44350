"""Synthetic images as DICOM objects, written with highdicom; the result is deterministic.

Secondary Capture fits images that no device acquired (PS3.3 A.8.1). CR is for readers that accept nothing
else (PS3.3 A.2). DX is not offered: it requires the detector's pixel spacing and the body part (PS3.3
C.8.11.3, C.8.11.2), which a generated image does not have.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import IntegrityError
from medsanitize.generators.export.provenance import (
    NOT_VETTED,
    SyntheticIdentifiers,
    SyntheticProvenance,
)
from medsanitize.sanitize.formats.dicom.file import IMPLEMENTATION_CLASS_UID, IMPLEMENTATION_VERSION_NAME

if TYPE_CHECKING:
    import numpy as np
    from highdicom.base import SOPClass
    from numpy.typing import NDArray

# Storage class of each form.
SOP_CLASSES: Final = {
    "secondary-capture": "1.2.840.10008.5.1.4.1.1.7",
    "cr": "1.2.840.10008.5.1.4.1.1.1",
}
MODALITIES: Final = {"secondary-capture": "OT", "cr": "CR"}
# Explicit VR Little Endian: readable by every conformant reader, and lossless.
TRANSFER_SYNTAX: Final = "1.2.840.10008.1.2.1"
# highdicom sets these optional elements from the clock, which would make the bytes differ.
_CLOCK: Final = (
    *("InstanceCreationDate", "InstanceCreationTime", "ContentDate", "ContentTime"),
    *("DateOfSecondaryCapture", "TimeOfSecondaryCapture"),
)
_DEIDENTIFICATION_METHOD: Final = "Synthetic: made by a generative model, shows no person"


def dicom_object(
    image: NDArray[np.uint8], names: SyntheticIdentifiers, said: SyntheticProvenance, form: str
) -> bytes:
    """Encode a synthetic image as a DICOM file.

    Parameters
    ----------
    image : ndarray
        ``(rows, columns)``, 8 bits, dense tissue is bright (MONOCHROME2).
    names : SyntheticIdentifiers
        Pseudonym and UIDs.
    said : SyntheticProvenance
        Model, class and verdict.
    form : str
        A key of `SOP_CLASSES`.

    Raises
    ------
    IntegrityError
        If the written file does not decode to the same image.
    """
    from pydicom import dcmwrite
    from pydicom.uid import UID

    data = (_secondary_capture if form == "secondary-capture" else _cr)(image, names, said)
    for keyword in _CLOCK:
        data.pop(keyword, None)
    data.PatientName = names.patient
    data.SyntheticData = "YES"
    data.PatientIdentityRemoved = "YES"
    data.DeidentificationMethod = _DEIDENTIFICATION_METHOD
    data.ContributingEquipmentSequence = _equipment(said)
    data.DerivationDescription = said.description
    if not said.vetted:
        # Shown by viewers in lists and on the image.
        data.SeriesDescription = NOT_VETTED.partition(":")[0]
        data.ImageComments = NOT_VETTED.strip()
    data.DerivationAlgorithmSequence = _algorithm(said)
    # highdicom requires an orientation, but a generated image has none: empty, as type 2C permits.
    data.PatientOrientation, data.Laterality = None, None
    if said.label:
        # A class name comes from the user's table and may contain any character.
        data.SpecificCharacterSet = "ISO_IR 192"
        comment = "" if said.vetted else NOT_VETTED
        data.ImageComments = f"{comment}Synthetic. Class: {said.label}"
    data.file_meta.ImplementationClassUID = UID(IMPLEMENTATION_CLASS_UID)
    data.file_meta.ImplementationVersionName = IMPLEMENTATION_VERSION_NAME
    stream = BytesIO()
    dcmwrite(stream, data, enforce_file_format=True)
    _require_held(stream.getvalue(), image)
    return stream.getvalue()


def _common(names: SyntheticIdentifiers, said: SyntheticProvenance) -> dict[str, Any]:
    """Patient, study, series and equipment of every form; contains pseudonyms only."""
    return {
        "study_instance_uid": names.study,
        "series_instance_uid": names.series,
        "series_number": 1,
        "sop_instance_uid": names.instance,
        "instance_number": 1,
        "patient_id": names.patient,
        "transfer_syntax_uid": TRANSFER_SYNTAX,
        "manufacturer": "medsanitize",
        "manufacturer_model_name": "medsanitize",
        "software_versions": said.version,
    }


def _secondary_capture(
    image: NDArray[np.uint8], names: SyntheticIdentifiers, said: SyntheticProvenance
) -> SOPClass:
    from highdicom.sc import SCImage

    return SCImage(
        image,
        photometric_interpretation="MONOCHROME2",
        bits_allocated=8,
        coordinate_system="PATIENT",
        patient_orientation=("L", "F"),
        **_common(names, said),
    )


def _cr(image: NDArray[np.uint8], names: SyntheticIdentifiers, said: SyntheticProvenance) -> SOPClass:
    from highdicom.base import SOPClass

    data = SOPClass(sop_class_uid=SOP_CLASSES["cr"], modality=MODALITIES["cr"], **_common(names, said))
    data.BodyPartExamined, data.ViewPosition = None, None
    data.ImageType = ["DERIVED", "SECONDARY"]
    data.Rows, data.Columns = image.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 8, 8, 7, 0
    # Values have even length (PS3.5 section 8.1.1).
    data.PixelData = image.tobytes() + bytes(image.size % 2)
    return data


def _equipment(said: SyntheticProvenance) -> list[Any]:
    from highdicom import ContributingEquipment
    from pydicom.sr.codedict import codes

    return [
        ContributingEquipment(
            manufacturer="medsanitize",
            purpose_of_reference=codes.DCM.SynthesizingEquipment,
            manufacturer_model_name="medsanitize",
            software_versions=said.version,
            contribution_description="Made the whole image",
        )
    ]


def _algorithm(said: SyntheticProvenance) -> Any:
    from highdicom import AlgorithmIdentificationSequence
    from pydicom.sr.codedict import codes

    bound, residual = ("none" if one is None else f"{one:.6g}" for one in (said.bound, said.residual))
    return AlgorithmIdentificationSequence(
        name="Generative image model",
        family=codes.DCM.ArtificialIntelligence,
        version=said.version,
        source="medsanitize",
        parameters={
            "model-sha256": said.model,
            "gate": said.verdict,
            "match-bound": bound,
            "residual-bound": residual,
        },
    )


def _require_held(data: bytes, image: NDArray[np.uint8]) -> None:
    """Check with pydicom that the file decodes to the image."""
    import numpy as np
    from pydicom import dcmread

    if not np.array_equal(dcmread(BytesIO(data)).pixel_array, image):
        raise IntegrityError("A synthetic image could not be written as DICOM", "Report this as a bug")
