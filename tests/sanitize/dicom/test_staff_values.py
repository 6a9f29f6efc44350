"""Staff, institutions, stations and wards of a header, at every depth, without the patient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from medsanitize.policies.model import Limits
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.dicom.staff_values import staff_values
from pydicom.dataset import Dataset

Real = Callable[[str], Dataset]
Load = Callable[..., bytes]


def values(data: bytes) -> set[tuple[str, str]]:
    return {(one.category, one.value) for one in staff_values(data, Limits())}


def made(real: Real, load_bytes: Load, **changes: Any) -> set[tuple[str, str]]:
    source = real("CT_small.dcm")
    for keyword, value in changes.items():
        setattr(source, keyword, value)
    return values(load_bytes(source))


def test_names_are_found_without_prefix_and_suffix_and_by_group(real: Real, load_bytes: Load) -> None:
    found = made(
        real,
        load_bytes,
        ReferringPhysicianName="Adams^Jo^M^Dr.^MD",
        SpecificCharacterSet=["", "ISO 2022 IR 87"],
        OperatorsName=["Baker^Al", "Yamada^Tarou=山田^太郎"],
    )
    names = {("name", "Adams^Jo^M"), ("name", "Baker^Al"), ("name", "Yamada^Tarou"), ("name", "山田^太郎")}
    assert names <= found


def test_institutions_departments_stations_and_wards_are_found(real: Real, load_bytes: Load) -> None:
    found = made(
        real,
        load_bytes,
        InstitutionName="Pine Clinic",
        InstitutionalDepartmentName="Radiology",
        StationName="CT7",
        CurrentPatientLocation="Ward 3",
    )
    assert {value for _, value in found} >= {"Pine Clinic", "Radiology", "CT7", "Ward 3"}


def test_sequences_are_searched(real: Real, load_bytes: Load) -> None:
    item = Dataset()
    item.RequestingPhysician = "Carter^Li"
    assert ("name", "Carter^Li") in made(real, load_bytes, RequestAttributesSequence=[item])


def test_names_dates_and_numbers_of_the_patient_are_left_out(real: Real, load_bytes: Load) -> None:
    found = made(
        real,
        load_bytes,
        PatientName="Doe^Jane",
        OtherPatientNames="Smith^Jane",
        PerformingPhysicianName="DOE, JANE",
        OperatorsName="jane smith",
        AccessionNumber="ACC123456",
    )
    assert not any(word in value.casefold() for _, value in found for word in ("doe", "jane", "acc123456"))
    assert {category for category, _ in found} <= {"name", "institution", "organization", "label", "place"}


def test_content_that_is_no_dicom_has_no_values() -> None:
    assert staff_values(b"no image", Limits()) == frozenset[KnownValue]()
