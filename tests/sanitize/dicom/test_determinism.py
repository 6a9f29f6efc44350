"""The result depends on bytes, context, policy and keys of an object, not on earlier objects."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import Sanitized
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset

Real = Callable[[str], Dataset]
Load = Callable[..., bytes]
ContextOf = Callable[[bytes], Context]

FOLDER = Path(str(get_testdata_file("CT_small.dcm", download=False))).parent
NAMES = sorted(path.name for path in FOLDER.glob("*.dcm") if path.stat().st_size < 50_000)


@pytest.fixture(scope="module")
def objects(load_bytes: Load, context_of: ContextOf) -> list[tuple[bytes, Context]]:
    return [(data, context_of(data)) for data in (load_bytes(name) for name in NAMES)]


@pytest.fixture(scope="module")
def alone(objects: list[tuple[bytes, Context]], lenient: Policy, subkeys: SubKeys) -> list[Sanitized]:
    """Each object, sanitized by a new sanitizer."""
    return [DicomSanitizer(lenient, subkeys)(data, context) for data, context in objects]


@pytest.mark.parametrize("seed", range(3))
def test_order_and_other_objects_do_not_change_the_result(
    seed: int,
    objects: list[tuple[bytes, Context]],
    alone: list[Sanitized],
    lenient: Policy,
    subkeys: SubKeys,
) -> None:
    order = [*range(len(objects)), *range(len(objects))]
    random.Random(seed).shuffle(order)  # noqa: S311
    used = DicomSanitizer(lenient, subkeys)

    assert all(used(*objects[index]) == alone[index] for index in order)


def patient(real: Real, name: str, **changes: str) -> Dataset:
    data_set = real("CT_small.dcm")
    data_set.PatientName, data_set.PatientID = name, name[:3] + "77"
    for keyword, text in changes.items():
        setattr(data_set, keyword, text)
    return data_set


PAIRS = {
    "one called like the other's examination": (
        {"name": "Brain^Anna", "StudyDescription": "MR brain"},
        {"name": "Nowak^Jan", "StudyDescription": "MR brain"},
    ),
    "same bytes in two character sets": (
        {"name": "Nowak^Jan", "SpecificCharacterSet": "ISO_IR 192", "StudyDescription": "Schädel"},
        {"name": "Nowak^Jan", "SpecificCharacterSet": "ISO_IR 100", "StudyDescription": "SchÃ¤del"},
    ),
    "two SOP classes": (
        {"name": "Nowak^Jan", "StudyDescription": "CHEST"},
        {"name": "Nowak^Jan", "SOPClassUID": "1.2.840.10008.5.1.4.1.1.4", "StudyDescription": "CHEST"},
    ),
    "dates of two patients": (
        {"name": "Nowak^Jan", "StudyDate": "20040119"},
        {"name": "Kowal^Ewa", "StudyDate": "20040119"},
    ),
}


@pytest.mark.parametrize("pair", sorted(PAIRS))
def test_two_consecutive_objects_give_the_same_result_as_each_alone(
    pair: str, real: Real, load_bytes: Load, context_of: ContextOf, lenient: Policy, subkeys: SubKeys
) -> None:
    sources = [load_bytes(patient(real, **changes)) for changes in PAIRS[pair]]
    contexts = [context_of(data) for data in sources]
    fresh = [DicomSanitizer(lenient, subkeys)(*each) for each in zip(sources, contexts, strict=True)]
    used = DicomSanitizer(lenient, subkeys)

    for _ in range(3):
        for data, context, expected in zip(sources, contexts, fresh, strict=True):
            assert used(data, context) == expected


def test_a_name_known_from_another_object_of_the_patient_is_used(
    real: Real, load_bytes: Load, context_of: ContextOf, lenient: Policy, subkeys: SubKeys
) -> None:
    plain = load_bytes(patient(real, "Nowak^Jan", StudyDescription="MR brain"))
    married = load_bytes(patient(real, "Brain^Anna"))
    context = context_of(plain)
    wider = Context(context.patient, context.object_key, context.known | context_of(married).known)
    used = DicomSanitizer(lenient, subkeys)

    first, second, third = used(plain, context), used(plain, wider), used(plain, context)

    assert first == third
    assert b"MR brain" in b"".join(piece for piece in first.files[0].pieces if isinstance(piece, bytes))
    assert b"brain" not in b"".join(piece for piece in second.files[0].pieces if isinstance(piece, bytes))


def test_equal_values_of_two_patients_get_different_dummies(
    real: Real, load_bytes: Load, context_of: ContextOf, subkeys: SubKeys, make_policy: Callable[..., Policy]
) -> None:
    policy = make_policy("ps3.15-basic", dicom={"attributes": {"DeviceSerialNumber": "D"}})
    used = DicomSanitizer(policy, subkeys)
    sources = [
        load_bytes(patient(real, name, DeviceSerialNumber="SN1")) for name in ("Nowak^Jan", "Kowal^Ewa")
    ]

    outs = [
        b"".join(p for p in used(s, context_of(s)).files[0].pieces if isinstance(p, bytes)) for s in sources
    ]

    at = [out.index(b"\x18\x00\x00\x10") for out in outs]
    assert outs[0][at[0] : at[0] + 22] != outs[1][at[1] : at[1] + 22]
