"""Never-words of a site are cut in every spelling; ordinary words beside them stay."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.deny_list import DenyList, deny_list_of, distinctive_values
from medsanitize.sanitize.text.known_identifiers import compile_terms
from medsanitize.sanitize.text.vocabulary_filter import (
    NOTHING_FORBIDDEN,
    ForbiddenWords,
    is_named,
    reduce_to_vocabulary,
)

ENTRIES = (
    *("Kaltenbrunner", "Young", "Haus Abendsonnau", "Chest Clinic North", "Müller, Anna", "Pine Ward"),
    *("Dr. Hans Klein", "Nowak", "06131 17-2345", "A3", "Station 4711", "Weiß^Jörg", "Hoffmann", "Becker"),
    *("Musterstadt", "Chest Axial Lung", "林田"),
)
LIST = DenyList(ENTRIES)
_WORDS = ("becken", "beker", "musterstaat")
"""German words that a typo in an entry may give."""
SINGLE = ("Kaltenbrunner", "Hoffmann", "Nowak", "Becker", "Musterstadt")
NOBODY = compile_terms(())
CLEANER = TextCleaner(TextSection(action="clean", deny_list=ENTRIES))
BAN = ForbiddenWords(frozenset(), frozenset(), LIST.spans)


def rest(text: str, *, noisy: bool = False) -> str:
    """The letters and digits of a text that are not cut."""
    cut = {place for found in LIST.find(text, noisy=noisy) for place in range(found.start, found.end)}
    return "".join(" " if place in cut else char for place, char in enumerate(text)).strip(" -,.'’")


@pytest.mark.parametrize(
    "text",
    [
        *("kaltenbrunner", "KALTENBRUNNER", "Kaltenbruner", "Kaltenbrunners", "Kaltenbrunner’s"),
        *("Haus_Abendsonnau", "HAUS ABENDSONNAU", "Haus Abendsonau", "Abendsonnau"),
        *("CHEST-CLINIC-NORTH", "Chest Clinik North"),
        *("Mueller", "Muller", "Müllers", "MÜLLER ANNA", "Anna Müller", "amueller"),
        *("Klein", "Hans", "KLEIN^HANS", "Nowaka", "Nowakowi", "Nowakiem"),
        *("06131/172345", "A3", "A-3", "station 4711", "Weiss", "WEISS", "Jörg", "Joerg"),
        *("Hofmann", "Hoffmanns", "Beckers", "Musterstädter", "林田", "Young"),
    ],
)
def test_every_spelling_of_an_entry_is_cut(text: str) -> None:
    assert not any(map(str.isalnum, rest(text)))


@pytest.mark.parametrize(
    "text",
    [
        *("CT CHEST NORTH", "Becken", "spine", "A35", "Station 4712", "4711", "B-A3x", "clinic"),
        *("chest", "haus", "youngest", "Novak", "Lunge", "Thorax"),
    ],
)
def test_ordinary_words_and_parts_of_entries_stay(text: str) -> None:
    assert rest(text) == text


@settings(deadline=None)
@given(word=st.sampled_from(SINGLE), data=st.data())
def test_one_typo_in_a_word_of_six_letters_or_more_is_cut(word: str, data: st.DataObject) -> None:
    if len(word) < 6:
        return
    place = data.draw(st.integers(1, len(word) - 1))
    letter = data.draw(st.sampled_from("aeinrstxz"))
    typo = data.draw(
        st.sampled_from(
            [
                word[:place] + word[place + 1 :],
                word[:place] + letter + word[place:],
                word[:place] + letter + word[place + 1 :],
                word[: place - 1] + word[place] + word[place - 1] + word[place + 1 :],
            ]
        )
    )
    # A typo may give another word.
    assert rest(typo) == "" or CLEANER.clean(typo, NOBODY).text == "" or typo.lower() in _WORDS


@settings(deadline=None)
@given(
    word=st.sampled_from((*SINGLE, "Haus Abendsonnau", "Müller", "Weiß", "Jörg")),
    form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
    change=st.sampled_from([str.upper, str.lower, str.title, str.swapcase]),
    before=st.sampled_from(["", "CT ", "CT_", "(", "x-"]),
    after=st.sampled_from(["", " CHEST", "_CHEST", ")", "-2", "'s"]),
)
@example("Weiß", "NFC", str.upper, "", "")
def test_case_accents_and_neighbors_do_not_hide_an_entry(
    word: str, form: str, change: object, before: str, after: str
) -> None:
    written = unicodedata.normalize(form, change(word))  # type: ignore[operator, arg-type]
    found = rest(f"{before}{written}{after}")
    folded = "".join(char for char in unicodedata.normalize("NFKD", word.lower()) if char.isalpha())
    assert folded not in unicodedata.normalize("NFKD", found.lower()).replace(" ", "")
    assert not set(found) & set("ßöü")


@pytest.mark.parametrize("text", ["KA1TENBRUNNER", "HAUS ABENDS0NNE", "CHEST C1INIC NORTH", "STATION 47I1"])
def test_look_alike_characters_of_ocr_are_accepted_in_noisy_text(text: str) -> None:
    assert CLEANER.identifying(text, NOBODY, noisy=True)
    assert rest(text, noisy=True) == ""


def test_a_line_of_ordinary_words_is_identifying_only_because_of_the_list() -> None:
    plain = TextCleaner(TextSection(action="clean"))
    assert not plain.identifying("CHEST AXIAL LUNG", NOBODY, noisy=True)
    assert CLEANER.identifying("CHEST AXIAL LUNG", NOBODY, noisy=True)


def test_cleaning_cuts_entries_and_keeps_the_rest() -> None:
    cleaned = CLEANER.clean("CT chest, pine ward, read by Kaltenbruner", NOBODY)
    assert cleaned.text == "CT chest, read by"
    assert "denied" in cleaned.rules


@settings(deadline=None)
@given(st.lists(st.sampled_from(["CT", "Chest", "Axial", "Lung", "Pine", "Ward", "Young", "2"]), max_size=7))
@pytest.mark.text
def test_cleaning_twice_changes_nothing(words: list[str]) -> None:
    once = CLEANER.clean(" ".join(words), NOBODY).text
    assert CLEANER.clean(once, NOBODY).text == once


@settings(deadline=None)
@given(st.lists(st.sampled_from(["CT", "CHEST", "Axial", "Lung", "Pine", "Ward", "Young", "2"]), max_size=7))
def test_the_vocabulary_filter_leaves_no_entry(words: list[str]) -> None:
    kept = reduce_to_vocabulary(" ".join(words), BAN)
    assert LIST.spans(kept) == []
    assert set(kept.split()) <= set(words)


def test_the_vocabulary_filter_without_a_list_is_unchanged() -> None:
    assert reduce_to_vocabulary("CHEST AXIAL LUNG", NOTHING_FORBIDDEN) == "CHEST AXIAL LUNG"
    assert reduce_to_vocabulary("CHEST AXIAL LUNG", BAN) == ""
    assert is_named("CHEST AXIAL LUNG", BAN)
    assert not is_named("CHEST LUNG AXIAL", BAN)


def test_a_list_that_was_not_read_stops_the_sanitizer() -> None:
    with pytest.raises(TypeError):
        deny_list_of(TextSection(deny_list=Path("/nowhere/never.txt")))
    with pytest.raises(TypeError):
        TextCleaner(TextSection(allow_list=Path("/nowhere/safe.txt")))


def test_the_audit_searches_for_long_and_unknown_entries_only() -> None:
    values = {(one.category, one.value) for one in distinctive_values(ENTRIES)}
    assert ("institution", "Kaltenbrunner") in values
    assert ("institution", "Haus Abendsonnau") in values
    assert ("name", "Müller, Anna") in values
    ordinary = {"Young", "Chest Clinic North", "Pine Ward", "Nowak", "A3", "Station 4711"}
    assert not ordinary & {value for _, value in values}


def test_no_repr_shows_an_entry() -> None:
    assert "Kaltenbrunner" not in repr(LIST) + repr(BAN)


def test_the_search_in_a_text_hardly_depends_on_the_number_of_entries() -> None:
    long = DenyList(f"Zq{a}r{b}n{c}wald" for a in "aeiou" for b in "aeiou" for c in "bcdfghjklmnpqrstvwxyz")
    long.find("CT chest Zqarbnorwald")  # builds the index of typos
    started = process_time()
    for number in range(300):
        long.find(f"CT chest {number} with contrast, no change since the last examination")
    assert process_time() - started < 1
