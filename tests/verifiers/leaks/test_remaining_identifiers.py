"""Identifiers remaining in a released object are found in any location and spelling."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pydicom
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.result import Finding
from medsanitize.verifiers.leaks.identifier_encodings import MIN_DISTINCT
from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch, build_identifier_search
from medsanitize.verifiers.leaks.scan_object import Expected, audit_file, audit_object
from pydicom.encaps import encapsulate
from pydicom.sequence import Sequence
from pydicom.uid import DeflatedExplicitVRLittleEndian, RLELossless

VOCABULARY = frozenset(["head", "chest", "left", "ct", "smith", "philips", "center", "hospital"])
OWN = frozenset(
    [
        KnownValue("name", "Quixote^Ána^Maria"),
        KnownValue("name", "Head^Kim"),
        KnownValue("id", "HX-4711"),
        KnownValue("date", "20190704"),
        KnownValue("address", "12 Windmill Lane^La Mancha"),
        KnownValue("phone", "+34 926 555 0199"),
        KnownValue("institution", "Sancho Memorial"),
    ]
)
OTHERS = (
    KnownValue("name", "Doe^John^Peter"),
    KnownValue("name", "Müller^Jörg"),
    KnownValue("name", "山田^太郎"),
    KnownValue("name", "Smith^Chest"),
    KnownValue("name", "Wu^Li"),
    KnownValue("id", "MR-654321"),
    KnownValue("id", "88123406"),
    KnownValue("id", "123"),
    KnownValue("id", "19450312"),
    KnownValue("uid", "1.2.840.113619.2.55.3.77"),
    KnownValue("uid", "2.25.314159265358979323846264338327950288"),
    KnownValue("uid", "1.2.840.10008.5.1.4.1.1.2"),
    KnownValue("address", "7 Elm Tree Road"),
    KnownValue("phone", "0301-234 5678"),
    KnownValue("institution", "St Elsewhere Clinic"),
    KnownValue("date", "20200102"),
)
Plant = Callable[[pydicom.Dataset], Any]


@pytest.fixture(scope="module")
def search() -> IdentifierSearch:
    return build_identifier_search([*OWN, *OTHERS], VOCABULARY)


def expected_of(made: ModuleType, **changes: Any) -> Expected:
    return Expected(**{"pseudonym": made.PSEUDONYM, **changes})


def audited(
    made: ModuleType, search: IdentifierSearch, data_set: pydicom.Dataset, folder: Path
) -> tuple[Finding, ...]:
    return audit_object(made.save(data_set, folder), own=OWN, search=search, expected=expected_of(made))


def put(keyword: str, value: Any) -> Plant:
    return lambda data_set: setattr(data_set, keyword, value)


def put_raw(tag: int, vr: str, value: bytes) -> Plant:
    return lambda data_set: data_set.add_new(tag, vr, value)


def nested(keyword: str, value: Any) -> Plant:
    def plant(data_set: pydicom.Dataset) -> None:
        innermost, middle = pydicom.Dataset(), pydicom.Dataset()
        setattr(innermost, keyword, value)
        middle.PurposeOfReferenceCodeSequence = Sequence([innermost])
        data_set.ReferencedImageSequence = Sequence([middle])

    return plant


@pytest.mark.parametrize(
    "name",
    [
        "CT_small.dcm",
        "MR_small_implicit.dcm",
        "MR_small_bigendian.dcm",
        "MR_small_RLE.dcm",
        "liver_1frame.dcm",
    ],
)
def test_a_clean_object_passes(made: ModuleType, search: IdentifierSearch, tmp_path: Path, name: str) -> None:
    assert audited(made, search, made.make_released_object(name), tmp_path) == ()


@pytest.mark.parametrize(
    "text", ["DOE^JOHN", "Doe, John", "john doe", "scan of JohnDoe.", "doe_john", "J. John.Doe"]
)
@pytest.mark.parametrize("encoding", ["ascii", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("vr", ["LT", "UN", "OB"])
def test_a_name_of_another_patient_is_found_in_each_spelling(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path, text: str, encoding: str, vr: str
) -> None:
    data_set = made.make_released_object()
    put_raw(0x00204000 if vr == "LT" else 0x00420011, vr, text.encode(encoding))(data_set)

    assert "audit:name" in {finding.rule for finding in audited(made, search, data_set, tmp_path)}


@pytest.mark.parametrize(
    "raw",
    [
        "Müller^Jörg".encode("latin-1"),
        "JÖRG MÜLLER".encode(),
        b"MULLER, JORG",
        "jörg müller".encode("utf-16-le"),
        "山田^太郎".encode(),
        "山田 太郎".encode("utf-16-be"),
        "山田^太郎".encode("iso2022_jp"),
        "太郎^山田".encode("shift_jis"),
    ],
)
def test_names_beyond_ascii_are_found_in_each_character_set(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path, raw: bytes
) -> None:
    data_set = made.make_released_object()
    put_raw(0x00420011, "UN", raw)(data_set)

    assert Finding("(0042,0011)", "audit:name") in audited(made, search, data_set, tmp_path)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("see MR-654321", "audit:id"),
        ("see mr654321 there", "audit:id"),
        ("no 88123406.", "audit:id"),
        ("prior 1.2.840.113619.2.55.3.77", "audit:uid"),
        ("prior 2.25.314159265358979323846264338327950288\\x", "audit:uid"),
        ("lives at 7 Elm Tree Road", "audit:address"),
        ("call 0301/2345678", "audit:phone"),
        ("by ST. ELSEWHERE CLINIC".replace(".", ""), "audit:institution"),
    ],
)
@pytest.mark.parametrize("place", ["top", "nested"])
def test_other_identifiers_are_found_at_any_depth(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path, text: str, rule: str, place: str
) -> None:
    data_set = made.make_released_object()
    (put if place == "top" else nested)("ImageComments", text)(data_set)

    path = "(0020,4000)" if place == "top" else "(0008,1140)>(0040,A170)>(0020,4000)"
    assert Finding(path, rule) in audited(made, search, data_set, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "number 188123406",
        "0.88123406",
        "88123406.5",
        "1.2.840.113619.2.55.3.778",
        "1.1.2.840.113619.2.55.3.77",
        "doejohnson",
        "19450312",
        "123",
        "Wu Li",
        "smith chest",
    ],
)
def test_values_that_only_resemble_an_identifier_of_another_patient_pass(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path, text: str
) -> None:
    data_set = made.make_released_object()
    data_set.ImageComments = text

    assert audited(made, search, data_set, tmp_path) == ()


def test_a_numeric_id_is_not_matched_in_numbers_and_times(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path
) -> None:
    data_set = made.make_released_object()
    data_set.InstanceNumber = 88123406

    assert audited(made, search, data_set, tmp_path) == ()


def test_too_short_or_too_common_identifiers_are_counted(search: IdentifierSearch) -> None:
    assert search.not_searched == {"id": 2, "name": 2}


def test_a_name_of_two_letters_is_searched_only_for_its_patient_and_counted(
    made: ModuleType, tmp_path: Path
) -> None:
    data_set = made.make_released_object()
    data_set.ImageComments = "Anna Anan"
    known = KnownValue("name", "Anan^Anna")
    search, path = build_identifier_search([known]), made.save(data_set, tmp_path)

    found = [
        audit_object(path, own=own, search=search, expected=expected_of(made))
        for own in ((), frozenset([known]))
    ]

    assert (found, search.not_searched) == ([(), (Finding("(0020,4000)", "audit:name"),)], {"name": 1})


@pytest.mark.parametrize(
    ("keyword", "value", "rule"),
    [
        ("ImageComments", "mrs QUIXOTE today", "audit:name"),
        ("ImageComments", "ana's scan", "audit:name"),
        ("ImageComments", "pat_kim_2", "audit:name"),
        ("StudyDescription", "HEAD", "audit:name"),
        ("StationName", "Kim7", "audit:name"),
        ("AccessionNumber", "4711", "audit:id"),
        ("ImageComments", "hx-4711", "audit:id"),
        ("ImageComments", "on 2019-07-04", "audit:date"),
        ("ImageComments", "am 04.07.2019", "audit:date"),
        ("ImageComments", "on 20190704", "audit:date"),
        ("AcquisitionDate", "20190704", "audit:date"),
        ("AcquisitionDateTime", "20190704121314", "audit:date"),
        ("ImageComments", "12 windmill lane", "audit:address"),
        ("ImageComments", "sancho  memorial".replace("  ", " "), "audit:institution"),
        ("ImageComments", "34926 5550199".replace(" ", ""), "audit:phone"),
    ],
)
@pytest.mark.parametrize("place", ["top", "nested"])
def test_every_token_of_the_objects_patient_is_found_in_text(
    made: ModuleType,
    search: IdentifierSearch,
    tmp_path: Path,
    keyword: str,
    value: str,
    rule: str,
    place: str,
) -> None:
    data_set = made.make_released_object()
    (put if place == "top" else nested)(keyword, value)(data_set)

    assert rule in {finding.rule for finding in audited(made, search, data_set, tmp_path)}


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("BodyPartExamined", "HEAD"),
        ("Manufacturer", "Head Philips"),
        ("ImageComments", "forehead"),
        ("ImageComments", "kimono"),
        ("InstanceNumber", "4711"),
        ("WindowCenter", "4711"),
        ("AcquisitionDate", "20190705"),
        ("OperatorsName", "ANON-ABCD2345"),
        ("StationName", "ANON-ABCD2345"),
    ],
)
def test_ordinary_values_pass_for_a_patient_named_like_them(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path, keyword: str, value: str
) -> None:
    data_set = made.make_released_object()
    setattr(data_set, keyword, value)

    assert audited(made, search, data_set, tmp_path) == ()


def test_a_known_date_passes_if_a_date_shift_can_produce_it(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path
) -> None:
    data_set = made.make_released_object()
    data_set.AcquisitionDate = "20190704"
    expected = expected_of(made, allowed_dates=frozenset(["20190704"]))

    assert audit_object(made.save(data_set, tmp_path), own=OWN, search=search, expected=expected) == ()


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-16-le"])
def test_accents_do_not_hide_a_token(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path, encoding: str
) -> None:
    data_set = made.make_released_object()
    data_set.add_new(0x00204000, "LT", "mrs ÁNA there".encode(encoding))

    assert Finding("(0020,4000)", "audit:name") in audited(made, search, data_set, tmp_path)


@pytest.mark.parametrize(
    ("plant", "finding"),
    [
        (put("preamble", b"X" * 128), Finding("file", "audit:preamble")),
        (put("PatientIdentityRemoved", "NO"), Finding("(0012,0062)", "audit:structure")),
        (put("PatientName", "Somebody"), Finding("(0010,0010)", "audit:person-name")),
        (
            nested("OperatorsName", "Somebody^Else"),
            Finding("(0008,1140)>(0040,A170)>(0008,1070)", "audit:person-name"),
        ),
        (put("PatientID", "X1"), Finding("(0010,0020)", "audit:pseudonym")),
        (put("StudyInstanceUID", "1.2.3.4.5"), Finding("(0020,000D)", "audit:uid")),
        (
            nested("ReferencedSOPInstanceUID", "1.2.3.4.5"),
            Finding("(0008,1140)>(0040,A170)>(0008,1155)", "audit:uid"),
        ),
        (put_raw(0x00091001, "LO", b"x"), Finding("(0009,1001)", "audit:private")),
        (put_raw(0x00090010, "LO", b"ACME 1.1"), Finding("(0009,0010)", "audit:private")),
        (put_raw(0x50003000, "OW", b"12"), Finding("(5000,3000)", "audit:structure")),
        (put_raw(0xFFFCFFFC, "OB", b"\0\0"), Finding("(FFFC,FFFC)", "audit:structure")),
        (
            lambda d: setattr(d.file_meta, "SourceApplicationEntityTitle", "AE1"),
            Finding("(0002,0016)", "audit:meta"),
        ),
        (lambda d: setattr(d, "PixelData", d.PixelData + b"xy"), Finding("pixels", "audit:structure")),
    ],
)
def test_each_forbidden_construct_of_an_object_is_found(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path, plant: Plant, finding: Finding
) -> None:
    data_set = made.make_released_object()
    plant(data_set)

    assert finding in audited(made, search, data_set, tmp_path)


def test_a_group_length_is_found(made: ModuleType, search: IdentifierSearch, tmp_path: Path) -> None:
    path = made.save(made.make_released_object(), tmp_path)
    data = path.read_bytes()
    start = data.index(b"\x08\0\x05\0CS")
    path.write_bytes(data[:start] + b"\x08\0\0\0UL\4\0\1\0\0\0" + data[start:])

    findings = audit_object(path, own=OWN, search=search, expected=expected_of(made))

    assert findings == (Finding("(0008,0000)", "audit:structure"),)


def test_a_different_instance_uid_in_the_file_meta_is_found(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path
) -> None:
    path = made.save(made.make_released_object(), tmp_path)
    data = path.read_bytes()
    place = data.index(b"2.25.")
    path.write_bytes(data[: place + 6] + bytes([data[place + 6] ^ 1]) + data[place + 7 :])

    findings = audit_object(path, own=OWN, search=search, expected=expected_of(made))

    assert Finding("(0002,0003)", "audit:uid") in findings


def test_a_private_block_kept_by_the_policy_passes(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path
) -> None:
    data_set = made.make_released_object()
    data_set.private_block(0x0009, "ACME 1.1", create=True).add_new(1, "DS", "1.5")
    expected = expected_of(made, private_creators=frozenset(["ACME 1.1"]))

    assert audit_object(made.save(data_set, tmp_path), own=OWN, search=search, expected=expected) == ()


def test_a_file_that_contradicts_its_record_is_found(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path
) -> None:
    path = made.save(made.make_released_object(), tmp_path)
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    wrong = hashlib.sha256(b"").hexdigest()

    rules = [
        [
            finding.rule
            for finding in audit_object(
                path, own=OWN, search=search, expected=expected_of(made, sha256=digest)
            )
        ]
        for digest in (right, wrong)
    ]

    assert rules == [[], ["audit:digest"]]


def test_an_unreadable_object_is_a_finding(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path
) -> None:
    path = made.save(made.make_released_object(), tmp_path)
    path.write_bytes(path.read_bytes()[:-3])

    findings = audit_object(path, own=OWN, search=search, expected=expected_of(made))

    assert findings == (Finding("file", "audit:malformed-length"),)


@pytest.mark.parametrize("where", ["native", "compressed", "deflated"])
def test_a_name_among_the_pixels_is_found(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path, where: str
) -> None:
    data_set = made.make_released_object()
    planted = b"\xff\xfe\x00COM John Doe 88123406 MULLER^JORG\0"
    pixels = bytearray(data_set.PixelData)
    pixels[1000 : 1000 + len(planted)] = planted
    if where == "compressed":
        data_set.PixelData = encapsulate([bytes(pixels)])
        data_set["PixelData"].VR = "OB"
        data_set.file_meta.TransferSyntaxUID = RLELossless
    else:
        data_set.PixelData = bytes(pixels)
        if where == "deflated":
            data_set.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian

    assert Finding("pixels", "audit:name") in audited(made, search, data_set, tmp_path)


def test_a_name_among_the_samples_of_a_waveform_is_one_of_the_image_data(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path
) -> None:
    data_set = made.make_released_object()
    wave = pydicom.Dataset()
    wave.WaveformBitsAllocated = 16
    wave.add_new(0x54001010, "OW", bytes(1000) + b"John Doe 88123406 MULLER^JORG " + bytes(1000))
    data_set.WaveformSequence = Sequence([wave])

    assert audited(made, search, data_set, tmp_path) == (Finding("pixels", "audit:name"),)


def test_a_name_far_inside_large_pixel_data_is_found_across_chunks(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path
) -> None:
    data_set = made.make_released_object()
    data_set.Rows, data_set.Columns = 2048, 2048
    pixels = bytearray(2048 * 2048 * 2)
    edge = (4 << 20) - 1500
    for shift in range(0, 1600, 40):
        pixels[edge + shift : edge + shift + 11] = b"MULLER^JORG"[: 11 if shift >= 800 else 0].ljust(
            11, b"\0"
        )
    data_set.PixelData = bytes(pixels)

    assert Finding("pixels", "audit:name") in audited(made, search, data_set, tmp_path)


REAL = ["CT_small.dcm", "MR_small.dcm", "MR_small_implicit.dcm", "MR_small_bigendian.dcm", "liver_1frame.dcm"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_random_identifier_at_a_random_place_of_a_real_file_is_found(
    made: ModuleType, tmp_path: Path, data: st.DataObject
) -> None:
    letters = st.text("abcdefghijklmnopqrstuvwxyz", min_size=5, max_size=12)
    names = st.tuples(letters, letters).filter(lambda pair: len(set("".join(pair))) >= MIN_DISTINCT)
    family, given_name = data.draw(names)
    known = KnownValue("name", f"{family}^{given_name}")
    form = data.draw(st.sampled_from(["{0}^{1}", "{1} {0}", "{0}, {1}", "{1}_{0}", "{0}{1}", "{1}.{0}"]))
    text = data.draw(st.sampled_from([str.lower, str.upper, str.title]))(form.format(family, given_name))
    encoded = text.encode(data.draw(st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"])))
    original = made.to_bytes(made.make_released_object(data.draw(st.sampled_from(REAL))))
    pixels = original.rindex(b"\xe0\x7f") if b"\xe0\x7f" in original else original.rindex(b"\x7f\xe0")
    place = data.draw(st.integers(pixels + 12, len(original) - len(encoded)))
    path = tmp_path / "object.dcm"
    path.write_bytes(original[:place] + encoded + original[place + len(encoded) :])

    findings = audit_object(path, own=(), search=build_identifier_search([known]), expected=expected_of(made))

    assert Finding("pixels", "audit:name") in findings


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_random_id_in_any_text_element_of_a_real_file_is_found(
    made: ModuleType, tmp_path: Path, data: st.DataObject
) -> None:
    known = KnownValue("id", data.draw(st.from_regex(r"[A-Z]{2}123[0-9]{3,5}", fullmatch=True)))
    data_set = made.make_released_object(data.draw(st.sampled_from(REAL)))
    places = [element for element in data_set.iterall() if element.VR in ("LO", "SH", "ST", "LT", "PN")]
    element = data.draw(st.sampled_from(places))
    element.value = known.value

    findings = audit_object(
        made.save(data_set, tmp_path),
        own=(),
        search=build_identifier_search([known]),
        expected=expected_of(made, pseudonym=None),
    )

    assert "audit:id" in {finding.rule for finding in findings}


def test_evidence_is_searched_as_text_and_as_tables(search: IdentifierSearch, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    clean, leaky, table = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.parquet"
    clean.write_text(json.dumps({"objects": 654321, "name": "chest-ct"}))
    leaky.write_text(json.dumps({"note": "John Doe"}))
    pq.write_table(pa.table({"text": ["x"] * 2000 + ["MR-654321"]}), table, compression="zstd")

    found = [[finding.rule for finding in audit_file(path, search)] for path in (clean, leaky, table)]

    assert found == [[], ["audit:name"], ["audit:id"]]


def test_the_repr_of_a_search_shows_no_identifiers(search: IdentifierSearch) -> None:
    assert repr(search) == "IdentifierSearch(...)"


def test_a_search_can_be_pickled_for_a_worker(search: IdentifierSearch, tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("JOHN DOE")
    audit_file(path, search)

    sent = pickle.loads(pickle.dumps(search))  # noqa: S301 - made on the line itself
    assert [finding.rule for finding in audit_file(path, sent)] == ["audit:name"]


def test_many_patients_are_searched_with_several_automata(tmp_path: Path) -> None:
    search = build_identifier_search(KnownValue("id", f"PX-{number:07d}") for number in range(120_000))
    path = tmp_path / "note.txt"
    path.write_text("PX-0000001 PX-0119999")

    assert len(list(search.hits(path.read_bytes()))) == 2


@pytest.mark.parametrize(
    "plant",
    [
        nested("ReferencedSOPInstanceUID", "0"),
        lambda data_set: data_set.__delitem__("PatientID"),
        put("PatientID", ""),
        lambda data_set: data_set.__delitem__("SOPClassUID"),
        lambda data_set: setattr(data_set, "PixelData", data_set.PixelData[:-100]),
    ],
)
def test_defects_without_identifiers_pass(
    made: ModuleType, search: IdentifierSearch, tmp_path: Path, plant: Plant
) -> None:
    data_set = made.make_released_object()
    plant(data_set)

    assert audited(made, search, data_set, tmp_path) == ()
