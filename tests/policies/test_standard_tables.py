"""The generated tables: content and reading."""

from __future__ import annotations

from collections import Counter

import pytest
from medsanitize.policies.model import OPTION_CODES, Options
from medsanitize.policies.tables.standard import (
    OPTION_COLUMNS,
    ConfidentialityRow,
    attribute_types,
    confidentiality_rows,
    edition,
    sop_class_names,
    table_vrs,
)

CT = "1.2.840.10008.5.1.4.1.1.2"
ENHANCED_CT = "1.2.840.10008.5.1.4.1.1.2.1"


def rows() -> dict[str, ConfidentialityRow]:
    return {row.mask: row for row in confidentiality_rows()}


def test_table_has_every_row_of_the_standard_once() -> None:
    assert len(confidentiality_rows()) == len(rows()) == 657


def test_basic_codes_are_counted_as_in_the_standard() -> None:
    counts = Counter(row.basic for row in confidentiality_rows())
    assert counts == {
        "X": 417,
        "D": 93,
        "U": 55,
        "Z": 42,
        "X/D": 23,
        "X/Z": 11,
        "X/Z/D": 8,
        "Z/D": 6,
        "X/Z/U*": 2,
    }


def test_option_columns_are_counted_as_in_the_standard() -> None:
    counts = Counter((name, code) for row in confidentiality_rows() for name, code in row.options.items())
    assert counts == {
        ("retain_safe_private", "C"): 1,
        ("retain_uids", "K"): 60,
        ("retain_device_identity", "K"): 48,
        ("retain_device_identity", "C"): 11,
        ("retain_institution_identity", "K"): 10,
        ("retain_patient_characteristics", "K"): 14,
        ("retain_patient_characteristics", "C"): 5,
        ("retain_longitudinal_full_dates", "K"): 169,
        ("retain_longitudinal_modified_dates", "C"): 169,
        ("clean_descriptors", "C"): 141,
        ("clean_structured_content", "C"): 4,
        ("clean_graphics", "C"): 4,
    }


@pytest.mark.parametrize(
    ("mask", "keyword", "basic", "options"),
    [
        ("00080050", "AccessionNumber", "Z", {}),
        ("00101010", "PatientAge", "X", {"retain_patient_characteristics": "K"}),
        ("00102110", "Allergies", "X", {"retain_patient_characteristics": "C", "clean_descriptors": "C"}),
        ("00102162", "EthnicGroups", "X", {"retain_patient_characteristics": "K"}),
        ("0040b020", "WaveformAnnotationSequence", "X/D", {"clean_structured_content": "C"}),
        ("50xxxxxx", "CurveData", "X", {"clean_graphics": "C"}),
        ("60xx3000", "OverlayData", "X", {"clean_graphics": "C"}),
        ("private", "PrivateAttributes", "X", {"retain_safe_private": "C"}),
    ],
)
def test_rows_match_the_standard(mask: str, keyword: str, basic: str, options: dict[str, str]) -> None:
    row = next(row for row in confidentiality_rows() if row.mask == mask)
    assert (row.keyword, row.basic, dict(row.options)) == (keyword, basic, options)


def test_the_edition_is_named() -> None:
    assert edition() == "2026d"


def test_every_attribute_of_one_tag_has_a_value_representation() -> None:
    assert {mask for mask, row in rows().items() if not row.vr} == {"50xxxxxx", "private"}


@pytest.mark.parametrize(
    ("tag", "vr"), [(0x00100012, "LT"), (0x00100043, "SQ"), (0x00102162, "UC"), (0x0040B034, "DT")]
)
def test_attributes_that_the_dictionary_lacks_have_the_vr_of_the_standard(tag: int, vr: str) -> None:
    assert table_vrs()[tag] == vr


def test_option_columns_are_options_of_the_policy() -> None:
    assert set(OPTION_COLUMNS) < set(Options.model_fields)


def test_every_option_has_its_code() -> None:
    assert list(OPTION_CODES) == list(Options.model_fields)
    assert [code for code, _ in OPTION_CODES.values()] == [str(code) for code in range(113101, 113113)]


def test_meanings_of_the_option_codes_are_those_of_the_dictionary() -> None:
    from pydicom.sr._concepts_dict import concepts

    known = {code: meaning for entry in concepts["DCM"].values() for code, (meaning, *_) in entry.items()}
    assert all(known[code] == meaning for code, meaning in OPTION_CODES.values())


def test_unknown_sop_class_has_no_types() -> None:
    assert attribute_types("1.2.3") is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((0x00100010,), "2"),  # Patient module, mandatory
        ((0x00080018,), "1"),  # SOP Common
        ((0x00180060,), "2"),  # KVP, CT Image
        ((0x00080080,), "3"),  # Institution Name, General Equipment
        ((0x00120010,), "1C"),  # Clinical Trial Sponsor Name, type 1 of an optional module
        ((0x00120021,), "2C"),  # Clinical Trial Protocol Name, type 2 of an optional module
        ((0x60003000,), "1C"),  # Overlay Data, type 1 of an optional module
        ((0x00081140, 0x00081150), "1"),  # Referenced SOP Class UID inside Referenced Image Sequence
    ],
)
def test_types_of_ct_image(path: tuple[int, ...], expected: str) -> None:
    types = attribute_types(CT)
    assert types is not None
    assert types[path] == expected


def test_types_differ_by_iod() -> None:
    secondary_capture = attribute_types("1.2.840.10008.5.1.4.1.1.7")
    assert secondary_capture is not None
    assert (0x00180060,) not in secondary_capture


def test_functional_groups_are_at_their_paths() -> None:
    types = attribute_types(ENHANCED_CT)
    assert types is not None
    assert types[(0x52009229, 0x00289110, 0x00280030)] in ("1", "1C")  # Pixel Measures > Pixel Spacing


def test_a_retired_class_uses_the_iod_of_its_successor() -> None:
    assert attribute_types("1.2.840.10008.5.1.4.1.1.6") == attribute_types("1.2.840.10008.5.1.4.1.1.6.1")


def test_parents_of_every_path_exist() -> None:
    for uid in sop_class_names():
        types = attribute_types(uid)
        assert types is not None
        assert all(path[:-1] in types for path in types if len(path) > 1)


def test_names_of_sop_classes() -> None:
    assert sop_class_names()[CT] == "CT Image Storage"
