"""Large native samples are prefiltered: the same findings as by a search of all bytes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.result import Finding
from medsanitize.verifiers.leaks.identifier_search import CHUNK, OVERLAP, build_identifier_search
from medsanitize.verifiers.leaks.scan_object import Expected, audit_object

NET = build_identifier_search(
    [
        KnownValue("name", "Zebrowski^Xaverine"),
        KnownValue("id", "QX12345678"),
        KnownValue("uid", "1.3.6.1.4.1.99999.8.4711.1"),
    ]
)
CHANCE = np.random.default_rng(4711)
GROUNDS = {
    "black": np.zeros(CHUNK, "<u2"),
    "dark": CHANCE.integers(48, 122, CHUNK).astype("<u2"),
    "gray": CHANCE.integers(300, 4000, CHUNK).astype("<u2"),
    "half black": np.where(np.arange(CHUNK) % 4096 < 2048, 0, CHANCE.integers(0, 500, CHUNK)).astype("<u2"),
}


@pytest.mark.parametrize("place", [0, 1, CHUNK - 9, CHUNK + 2, 2 * CHUNK - 60])
@pytest.mark.parametrize("wide", [False, True], ids=["ASCII", "UTF-16"])
@pytest.mark.parametrize("ground", GROUNDS)
def test_known_values_are_found_in_any_sample_data(ground: str, *, wide: bool, place: int) -> None:
    samples = bytearray(GROUNDS[ground].tobytes())
    for value in ("1.3.6.1.4.1.99999.8.4711.1", "ZEBROWSKI^XAVERINE", "qx12345678"):
        spelled = b"\xfe\xfe" + (value.encode("utf-16-le") if wide else value.encode()) + b"\xfe\xfe"
        samples[place : place + len(spelled)] = spelled

        found = {hit.rule for hit in NET.hits_in_samples(bytes(samples), 0, len(samples))}

        assert found >= {"1": {"uid"}, "Z": {"name"}, "q": {"id"}}[value[0]]


@pytest.mark.parametrize(
    "spelled",
    [
        "Müllerßon".encode() + bytes(64) + "Jürgen".encode(),
        "Müllerßon".encode("latin-1") + bytes(8) + "Jürgen".encode("latin-1"),
        "KH-4711".encode("utf-16-le") + bytes(8) + "-00815".encode("utf-16-le"),
        b"".join(bytes([one]) + bytes(7) for one in b"ZEBROWSKI^XAVERINE"),
        *(
            "Müllerßon".encode() + bytes(gap) + "Jürgen".encode()
            for gap in (4, 5, 6, 7, 8, 9, 10, 11, 12, 1000)
        ),
    ],
)
def test_nul_padded_values_are_found_as_without_the_prefilter(spelled: bytes) -> None:
    known = [KnownValue("name", "Müllerßon^Jürgen"), KnownValue("id", "KH-4711-00815")]
    net = build_identifier_search([*known, KnownValue("name", "Zebrowski^Xaverine")])
    samples = b"\xfe\xff" * 5000 + spelled + b"\xfe\xff" * 5000

    assert list(net.hits_in_samples(samples, 0, len(samples))) == list(net.hits(samples)) != []


def test_at_most_one_chunk_of_a_file_is_read_at_a_time() -> None:
    taken: list[int] = []

    class Told(bytes):
        def __getitem__(self, place: slice) -> bytes:  # type: ignore[override]
            taken.append(place.stop - place.start)
            return bytes.__getitem__(self, place)

    buffer = Told(3 * CHUNK)

    found = [*NET.hits(buffer, 0, 2 * CHUNK), *NET.hits_in_samples(buffer, 5, 3 * CHUNK)]

    assert found == []
    assert max(taken) <= CHUNK + OVERLAP


@pytest.mark.parametrize("where", ["before", "among", "behind"])
def test_a_name_in_an_object_of_large_samples_is_found(where: str, made: ModuleType, tmp_path: Path) -> None:
    data_set = made.make_released_object("CT_small.dcm")
    data_set.Rows = data_set.Columns = 2048
    samples = np.random.default_rng(4711).integers(300, 4000, (2048, 2048)).astype("<u2").tobytes()
    if where == "among":
        samples = samples[:4_000_001] + b"ZEBROWSKI^XAVERINE" + samples[4_000_019:]
    data_set.PixelData = samples
    if where == "before":
        data_set.ImageComments = "seen: Zebrowski, Xaverine"
    if where == "behind":
        data_set.add_new(0x7FE10010, "LO", "ZEBROWSKI^XAVERINE")

    expected = Expected(pseudonym=made.PSEUDONYM)

    findings = audit_object(made.save(data_set, tmp_path), own=(), search=NET, expected=expected)

    place = {"before": "(0020,4000)", "among": "pixels", "behind": "(7FE1,0010)"}[where]
    assert Finding(place, "audit:name") in findings
