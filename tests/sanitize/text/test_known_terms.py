"""Other known values of patient and study are found in any format: numbers, dates, places."""

from __future__ import annotations

import time
from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.policies.tables.vocabulary import words as vocabulary
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.folding import fold_letters
from medsanitize.sanitize.text.known_identifiers import compile_terms, find_known_identifiers
from medsanitize.verifiers.leaks.identifier_encodings import fold
from medsanitize.verifiers.leaks.patient_search import build_patient_search

from tests.helpers.known_subject import FRAMES, SUBJECT, fakers, mark_identifiers, subject_of


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("MRN 12345678", "MRN [id]"),
        ("mr-12345678 seen", "[id] seen"),
        ("1234 5678, 1234-5678", "[id]"),
        ("0012345678", "[id]"),
        ("pt mr12345678", "pt [id]"),
        ("no 4711 and 0004711", "no [id] and [id]"),
        ("AB 771 23", "[id]"),
        ("ab77123", "[id]"),
        ("ext 55512", "ext [id]"),
        ("uid 1.2.840.99999.1.2.3.4", "uid [id]"),
        ("CT1 CT", "[id] CT"),
        ("CT 1 of 2", "CT 1 of 2"),
        ("112345678 mm3", "112345678 mm3"),
    ],
)
def test_known_numbers_are_removed_with_any_separators_but_only_as_a_whole(text: str, left: str) -> None:
    assert mark_identifiers(text) == left


@pytest.mark.parametrize(
    "day",
    [
        *(
            "20040119",
            "2004-01-19",
            "2004/1/19",
            "19.01.2004",
            "19. 1. 2004",
            "01/19/2004",
            "1/19/04",
            "19-01-04",
        ),
        *(
            "040119",
            "20040119123000",
            "19 Jan 2004",
            "19-JAN-2004",
            "January 19th, 2004",
            "Jan 19 2004",
            "January 19",
        ),
        *(
            "19. Januar 2004",
            "19 janvier 2004",
            "19 de enero de 2004",
            "19 gennaio 2004",
            "19 de janeiro de 2004",
        ),
        *(
            "19 januari 2004",
            "19 stycznia 2004",
            "19. januar 2004",
            "1951-04-30",
            "30 April 1951",
            "2004年1月19日",
        ),
        "04/30/51",
    ],
)
@pytest.mark.parametrize("frame", FRAMES[:3])
def test_a_known_date_is_removed_in_any_format(day: str, frame: str) -> None:
    assert mark_identifiers(frame.format(day)) == frame.format("[date]")


@pytest.mark.parametrize(
    "text", ["20040120", "19.01.2005", "18 Jan 2004", "5.1.7", "may 12 mm", "T1 19 04", "1.5 T"]
)
def test_other_dates_and_numbers_are_left_to_other_rules(text: str) -> None:
    assert mark_identifiers(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("lives at 4323 Wilkinson Ave, Springfield 12345 , left lung", "lives at [address] , left lung"),
        ("4323 Wilkinson Avenue", "[address]"),
        ("avenue of the aorta, 4323 images", "avenue of the aorta, 4323 images"),
        ("call +1 217 555 1234 now", "call [phone] now"),
        ("217.555.1234", "[phone]"),
        ("555-1234", "[phone]"),
        ("0049 (0)89 5559876", "[phone]"),
        ("089/5559876", "[phone]"),
        ("sepsis, transferred from Kowalski Memorial Hospital", "sepsis, transferred from [institution]"),
        ("Hosp. Kowalski", "[institution]"),
        ("memorial hospital", "memorial hospital"),
        ("mail john.smith12@example.org x", "mail [name] x"),
        ("see https://portal.example.org/p/mr12345678.", "see [id]"),
        ("d:\\export\\smith\\ct x", "[name] x"),
    ],
)
def test_addresses_phones_institutions_and_links_are_removed_with_their_context(text: str, left: str) -> None:
    assert mark_identifiers(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("SM1TH JOHN", "[name]"),
        ("5MITHJ0HN PORTABLE", "[name] PORTABLE"),
        ("Srnith AP", "[name] AP"),
        ("MRNI2345678", "[id]"),
        ("ID:l2345G78 kVp 120", "ID:[id] kVp 120"),
        ("O1/I9/2OO4", "[date]"),
        ("KOWALSKl MEMORlAL HOSP|TAL", "[institution]"),
        ("SEMI-UPRIGHT PORTABLE L R MI 0.9 TIS 0.4 5 cm", "SEMI-UPRIGHT PORTABLE L R MI 0.9 TIS 0.4 5 cm"),
    ],
)
def test_ocr_text_is_matched_despite_recognition_errors(text: str, left: str) -> None:
    assert mark_identifiers(text, noisy=True) == left


def test_the_cleaned_text_passes_the_patient_search_of_the_audit() -> None:
    makers = fakers()
    for number in range(60):
        known = frozenset(subject_of(makers[number % len(makers)], number))
        subject = compile_terms(known)
        own = build_patient_search(known, vocabulary(), {})
        for one in known:
            text = fold(mark_identifiers(f"CT {one.value} knee", subject))
            assert not own.automaton.find_matches_as_indexes(text), text


def test_dates_are_read_as_calendar_days_only() -> None:
    subject = compile_terms(
        [KnownValue("date", "20041399"), KnownValue("date", ""), KnownValue("date", "garbage")]
    )

    assert subject.dates == frozenset()


def test_spans_are_sorted_and_disjoint() -> None:
    cuts = find_known_identifiers("Smith John 12345678 19.01.2004 Kowalski Hospital O'Brien", SUBJECT)

    assert all(one.end <= other.start for one, other in pairwise(cuts))
    assert [cut.rule for cut in cuts] == [
        "known-name",
        "known-id",
        "known-date",
        "known-institution",
        "known-name",
    ]


def test_without_known_terms_nothing_is_removed() -> None:
    assert find_known_identifiers(f"Smith {date(2004, 1, 19)} 12345678", compile_terms([])) == ()


def test_reprs_show_no_values() -> None:
    find_known_identifiers("SMTIH", SUBJECT, noisy=True)

    for thing in (SUBJECT, *SUBJECT.forms, SUBJECT.misspelt, *SUBJECT.blurred().known):
        assert not {"smith", "4711", "wilkinson"} & set(fold_letters(repr(thing)).split())
        assert "smith" not in repr(thing)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a",
            "a-",
            "0",
            "1 ",
            "1.",
            "/a",
            "w.",
            "a@",
            "smith ",
            "smith hospital ",
            "jan 1 ",
            "pt a ",
            "ü",
            "a'",
            "J. ",
            "www.",
        )
    ],
)
@pytest.mark.parametrize("noisy", [False, True])
def test_hostile_texts_are_processed_in_linear_time(unit: str, noisy: bool) -> None:
    subject = compile_terms(
        [
            *(KnownValue("name", value) for value in ("Smith^John", "Aaaaa^Aaaa")),
            KnownValue("address", "1 A St, Aaaaaa"),
        ]
    )
    text = unit * (40_000 // len(unit))

    began = time.process_time()
    find_known_identifiers(text, subject, noisy=noisy)

    assert time.process_time() - began < 3


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=80), noisy=st.booleans())
def test_any_text_gives_spans_inside_it(text: str, noisy: bool) -> None:
    for cut in find_known_identifiers(text, SUBJECT, noisy=noisy):
        assert 0 <= cut.start < cut.end <= len(text)
