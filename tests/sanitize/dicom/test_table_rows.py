"""Rows of Table E.1-1 decide about their attributes, also where the dictionary of pydicom lacks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pydicom
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.dicom.rules import AttributeRules
from pydicom.dataset import Dataset
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian

from tests.conftest import Released, Source

MakePolicy = Callable[..., Policy]
Release = Callable[..., Released]
Real = Callable[[str], Dataset]

WORDS = "lateral thoracic"
ECG = "1.2.840.10008.5.1.4.1.1.9.1.1"
SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"


def basic(make_policy: MakePolicy, **options: bool) -> Policy:
    return make_policy("ps3.15-basic", dicom={"options": options})


def object_with(
    load_bytes: Callable[[Source], bytes], tag: int, vr: str, value: Any, *, sop_class: str, syntax: str
) -> bytes:
    data_set = Dataset()
    data_set.file_meta = pydicom.dataset.FileMetaDataset()
    data_set.file_meta.TransferSyntaxUID = syntax
    data_set.preamble = bytes(128)
    data_set.SOPClassUID, data_set.SOPInstanceUID = sop_class, "1.2.3"
    data_set.file_meta.MediaStorageSOPClassUID, data_set.file_meta.MediaStorageSOPInstanceUID = (
        sop_class,
        "1.2.3",
    )
    data_set.PatientID, data_set.Modality = "1", "OT"
    data_set.add_new(tag, vr, value)
    return load_bytes(data_set)


@pytest.mark.parametrize(
    ("tag", "vr", "sop_class"),
    [
        (0x00100012, "LT", SECONDARY_CAPTURE),
        (0x00102162, "UC", SECONDARY_CAPTURE),
        (0x00181010, "LO", SECONDARY_CAPTURE),
        (0x003A0020, "SH", ECG),
        (0x00400556, "ST", ECG),
        (0x0040B03B, "LO", ECG),
        (0x3004007F, "LO", "1.2.840.10008.5.1.4.1.1.481.2"),
    ],
)
@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_a_text_that_the_table_removes_is_removed_though_its_words_are_clinical(
    tag: int,
    vr: str,
    sop_class: str,
    syntax: str,
    load_bytes: Callable[[Source], bytes],
    release: Release,
    make_policy: MakePolicy,
) -> None:
    data = object_with(load_bytes, tag, vr, WORDS, sop_class=sop_class, syntax=syntax)

    _, out, _ = release(data, basic(make_policy))

    assert WORDS.encode() not in out


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_an_attribute_that_pydicom_does_not_know_is_kept_by_the_option_of_its_row(
    syntax: str, load_bytes: Callable[[Source], bytes], release: Release, make_policy: MakePolicy
) -> None:
    data = object_with(load_bytes, 0x00102162, "UC", "caucasian", sop_class=SECONDARY_CAPTURE, syntax=syntax)

    _, out, _ = release(data, basic(make_policy, retain_patient_characteristics=True))

    assert b"caucasian" in out


def test_items_of_a_sequence_that_pydicom_does_not_know_are_cleaned(
    load_bytes: Callable[[Source], bytes], release: Release, make_policy: MakePolicy
) -> None:
    item = Dataset()
    item.PatientName, item.PatientSex = "Zorblat^Kwimbly", "F"
    data = object_with(
        load_bytes, 0x00100043, "SQ", [item], sop_class=SECONDARY_CAPTURE, syntax=ExplicitVRLittleEndian
    )

    _, out, kept = release(data, basic(make_policy, retain_patient_characteristics=True))

    assert kept[0x00100043].value[0].PatientSex == "F"
    assert b"Zorblat" not in out


@pytest.mark.parametrize("tag", [0x5000_3000, 0x501E_0010, 0x6000_3000, 0x601E_4000])
def test_repeating_groups_have_the_row_of_their_mask(tag: int, make_policy: MakePolicy) -> None:
    book = AttributeRules(make_policy("ps3.15-basic").dicom)
    rule = book.rule(book.scope(SECONDARY_CAPTURE), tag)
    assert (rule.action, rule.source) == ("X", "E.1-1")


def test_the_object_names_the_edition_of_the_table(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    _, _, out = release(real("CT_small.dcm"), basic(make_policy))
    assert list(out.DeidentificationMethod) == [
        "medsanitize: Basic Application Level Confidentiality Profile",
        "DICOM PS3.15 2026d, Table E.1-1",
    ]


@pytest.mark.text
def test_a_dummy_age_is_another_age(
    load_bytes: Callable[[Source], bytes], release: Release, make_policy: MakePolicy
) -> None:
    hanging = "1.2.840.10008.5.1.4.38.1"
    ages = [f"{age:03d}Y" for age in range(20, 80)]
    for age in ages:
        data = object_with(
            load_bytes, 0x0072005F, "AS", age, sop_class=hanging, syntax=ExplicitVRLittleEndian
        )
        assert release(data, make_policy("research"))[2].get(0x0072005F, Dataset()).value != age
