"""Private sequences of PS3.15 Table E.3.10-1 are kept with cleaned items; all others are removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from medsanitize import Deidentifier, ReleaseKey
from medsanitize.policies.model import Policy
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian

from tests.conftest import Released

MakePolicy = Callable[..., Policy]
Release = Callable[..., Released]
Real = Callable[[str], Dataset]
Load = Callable[[Dataset], bytes]

LISTED, SCENE = "Philips Imaging DD 097", 0x0E


def scan(real: Real, creator: str, *, undefined: bool, implicit: bool) -> Dataset:
    inner = Dataset()
    inner.PatientName, inner.PatientID, inner.SliceThickness = "Zorblat^Kwimbly", "Zorblat", "5"
    block = inner.private_block(0x2001, LISTED, create=True)
    block.add_new(0x1A, "FD", 0.25)
    inner.private_block(0x2001, "Kwimbly Systems", create=True).add_new(0x0D, "FD", 0.5)
    data_set = real("CT_small.dcm")
    data_set.remove_private_tags()
    data_set.private_block(0x2001, creator, create=True).add_new(SCENE, "SQ", Sequence([inner]))
    data_set[0x2001100E].is_undefined_length = undefined
    data_set[0x2001100E].value.is_undefined_length = undefined
    data_set.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian if implicit else ExplicitVRLittleEndian
    return data_set


@pytest.fixture
def keeping(make_policy: MakePolicy) -> Policy:
    return make_policy("ps3.15-basic", dicom={"options": {"retain_safe_private": True}})


@pytest.mark.parametrize("undefined", [False, True])
@pytest.mark.parametrize("implicit", [False, True])
def test_a_listed_sequence_is_kept_and_its_items_are_cleaned(
    undefined: bool, implicit: bool, real: Real, release: Release, keeping: Policy
) -> None:
    data_set = scan(real, LISTED, undefined=undefined, implicit=implicit)

    _, out, kept = release(data_set, keeping)

    element = kept.private_block(0x2001, LISTED)[SCENE]
    item = element.value[0] if not implicit else None
    assert b"Zorblat" not in out
    assert b"Kwimbly" not in out
    if item is not None:
        assert item.private_block(0x2001, LISTED)[0x1A].value == 0.25
        assert item.SliceThickness == 5


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("undefined", [False, True])
def test_a_value_that_is_no_data_set_is_removed_and_not_the_object(
    implicit: bool, undefined: bool, real: Real, load_bytes: Load, release: Release, keeping: Policy
) -> None:
    data = load_bytes(scan(real, LISTED, undefined=undefined, implicit=implicit))
    # The VR of the first element of the item, or its length, becomes letters.
    first = (
        b"\x10\0\x10\0PN"
        if not implicit
        else b"\x10\0\x10\0" + len(b"Zorblat^Kwimbly ").to_bytes(4, "little")
    )
    at = data.rindex(first)
    broken = data[: at + 4] + b"ZZZZ"[: len(first) - 4] + data[at + len(first) :]

    done, out, _ = release(broken, keeping)

    assert b"Zorblat" not in out
    assert done.record.rules.keys() & {"X:private", "X:unreadable-sequence"}


POLICY = """\
version: 1
preset: ps3.15-basic
release: {name: a, version: "1", mode: pseudonymous}
inputs: [./i]
output: ./o
state: ./s
keys: {file: ./key}
dicom: {options: {retain_safe_private: true}}
"""


@pytest.mark.parametrize("undefined", [False, True])
@pytest.mark.parametrize("implicit", [False, True])
def test_the_independent_audit_accepts_a_kept_sequence(
    undefined: bool, implicit: bool, real: Real, load_bytes: Load, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "key").write_bytes(bytes(range(64)))
    (tmp_path / "key").chmod(0o600)
    deidentify = Deidentifier(tmp_path / "policy.yaml", ReleaseKey.from_file(tmp_path / "key"))

    result = deidentify(load_bytes(scan(real, LISTED, undefined=undefined, implicit=implicit)))

    assert (result.outcome, result.findings) == ("released", ())


@pytest.mark.parametrize("undefined", [False, True])
def test_the_same_sequence_of_another_creator_is_removed(
    undefined: bool, real: Real, release: Release, keeping: Policy
) -> None:
    data_set = scan(real, "Kwimbly Systems", undefined=undefined, implicit=False)

    _, out, _ = release(data_set, keeping)

    assert b"Kwimbly Systems" not in out


def test_without_the_option_the_sequence_is_removed(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    _, out, _ = release(
        scan(real, LISTED, undefined=True, implicit=False), make_policy("ps3.15-basic", dicom={})
    )
    assert LISTED.encode() not in out
