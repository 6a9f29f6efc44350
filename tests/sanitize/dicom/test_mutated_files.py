"""Mutated real files are released clean or quarantined, without exception, hang or leak."""

from __future__ import annotations

import struct
import time
import warnings
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path

import pydicom
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context, KnownValue
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.sanitize.result import Outcome
from pydicom.data import get_testdata_file

from tests.helpers.released_bytes import released_bytes

FOLDER = Path(str(get_testdata_file("CT_small.dcm", download=False))).parent
# pydicom cannot plant values: the data set is not encoded as its file meta states.
UNWRITABLE = {"SC_rgb_jpeg.dcm"}
NAMES = sorted(
    path.name for path in FOLDER.glob("*.dcm") if path.stat().st_size < 50_000 and path.name not in UNWRITABLE
)
KEYS = derive_sub_keys(bytes(range(32)), scope="release:test")
MARKS = (b"Wojtaszek", b"MRN8812345", b"ACC5512345")
KNOWN = frozenset(
    [KnownValue("name", "Wojtaszek^Ewa"), KnownValue("id", "MRN8812345"), KnownValue("id", "ACC5512345")]
)
SNIPPETS = (
    b"\xfe\xff\x00\xe0\xff\xff\xff\xff",
    b"\xfe\xff\x0d\xe0\0\0\0\0",
    b"\xfe\xff\xdd\xe0\0\0\0\0",
    b"\x08\0\x15\x11SQ\0\0\xff\xff\xff\xff",
    b"\x08\0\x15\x11UN\0\0\x20\0\0\0",
    b"\xe0\x7f\x10\0OW\0\0\0\0\0\0",
    b"\x08\0\x05\0CS\x0a\0ISO_IR 192",
    b"\xff\xff\xff\xff",
    b"\xff\xd8\xff\xfe\0\x04ab",
    bytes(16),
)


@cache
def planted(name: str) -> bytes:
    """A real file with three identifiers, at the top level and in an item."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data_set = pydicom.dcmread(FOLDER / name, force=True)
        data_set.PatientName, data_set.PatientID, data_set.AccessionNumber = (
            MARKS[0].decode() + "^Ewa",
            MARKS[1].decode(),
            MARKS[2].decode(),
        )
        data_set.StudyDescription = f"CHEST {MARKS[0].decode()} {MARKS[1].decode()}"
        item = pydicom.Dataset()
        item.PatientName, item.AccessionNumber = data_set.PatientName, data_set.AccessionNumber
        data_set.ReferencedStudySequence = pydicom.Sequence([item])
        stream = BytesIO()
        data_set.save_as(stream)
        return stream.getvalue()


@pytest.fixture(scope="module", autouse=True)
def _model_of_text(make_policy: Callable[..., Policy]) -> None:
    """A process loads the text model once, which does not count in the time per file."""
    data = planted("JPEG2000.dcm")
    DicomSanitizer(make_policy("hipaa-safe-harbor"), KEYS)(
        data, Context("id:one", "object", inspect_dicom(data).known)
    )


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(planted(draw(st.sampled_from(NAMES))))
    for _ in range(draw(st.integers(1, 4))):
        if len(data) < 16:
            break
        # Headers matter more than pixels: most mutations are near the beginning.
        most = draw(st.sampled_from([len(data), min(len(data), 3000)]))
        at = draw(st.integers(0, most - 1))
        kind = draw(st.sampled_from(["cut", "flip", "length", "insert", "repeat", "drop", "text"]))
        if kind == "cut":
            del data[at:]
        elif kind == "flip":
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "length":
            value = draw(st.sampled_from([0, 1, 7, 0xFFFE, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, 1 << 20]))
            data[at : at + 4] = struct.pack("<I", value)
        elif kind == "insert":
            data[at:at] = draw(st.sampled_from(SNIPPETS)) * draw(st.sampled_from([1, 2, 80]))
        elif kind == "repeat":
            data[at:at] = data[at : at + draw(st.integers(1, 400))]
        elif kind == "drop":
            del data[at : at + draw(st.integers(1, 60))]
        else:
            data[at : at + 4] = draw(st.binary(min_size=4, max_size=4))
    return bytes(data)


def check(data: bytes, policy: Policy) -> None:
    start = time.process_time()
    seen = inspect_dicom(data)
    context = Context("id:one", "object", seen.known | KNOWN)
    done = DicomSanitizer(policy, KEYS)(data, context)
    out = released_bytes(done, data)
    assert time.process_time() - start < 5
    assert done.record.outcome in (Outcome.RELEASED, Outcome.QUARANTINED)
    assert not any(mark.decode() in repr(done.record) for mark in MARKS)
    if done.record.outcome is Outcome.QUARANTINED:
        assert out == b""
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released = pydicom.dcmread(BytesIO(out))
        flat = "".join(str(element) for element in released.iterall() if element.VR not in ("OB", "OW", "OF"))
    header = out[: out.rfind(b"\xe0\x7f")] if b"\xe0\x7f" in out else out
    assert not any(mark in header or mark.decode() in flat for mark in MARKS)
    again = DicomSanitizer(policy, KEYS)(out, Context("id:one", "object", KNOWN))
    assert again.record.outcome is Outcome.RELEASED, again.record.findings


@given(data=mutated())
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
    phases=[Phase.explicit, Phase.generate],
)
def test_a_mutated_file_is_released_clean_or_quarantined(data: bytes, lenient: Policy) -> None:
    check(data, lenient)


@pytest.mark.slow
@given(data=mutated())
@settings(
    max_examples=10_000,
    deadline=None,
    database=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
def test_ten_thousand_mutated_files_are_released_clean_or_quarantined(data: bytes, lenient: Policy) -> None:
    check(data, lenient)


@pytest.mark.parametrize("name", NAMES)
def test_unmutated_files_are_released_clean(name: str, lenient: Policy) -> None:
    check(planted(name), lenient)


@pytest.mark.parametrize("preset", ["ps3.15-basic", "hipaa-safe-harbor"])
@pytest.mark.parametrize("name", NAMES[::3])
def test_other_presets_release_clean_too(name: str, preset: str, make_policy: Callable[..., Policy]) -> None:
    check(planted(name), make_policy(preset))
