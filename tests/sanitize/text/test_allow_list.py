"""Safe words of a site stay, unless they name a person, are known identifiers or never-words."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.allow_list import AllowList
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms
from medsanitize.sanitize.text.vocabulary_filter import (
    NOTHING_FORBIDDEN,
    forbidden_words,
    reduce_to_vocabulary,
)

ENTRIES = (
    "Werner",
    "Raum 4711",
    "Zorbex Protokoll",
    "Smith",
    "Müllerhaus Klinik Protokoll",
    "Pinetree",
    "第三室",
)
ALLOW = AllowList(ENTRIES)
CLEANER = TextCleaner(TextSection(action="clean", allow_list=ENTRIES, deny_list=("Pinetree",)))
PLAIN = TextCleaner(TextSection(action="clean"))
NOBODY = compile_terms(())
SMITH = [KnownValue("name", "Smith^John")]


@pytest.mark.parametrize(
    "text",
    [
        *("MRT WERNER CHEST", "Werner", "CT chest Raum 4711", "CT_RAUM_4711", "Zorbex-Protokoll 2"),
        *("Müllerhaus Klinik Protokoll", "CT Raum 4711 Zorbex Protokoll", "DR WERNER"),
    ],
)
def test_an_entry_stays_where_it_would_be_cut(text: str) -> None:
    assert PLAIN.clean(text, NOBODY).text != text
    assert CLEANER.clean(text, NOBODY).text == text
    assert not CLEANER.identifying(text, NOBODY, noisy=False)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Zorbex chest", "chest"),
        ("chest Raum 4712", "chest"),
        ("Dr. Werner called", "Dr. called"),
        ("Patient: Werner", "Patient:"),
        ("daughter Werner", "daughter"),
        ("CT Werner Schmidtke", "CT Werner"),
        ("CT Pinetree", "CT"),
    ],
)
def test_parts_of_entries_persons_and_never_words_are_cut(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


def test_the_name_of_the_patient_is_cut_although_it_is_listed() -> None:
    assert CLEANER.clean("CT chest Smith", NOBODY).text == "CT chest Smith"
    assert CLEANER.clean("CT chest Smith", compile_terms(SMITH)).text == "CT chest"


def test_a_pattern_of_the_policy_wins_over_an_entry() -> None:
    rules = TextSection(action="clean", allow_list=("Raum 4711",), patterns=(r"4\d{3}",))
    assert TextCleaner(rules).clean("CT chest Raum 4711", NOBODY).text == "CT chest Raum"


def test_an_entry_in_a_script_without_spaces_is_found_within_a_run() -> None:
    assert ALLOW.spans("胸部第三室CT") == [(2, 5)]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("CHEST WERNER", "CHEST WERNER"),
        ("CHEST Raum 4711 ZORBEX", "CHEST Raum 4711"),
        ("CHEST SMITH AXIAL", "CHEST AXIAL"),
        ("Dr. Werner", "Dr"),
    ],
)
def test_the_vocabulary_filter_keeps_entries(text: str, left: str) -> None:
    kept = reduce_to_vocabulary(text, forbidden_words(SMITH), ALLOW.spans)
    assert kept.replace(".", "") == left


@settings(deadline=None)
@given(st.text(alphabet="CTchest Werner Raum4711_-.,Zobx室", max_size=40))
def test_spans_are_in_order_disjoint_and_within_the_text(text: str) -> None:
    spans = ALLOW.spans(text)
    assert spans == sorted(spans)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["CHEST", "Werner", "Raum", "4711", "Smith", "12", "Xqzorb", "AXIAL"]), max_size=7
    )
)
def test_a_known_name_never_passes_the_vocabulary_filter(words: list[str]) -> None:
    kept = reduce_to_vocabulary(" ".join(words), forbidden_words(SMITH), ALLOW.spans).split()
    assert "Smith" not in kept
    assert "Xqzorb" not in kept


@settings(deadline=None)
@given(st.lists(st.sampled_from(["CHEST", "AXIAL", "LUNG", "2", "Maier"]), max_size=7))
def test_texts_without_an_entry_are_cleaned_as_without_a_list(words: list[str]) -> None:
    text = " ".join(words)
    assert CLEANER.clean(text, NOBODY) == PLAIN.clean(text, NOBODY)
    assert reduce_to_vocabulary(text, NOTHING_FORBIDDEN, ALLOW.spans) == reduce_to_vocabulary(
        text, NOTHING_FORBIDDEN
    )
