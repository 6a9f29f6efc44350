"""Identifiers in the bytes of a slide are found without searching every byte."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from medsanitize.verifiers.leaks import slide_hidden_data

NEAR_DATES = st.text("0123456789-/.: T|x\xff\0", max_size=60).map(lambda text: text.encode("latin-1"))
PARTS = st.sampled_from([b"2026-03-14", b"1.2.26", b"20260314T133722", b"13:37:22", b"7", b":", b"x", b"."])


@given(st.one_of(NEAR_DATES, st.lists(PARTS, max_size=6).map(b"".join)))
@example(b"1.2.26")
@example(b"x13:37:22x")
def test_dates_in_runs_are_found_as_by_a_bytewise_search(data: bytes) -> None:
    everywhere = slide_hidden_data._DATE.search(data) or slide_hidden_data._TIME.search(data)

    assert ("date" in slide_hidden_data._in_text(data, frozenset())) == bool(everywhere)
