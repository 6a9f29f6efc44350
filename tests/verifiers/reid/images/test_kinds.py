"""The kind of an image: what headers, tables and commands state, and what none of them states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import UsageError
from medsanitize.policies.tables.vocabulary import defined_terms
from medsanitize.verifiers.reid.images.body_regions import region_of
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.kinds import (
    kind_named,
    kind_of_dicom,
    one_of_each_series,
    place_of_slice,
)
from medsanitize.verifiers.reid.images.read import read_image
from PIL import Image
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset

BODY_PART_EXAMINED = 0x00180015


def header(**attributes: Any) -> Dataset:
    ds = Dataset()
    for name, value in attributes.items():
        setattr(ds, name, value)
    return ds


def coded(code: str, meaning: str = "") -> list[Dataset]:
    return [header(CodeValue=code, CodingSchemeDesignator="SCT", CodeMeaning=meaning)]


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"Modality": "DX", "BodyPartExamined": "CHEST"}, "radiograph"),
        ({"Modality": "CR", "BodyPartExamined": "HAND"}, "radiograph-arm"),
        ({"Modality": "CT", "BodyPartExamined": "HEAD"}, "ct-head"),
        ({"Modality": "CT", "BodyPartExamined": "CHESTABDPELVIS"}, "ct-trunk"),
        ({"Modality": "MR", "AnatomicRegionSequence": coded("12738006")}, "mr-head"),
        ({"Modality": "MR", "AnatomicRegionSequence": coded("0", "Lumbar spine")}, "mr-spine"),
        ({"Modality": "MR", "SeriesDescription": "t2_tse_sag C-Spine"}, "mr-spine"),
        ({"Modality": "MR", "StudyDescription": "MRT Schädel nativ"}, "mr-head"),
        ({"Modality": "MR", "ProtocolName": "IRM du genou"}, "mr-leg"),
        ({"Modality": "US", "BodyPartExamined": "HEART"}, "ultrasound-heart"),
        ({"Modality": "MG"}, "mammogram"),
        ({"Modality": "IO"}, "dental"),
        ({"Modality": "PX"}, "panoramic"),
        ({"Modality": "OPT"}, "oct"),
        ({"Modality": "OP", "AnatomicRegionSequence": coded("5665001")}, "fundus"),
        ({"Modality": "SM"}, "slide"),
    ],
)
def test_a_header_states_the_kind_by_modality_and_body_part(attributes: Any, kind: str) -> None:
    assert kind_of_dicom(header(**attributes), None) == kind


@pytest.mark.parametrize(
    "attributes",
    [
        {"Modality": "CT"},
        {"Modality": "DX"},
        {"Modality": "PT", "BodyPartExamined": "HEAD"},
        {"Modality": "CT", "BodyPartExamined": "HEADNECK"},
        {"Modality": "CT", "BodyPartExamined": "HEAD", "ImageType": ["ORIGINAL", "PRIMARY", "LOCALIZER"]},
        {"Modality": "OP", "AnatomicRegionSequence": coded("28726007", "Cornea")},
        {},
    ],
)
def test_a_header_without_a_body_part_or_of_another_modality_states_no_kind(attributes: Any) -> None:
    assert kind_of_dicom(header(**attributes), None) is None


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"Modality": "DX"}, Modality.RADIOGRAPH),
        ({"Modality": "OT"}, Modality.RADIOGRAPH),
        ({"Modality": "DX", "BodyPartExamined": "KNEE"}, Modality.RADIOGRAPH_LEG),
        ({"Modality": "CT"}, None),
        ({"Modality": "CT", "BodyPartExamined": "HEAD"}, Modality.CT_HEAD),
        ({"Modality": "PT"}, None),
    ],
)
def test_a_statement_completes_a_header_and_never_replaces_it(attributes: Any, kind: Modality | None) -> None:
    assert kind_of_dicom(header(**attributes), Modality.RADIOGRAPH) is kind


def test_organs_and_joints_have_a_region_and_vessels_and_the_whole_body_have_none() -> None:
    terms = defined_terms()[BODY_PART_EXAMINED]
    without = {term for term in terms if not region_of([term])}
    assert {"WHOLEBODY", "HEADNECK", "PHANTOM", "UNKNOWN", "EXTREMITY", "BASILARA"} <= without
    assert without.isdisjoint({"LIVER", "LOWER EXTREMITY", "SELLA", "ANKLE", "ELBOW", "TORSO", "UTERUS"})


@pytest.mark.parametrize("said", ["mr-head", "MR head", "mr_head", " MR/Head "])
def test_a_kind_is_named_in_any_case_and_with_any_separator(said: str) -> None:
    assert kind_named(said) is Modality.MR_HEAD


def test_an_unknown_name_is_refused_with_the_list_and_without_the_value() -> None:
    with pytest.raises(UsageError, match="radiograph, ") as caught:
        kind_named("secret-thing")
    assert "secret" not in str(caught.value)


def test_a_gray_picture_of_a_ct_slice_is_of_no_kind_until_it_is_stated(tmp_path: Path) -> None:
    Image.fromarray(np.eye(32, dtype=np.uint8) * 255).save(tmp_path / "slice.png")
    assert read_image(tmp_path / "slice.png").modality is None
    assert read_image(tmp_path / "slice.png", kind=Modality.CT_HEAD).modality is Modality.CT_HEAD


def test_a_real_slice_is_read_with_series_and_position() -> None:
    path = Path(str(get_testdata_file("MR_small.dcm", download=False)))
    picture = read_image(path, kind=Modality.MR_HEAD)
    assert picture.modality is Modality.MR_HEAD
    assert len(picture.series) == 64


def test_the_position_of_a_slice_is_along_its_normal() -> None:
    ds = header(ImageOrientationPatient=[1, 0, 0, 0, 1, 0], ImagePositionPatient=[5, 6, -42.5])
    assert place_of_slice(ds) == ("", -42.5)


def test_of_the_slices_of_a_series_the_middle_one_is_kept() -> None:
    patients, series = ["a"] * 5 + ["b"], ["s", "s", "s", "t", "t", ""]
    rows = one_of_each_series(patients, series, [30.0, 10.0, 20.0, 2.0, 1.0, 0.0])
    assert rows.tolist() == [2, 3, 5]


def test_slices_of_unknown_series_are_one_series_of_their_patient() -> None:
    assert one_of_each_series(["a", "a", "a", "b"], [""] * 4, [0.0] * 4).tolist() == [1, 3]
