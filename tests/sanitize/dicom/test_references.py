"""Objects that refer to each other do so after release, and highdicom reads them."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import highdicom as hd
import numpy as np
import pydicom
import pytest
from highdicom.content import AlgorithmIdentificationSequence
from highdicom.pm import ParametricMap, RealWorldValueMapping
from highdicom.seg import SegmentAlgorithmTypeValues, Segmentation, SegmentationTypeValues, SegmentDescription
from highdicom.sr import CodedConcept
from medsanitize.sanitize.result import Sanitized
from pydicom.dataset import Dataset
from pydicom.uid import generate_uid

Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
Real = Callable[[str], Dataset]

MAKER = {"manufacturer": "highdicom", "manufacturer_model_name": "test", "software_versions": "1"}


def source(real: Real) -> Dataset:
    data_set = real("CT_small.dcm")
    data_set.FrameOfReferenceUID = generate_uid(entropy_srcs=["frame"])
    return data_set


def placed(number: int) -> dict[str, object]:
    return {
        "series_instance_uid": generate_uid(entropy_srcs=["series", str(number)]),
        "sop_instance_uid": generate_uid(entropy_srcs=["instance", str(number)]),
        "series_number": number,
        "instance_number": 1,
        "device_serial_number": "1",
    }


def segmentation(image: Dataset) -> Segmentation:
    code = CodedConcept("10200004", "SCT", "Liver")
    algorithm = AlgorithmIdentificationSequence("a", CodedConcept("123109", "DCM", "Manual Processing"), "1")
    segment = SegmentDescription(1, "Liver", code, code, SegmentAlgorithmTypeValues.AUTOMATIC, algorithm)
    mask = np.zeros((1, image.Rows, image.Columns), bool)
    mask[:, 4:9, 4:9] = True
    return Segmentation(
        source_images=[image],
        pixel_array=mask,
        segmentation_type=SegmentationTypeValues.BINARY,
        segment_descriptions=[segment],
        **placed(900),
        **MAKER,
    )


def parametric_map(image: Dataset) -> ParametricMap:
    unit = CodedConcept("1", "UCUM", "no units")
    mapping = RealWorldValueMapping("1", "values", unit, (-1000.0, 1000.0), intercept=0, slope=1)
    return ParametricMap(
        source_images=[image],
        pixel_array=np.ones((1, image.Rows, image.Columns), np.float32),
        contains_recognizable_visual_features=False,
        real_world_value_mappings=[mapping],
        window_center=0,
        window_width=100,
        **placed(901),
        **MAKER,
    )


@pytest.mark.filterwarnings("ignore")
def test_a_segmentation_refers_to_its_image_and_is_read(release: Release, real: Real) -> None:
    image = source(real)
    ct = release(image)[2]

    found = hd.seg.segread(BytesIO(release(segmentation(image))[1]))

    assert found.get_source_image_uids() == [(ct.StudyInstanceUID, ct.SeriesInstanceUID, ct.SOPInstanceUID)]
    assert found.FrameOfReferenceUID == ct.FrameOfReferenceUID
    pixels = found.get_pixels_by_source_instance([ct.SOPInstanceUID])
    assert pixels.sum() == 25


@pytest.mark.filterwarnings("ignore")
def test_a_parametric_map_refers_to_its_image(release: Release, real: Real) -> None:
    image = source(real)
    ct = release(image)[2]

    found = pydicom.dcmread(BytesIO(release(parametric_map(image))[1]))

    (series,) = found.ReferencedSeriesSequence
    assert series.SeriesInstanceUID == ct.SeriesInstanceUID
    assert series.ReferencedInstanceSequence[0].ReferencedSOPInstanceUID == ct.SOPInstanceUID
    assert found.FrameOfReferenceUID == ct.FrameOfReferenceUID
    assert np.all(found.pixel_array == 1)


def test_a_structure_set_and_its_plan_refer_to_each_other(release: Release, real: Real) -> None:
    structures, plan = real("rtstruct.dcm"), real("rtplan.dcm")
    reference = Dataset()
    reference.ReferencedSOPClassUID, reference.ReferencedSOPInstanceUID = (
        structures.SOPClassUID,
        structures.SOPInstanceUID,
    )
    plan.ReferencedStructureSetSequence = [reference]

    there = release(structures)[2]

    (found,) = release(plan)[2].ReferencedStructureSetSequence
    assert found.ReferencedSOPInstanceUID == there.SOPInstanceUID
    roi = there.StructureSetROISequence[0]
    frames = {one.FrameOfReferenceUID for one in there.ReferencedFrameOfReferenceSequence}
    assert roi.ReferencedFrameOfReferenceUID in frames


def test_a_registration_maps_the_frames_of_reference_of_its_images(release: Release, real: Real) -> None:
    image = source(real)
    registration = real("CT_small.dcm")
    del registration.PixelData, registration.Rows, registration.Columns
    registration.SOPClassUID = registration.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.66.1"
    registration.Modality = "REG"
    registration.SOPInstanceUID = generate_uid(entropy_srcs=["registration"])
    registration.FrameOfReferenceUID = image.FrameOfReferenceUID
    matrix, transformed, item = Dataset(), Dataset(), Dataset()
    matrix.FrameOfReferenceTransformationMatrixType = "RIGID"
    matrix.FrameOfReferenceTransformationMatrix = [1, 0, 0, 5, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    transformed.MatrixSequence = [matrix]
    item.FrameOfReferenceUID = image.FrameOfReferenceUID
    item.MatrixRegistrationSequence = [transformed]
    registration.RegistrationSequence = [item]

    ct, found = release(image)[2], release(registration)[2]

    (kept,) = found.RegistrationSequence
    assert kept.FrameOfReferenceUID == found.FrameOfReferenceUID == ct.FrameOfReferenceUID
    (rigid,) = kept.MatrixRegistrationSequence[0].MatrixSequence
    assert rigid.FrameOfReferenceTransformationMatrix[3] == 5
