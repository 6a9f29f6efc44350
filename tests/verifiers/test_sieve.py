"""The sieve lets every long run of marked bytes through, and the search behind it finds what it must."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.context import Known
from medsanitize.verifiers.search import build_search
from medsanitize.verifiers.sieve import LONG, could_be, runs

LETTERS = b"abcABC. "
TABLE = could_be(LETTERS) or b""
FOLD = 3 * b"\x80\x91\xa7\xff\xd8"


@given(st.lists(st.sampled_from([b"a", b"B", b" ", b".", b"\x80", b"abcabcab"]), max_size=60).map(b"".join))
def test_runs_are_those_a_regular_expression_finds(chunk: bytes) -> None:
    assert list(runs(chunk, TABLE)) == re.findall(rb"[abcABC. ]{%d,}" % LONG, chunk)


@pytest.mark.parametrize("before", range(5))
@pytest.mark.parametrize(
    "spelled", [b"Zebrowski", b"ZEBROWSKI", b"Z\0e\0b\0r\0o\0w\0s\0k\0i\0", b"zeb-rowski"]
)
def test_a_known_name_in_image_data_is_found(before: int, spelled: bytes) -> None:
    net = build_search([Known("name", "Zebrowski")])
    chunk = FOLD[:before] + spelled + FOLD
    assert [(hit.start, hit.rule) for hit in net.long_hits(chunk, 0)] == [(before, "name")]


def test_a_uid_in_image_data_is_found() -> None:
    net = build_search([Known("uid", "1.2.392.200036.9116.7"), Known("id", "S26-0047119")])
    assert {hit.rule for hit in net.long_hits(FOLD + b"1.2.392.200036.9116.7" + FOLD, 0)} == {"uid"}


def test_values_of_too_many_different_bytes_are_searched_without_the_sieve() -> None:
    names = [
        Known("name", "".join(map(chr, range(start, start + 12)))) for start in range(0x4E00, 0x5200, 12)
    ]
    net = build_search(names)
    assert could_be(bytes(range(200))) is None
    assert [hit.rule for hit in net.long_hits(FOLD + names[7].value.encode() + FOLD, 0)] == ["name"]
