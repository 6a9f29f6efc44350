"""Errors and pixels of a released object are compared with those of its source, by readers of others."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.verifiers.validity import dciodvfy
from medsanitize.verifiers.validity.dciodvfy import compare_errors, find_dciodvfy, without_values
from medsanitize.verifiers.validity.findings import NOT_READ
from medsanitize.verifiers.validity.gdcm_reader import gdcm_digest
from medsanitize.verifiers.validity.pixels import pixels_differ
from pydicom.uid import RLELossless

from tests.helpers.hospital import real_file, write_ct
from tests.helpers.lossless_jpeg import write_few_bit_images

needs_dciodvfy = pytest.mark.skipif(find_dciodvfy() is None, reason="needs dciodvfy")
Change = Callable[[pydicom.Dataset], None]


def changed(path: Path, change: Change) -> Path:
    data_set = pydicom.dcmread(path)
    change(data_set)
    copy = path.with_name("changed.dcm")
    data_set.save_as(copy)
    return copy


@needs_dciodvfy
def test_an_error_that_the_source_has_not_is_introduced(tmp_path: Path) -> None:
    source = write_ct(tmp_path / "a.dcm", 1)

    found = compare_errors(source, changed(source, lambda data: delattr(data, "SeriesInstanceUID")))

    assert any(
        kind.startswith("/SeriesInstanceUID(0020,000e) Missing attribute") for kind in found.introduced
    )


@needs_dciodvfy
def test_an_error_of_the_source_is_not_introduced(tmp_path: Path) -> None:
    source = changed(write_ct(tmp_path / "a.dcm", 1), lambda data: delattr(data, "SeriesInstanceUID"))

    found = compare_errors(source, source)

    assert (found.judged, found.introduced) == (True, {})
    assert found.kept


def with_un_sequence(path: Path, *, valid: bool) -> Path:
    """A file with a sequence that is written as UN, in implicit VR (PS3.5 6.2.2)."""
    data = path.read_bytes()
    uid = b"1.2.840.10008.5.1.4.1.1.2\0"
    item = struct.pack("<HHL", 0x0008, 0x1150, len(uid)) + uid if valid else b""
    item += struct.pack("<HHL", 0x0008, 0x1155, 8) + b"1.2.3.4\0"
    value = struct.pack("<HHL", 0xFFFE, 0xE000, len(item)) + item
    element = struct.pack("<HH2sHL", 0x0008, 0x1140, b"UN", 0, len(value)) + value
    at = data.index(b"\x09\x00\x10\x00", 144)
    path.write_bytes(data[:at] + element + data[at:])
    return path


@needs_dciodvfy
def test_an_error_that_a_source_hides_in_a_sequence_of_vr_un_is_not_introduced(tmp_path: Path) -> None:
    source = with_un_sequence(write_ct(tmp_path / "a.dcm", 1), valid=False)

    found = compare_errors(source, changed(source, lambda data: data.decode()))

    assert (found.judged, found.introduced) == (True, {})
    assert any("ReferencedImageSequence" in kind for kind in found.kept)


@needs_dciodvfy
def test_an_error_that_a_sequence_of_vr_un_has_not_is_introduced(tmp_path: Path) -> None:
    source = with_un_sequence(write_ct(tmp_path / "a.dcm", 1), valid=True)

    def change(data: pydicom.Dataset) -> None:
        data.decode()
        del data.ReferencedImageSequence[0].ReferencedSOPClassUID

    found = compare_errors(source, changed(source, change))

    assert any("ReferencedSOPClassUID" in kind for kind in found.introduced)


@needs_dciodvfy
def test_values_are_no_part_of_an_error(tmp_path: Path) -> None:
    source = write_ct(tmp_path / "a.dcm", 1)

    def name(data: pydicom.Dataset) -> None:
        data.PatientSex = "QUIXLEYVANE"

    found = compare_errors(source, changed(source, name))

    assert found.introduced
    assert "QUIXLEYVANE" not in str(found)


@given(st.text(alphabet=st.characters(blacklist_characters="\r\n", max_codepoint=255)))
def test_what_an_error_quotes_is_cut(value: str) -> None:
    line = f"Error - </PatientSex(0010,0040)[1]> - Unrecognized enumerated value = <{value}>"

    assert without_values(line) == "/PatientSex(0010,0040) Unrecognized enumerated value"


@needs_dciodvfy
def test_the_module_of_an_error_is_kept() -> None:
    line = "Error - </Rows(0028,0010)> - Missing attribute for Type 1 Required - Module=<ImagePixel>"

    assert without_values(line) == (
        "/Rows(0028,0010) Missing attribute for Type 1 Required Module=<ImagePixel>"
    )


def test_without_the_program_nothing_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dciodvfy, "find_dciodvfy", lambda: None)
    source = write_ct(tmp_path / "a.dcm", 1)

    assert not compare_errors(source, source).judged


def test_the_same_image_in_another_transfer_syntax_does_not_differ(tmp_path: Path) -> None:
    source = write_ct(tmp_path / "a.dcm", 1)

    assert pixels_differ(source, changed(source, lambda data: data.compress(RLELossless))) is False


def test_one_other_sample_differs(tmp_path: Path) -> None:
    source = write_ct(tmp_path / "a.dcm", 1)

    def change(data: pydicom.Dataset) -> None:
        data.PixelData = data.PixelData[:-2] + b"\7\7"

    assert pixels_differ(source, changed(source, change)) is True


def test_pixels_that_are_no_longer_decoded_differ(tmp_path: Path) -> None:
    source = write_ct(tmp_path / "a.dcm", 1)

    def cut(data: pydicom.Dataset) -> None:
        data.PixelData = data.PixelData[:100]

    assert pixels_differ(source, changed(source, cut)) is True


def test_an_object_without_pixels_is_not_compared() -> None:
    assert pixels_differ(real_file("rtplan.dcm"), real_file("rtplan.dcm")) is None


def test_an_object_on_which_gdcm_ends_its_process_costs_nothing_but_its_digest(tmp_path: Path) -> None:
    write_few_bit_images(tmp_path, 1)
    other = write_ct(tmp_path / "a.dcm", 1)

    found = [gdcm_digest(path) for path in (other, tmp_path / "few00.dcm", other)]

    assert found[0] is not None
    assert found == [found[0], None, found[0]]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc fills the memory that GDCM leaves unset")
def test_what_gdcm_leaves_unset_does_not_depend_on_what_it_read_before(tmp_path: Path) -> None:
    """Without it, the missing half of the pixels is memory in which other objects were decoded."""
    whole, cut = pydicom.dcmread(real_file("MR_small.dcm")), tmp_path / "cut.dcm"
    whole.PixelData = whole.PixelData[: len(whole.PixelData) // 2]
    whole.save_as(cut)
    digests = set()
    for before in sorted(real_file("MR_small.dcm").parent.glob("*.dcm")):
        gdcm_digest(before)
        digests.add(gdcm_digest(cut))
    assert len(digests - {None}) == 1


def test_the_arguments_of_dciodvfy_name_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dciodvfy"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\n')
    program.chmod(0o755)
    monkeypatch.setattr(dciodvfy, "find_dciodvfy", lambda: str(program))
    source = write_ct(tmp_path / "QUIXLEYVANE.dcm", 1)

    compare_errors(source, source)

    assert (tmp_path / "said").read_text() == "-new /dev/stdin\n" * 2


@needs_dciodvfy
def test_a_source_that_dciodvfy_cannot_read_is_not_judged(tmp_path: Path) -> None:
    released = write_ct(tmp_path / "a.dcm", 1)
    (tmp_path / "b.dcm").write_bytes(b"no object")

    assert not compare_errors(tmp_path / "b.dcm", released).judged
    assert not compare_errors(tmp_path / "missing.dcm", released).judged


@needs_dciodvfy
def test_a_released_object_that_dciodvfy_alone_cannot_read_is_an_error_of_ours(tmp_path: Path) -> None:
    source = write_ct(tmp_path / "a.dcm", 1)
    (tmp_path / "b.dcm").write_bytes(b"no object")

    assert compare_errors(source, tmp_path / "b.dcm").introduced == {NOT_READ: 1}


def test_a_validator_that_takes_too_long_judges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "dciodvfy"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(dciodvfy, "find_dciodvfy", lambda: str(program))
    monkeypatch.setattr(dciodvfy, "_SECONDS", 0.1)
    source = write_ct(tmp_path / "a.dcm", 1)

    assert not compare_errors(source, source).judged


NAMES = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=6).map(lambda letters: f"QX{letters}")


@given(NAMES)
def test_a_line_of_a_value_that_looks_like_an_error_says_nothing(name: str) -> None:
    place = f"</{name}(1961,0317)[1]> - "
    for line in (
        *(f"Error - {name}", f"Error - {place}Missing attribute {name}", f"Error {name} - Missing"),
        f"Error - Missing attribute for Type 1 Required - Module=<{name}>",
    ):
        assert name not in without_values(line)
        assert "1961" not in without_values(line)


@needs_dciodvfy
def test_a_value_of_several_lines_is_no_part_of_an_error(tmp_path: Path) -> None:
    source = write_ct(tmp_path / "a.dcm", 1)

    def name(data: pydicom.Dataset) -> None:
        data.add_new(0x00104000, "LT", "first\nError - QUIXLEYVANE\r\nError - </QUIXLEYVANE(1961,0317)> - x")
        data.PatientSex = "F\nError - QUIXLEYVANE"

    found = compare_errors(source, changed(source, name))

    assert found.introduced
    assert "QUIXLEYVANE" not in str(found)
    assert "1961" not in str(found)
