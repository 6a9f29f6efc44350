"""Safe private attributes are found by creator, with the cleaning that their values need."""

from __future__ import annotations

import pytest
from medsanitize.policies.tables.safe_private import safe_private


@pytest.mark.parametrize(
    ("group", "creator", "element", "vr"),
    [
        (0x7053, "Philips PET Private Group", 0x00, "DS"),
        (0x7053, "Philips PET Private Group", 0x09, "DS"),
        (0x2001, "Philips Imaging DD 001", 0x03, "FL"),
        (0x2005, "Philips MR Imaging DD 001", 0x0E, "FL"),
        (0x0019, "SIEMENS MR HEADER", 0x0C, "IS"),
        (0x0043, "GEMS_PARM_01", 0x39, "IS"),
        (0x0019, "GEMS_ACQU_01", 0x23, "DS"),
        (0x01F1, "ELSCINT1", 0x26, "DS"),
        (0x0299, "NQRight", 0x16, "FL"),
        (0x2001, "Philips Imaging DD 097", 0x49, "SQ"),
        (0x2001, "Philips Imaging DD 002", 0x5C, "LO"),
    ],
)
def test_attributes_of_the_standard_are_listed_with_their_vr(
    group: int, creator: str, element: int, vr: str
) -> None:
    assert safe_private()[group, creator, element].vr == vr


def test_the_same_element_of_another_creator_is_not_safe() -> None:
    assert (0x7053, "Somebody Else", 0x00) not in safe_private()


def test_all_attributes_of_the_standard_are_listed() -> None:
    assert sum(row.source == "PS3.15" for row in safe_private().values()) == 479


def test_groups_are_odd_and_elements_are_bytes() -> None:
    assert all(group % 2 == 1 and 0 <= element <= 0xFF for group, _, element in safe_private())


def test_only_numeric_attributes_need_no_cleaning() -> None:
    numbers = {"AT", "DS", "IS", "FL", "FD", "SL", "SS", "UL", "US"}
    assert all((row.vr in numbers) == (row.care == "none") for row in safe_private().values())


def test_binary_attributes_of_unknown_content_are_marked_opaque() -> None:
    assert {row.care for row in safe_private().values() if row.vr in ("OB", "OW", "UN")} == {"opaque"}


def test_numeric_additions_are_distinguished_from_the_standard() -> None:
    additions = [row for row in safe_private().values() if row.source != "PS3.15"]
    assert {row.vr for row in additions} <= {"DS", "IS", "US", "CS"}
