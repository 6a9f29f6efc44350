"""The prefilter passes every long run of marked bytes, so that the search finds what it must."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.context import KnownValue
from medsanitize.verifiers.leaks.identifier_search import build_identifier_search
from medsanitize.verifiers.leaks.prefilter import BLOCK, MIN_RUN, byte_table, candidate_runs

LETTERS = b"abcABC. "
TABLE = byte_table(LETTERS) or b""
FOLD = 3 * b"\x80\x91\xa7\xff\xd8"


PIECES = st.lists(st.sampled_from([b"a", b"B", b" ", b".", b"\x80", b"abcabcab"]), max_size=60).map(b"".join)


@given(PIECES, st.sampled_from([LETTERS, LETTERS + b"\xc3"]))
def test_every_run_found_by_a_regular_expression_passes_the_prefilter(chunk: bytes, letters: bytes) -> None:
    through = list(candidate_runs(chunk, byte_table(letters) or b""))
    assert_let_through(chunk, through)


@pytest.mark.parametrize("place", range(BLOCK - 12, BLOCK + 4))
def test_a_run_at_a_block_border_passes_the_prefilter(place: int) -> None:
    chunk = bytes(place) + b"abcabcabc" + bytes(BLOCK)
    assert_let_through(chunk, list(candidate_runs(chunk, TABLE)))


def assert_let_through(chunk: bytes, through: list[bytes]) -> None:
    """Every run is in its own piece, which is little longer."""
    found = re.findall(rb"[abcABC. ]{%d,}" % MIN_RUN, chunk)
    assert len(found) == len(through)
    assert all(
        run in piece and len(piece) < len(run) + MIN_RUN for run, piece in zip(found, through, strict=True)
    )


@pytest.mark.parametrize("before", range(5))
@pytest.mark.parametrize(
    "spelled", [b"Zebrowski", b"ZEBROWSKI", b"Z\0e\0b\0r\0o\0w\0s\0k\0i\0", b"zeb-rowski"]
)
def test_a_known_name_in_image_data_is_found(before: int, spelled: bytes) -> None:
    net = build_identifier_search([KnownValue("name", "Zebrowski")])
    chunk = FOLD[:before] + spelled + FOLD
    assert [(hit.start, hit.rule) for hit in net.long_hits(chunk, 0)] == [(before, "name")]


def test_a_black_background_does_not_pass_the_prefilter() -> None:
    table = byte_table(b"abc\0") or b""
    assert list(candidate_runs(bytes(BLOCK) + b"abcabcabc" + bytes(BLOCK), table)) != []
    assert sum(map(len, candidate_runs(bytes(8 * BLOCK), table))) < MIN_RUN


def test_a_uid_in_image_data_is_found() -> None:
    net = build_identifier_search(
        [KnownValue("uid", "1.2.392.200036.9116.7"), KnownValue("id", "S26-0047119")]
    )
    assert {hit.rule for hit in net.long_hits(FOLD + b"1.2.392.200036.9116.7" + FOLD, 0)} == {"uid"}


def test_values_of_too_many_different_bytes_bypass_the_prefilter() -> None:
    names = [
        KnownValue("name", "".join(map(chr, range(start, start + 12)))) for start in range(0x4E00, 0x5200, 12)
    ]
    net = build_identifier_search(names)
    assert byte_table(bytes(range(200))) is None
    assert [hit.rule for hit in net.long_hits(FOLD + names[7].value.encode() + FOLD, 0)] == ["name"]
