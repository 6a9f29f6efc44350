"""Which words of a cleaned text a site is asked about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.text.word_proposals import compare, identifies, resembles_word


@pytest.mark.parametrize(
    ("before", "after", "kept", "removed"),
    [
        ("CT chest Kopfspule 12", "CT chest", set(), {"Kopfspule"}),
        ("chest Kopfspule chest", "chest chest", set(), {"Kopfspule"}),
        ("Seen in Young Clinic today", "Seen in Young Clinic today", {"Young", "Young Clinic"}, set()),
        ("SEEN BY YOUNG AT 12", "SEEN BY YOUNG AT 12", {"YOUNG"}, set()),
        ("seen by young", "seen by young", set(), set()),
        ("x 4711 ab", "", set(), set()),
        ("", "", set(), set()),
    ],
)
def test_removed_words_and_kept_words_that_are_also_names(
    before: str, after: str, kept: set[str], removed: set[str]
) -> None:
    found = compare(before, after)
    assert found.kept == kept
    assert found.removed == removed


@given(
    st.lists(st.sampled_from(["CT", "Young", "chest", "Kopfspule", "Clinic", "4711"]), max_size=9), st.data()
)
def test_every_removed_word_is_in_the_text_and_no_kept_one_is_lost(
    words: list[str], data: st.DataObject
) -> None:
    left = [word for word in words if data.draw(st.booleans())]
    found = compare(" ".join(words), " ".join(left))
    assert found.removed <= set(words)
    assert {word for phrase in found.kept for word in phrase.split()} <= set(left)


@pytest.mark.parametrize("word", ["Kopfspule", "Quickscan", "SEQ47X2"])
def test_words_and_codes_of_protocols_may_be_safe(word: str) -> None:
    assert resembles_word(word)


@pytest.mark.parametrize(
    "word", ["Kaltenbrunner", "Nowak", "Fernandez", "Ivanova", "Young", "chest", "Мороз"]
)
def test_names_and_ordinary_words_are_not_proposed(word: str) -> None:
    assert not resembles_word(word)


@pytest.mark.parametrize("value", ["Kaltenbrunner^Hans", "Klinikum Musterstadt", "MRWERNER"])
def test_values_with_an_unknown_word_identify(value: str) -> None:
    assert identifies(value)


@pytest.mark.parametrize("value", ["Radiology", "CT 1", "Technician", "unknown", "MR", "University Hospital"])
def test_values_of_ordinary_words_and_placeholders_do_not(value: str) -> None:
    assert not identifies(value)


def test_no_repr_shows_a_word() -> None:
    assert "Kopfspule" not in repr(compare("Kopfspule", ""))
