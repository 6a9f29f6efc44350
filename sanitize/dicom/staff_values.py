"""Names of staff, institutions, stations and wards in the header of an object."""

from __future__ import annotations

from functools import cache
from typing import Final

from medsanitize.policies.model import Limits
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
from medsanitize.sanitize.formats.dicom.dictionary import dictionary
from medsanitize.sanitize.formats.file_type import Buffer

_STAFF: Final = (
    # Physicians, operators, technicians, and authors and readers of reports.
    "00080090 0008009C 00081048 00081050 00081060 00081070 00321032 00400006 00402008 0040A075 4008010A "
    "4008010C 40080114 "
    # Institution, department, station, ward and rooms.
    "00080080 00081040 00081010 00400010 00400011 00400241 00400242 00400243 00321033 00380300 0040A027"
)
_CODE_MEANING: Final = 0x00080104
_CATEGORIES: Final = frozenset(["name", "institution", "organization", "label", "place"])
_PATIENT_GROUP: Final = 0x0010
_MOST_COMPONENTS: Final = 3


def staff_values(data: Buffer, limits: Limits) -> frozenset[KnownValue]:
    """Return the values that name staff, institutions, stations and wards, at every depth.

    Parameters
    ----------
    data : bytes or mmap
        A DICOM object.
    limits : Limits

    Returns
    -------
    frozenset of KnownValue
        Names without prefix and suffix, one for each group of components. A value that is also in an
        attribute of the patient is left out: systems enter the patient in fields of others.
    """
    patient = {
        key
        for one in inspect_dicom(data, limits, _all_but_patient()).known
        if one.category == "name"
        for group in one.value.split("=")
        if (key := _key(group))
    }
    found: set[KnownValue] = set()
    for one in inspect_dicom(data, limits, _all_but_staff()).known:
        if one.category not in _CATEGORIES:
            continue
        groups = one.value.split("=") if one.category == "name" else [one.value]
        for group in groups:
            value = "^".join(group.split("^")[:_MOST_COMPONENTS]).strip("^ ")
            if value and _key(value) not in patient:
                found.add(KnownValue(one.category, value))
    return frozenset(found)


def _key(name: str) -> frozenset[str]:
    return frozenset(name.casefold().replace("^", " ").replace(",", " ").split())


@cache
def _all_but_staff() -> frozenset[int]:
    """Attributes whose values `inspect_dicom` is not to collect."""
    staff = {int(tag, 16) for tag in _STAFF.split()} | {_CODE_MEANING}
    return frozenset(dictionary()) - staff


@cache
def _all_but_patient() -> frozenset[int]:
    return frozenset(tag for tag in dictionary() if tag >> 16 != _PATIENT_GROUP)
