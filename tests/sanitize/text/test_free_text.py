"""Free text passes only as a controlled vocabulary, however names and numbers are disguised."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.vocabulary_filter import (
    NOTHING_FORBIDDEN,
    forbidden_words,
    is_named,
    reduce_to_vocabulary,
)

PHRASES = [
    "CT CHEST WITHOUT CONTRAST",
    "MRI brain axial T2w",
    "PA AND LATERAL",
    "L4-L5 disc",
    "Abdomen^Routine",
]


@pytest.mark.parametrize("phrase", [*PHRASES, "T11T12", "Br40d3", "1.5 x 1.5 x 5mm", "3D FLAIR", "B31f"])
def test_clinical_phrases_are_kept_verbatim(phrase: str) -> None:
    assert reduce_to_vocabulary(phrase, NOTHING_FORBIDDEN) == phrase


@pytest.mark.parametrize(
    "secret",
    [
        "A12B34C56",
        "7B4X19Q2",
        "J1O2H3N4",
        "12_05_50",
        "12.05.50M",
        "04/05/50",
        "040 123 456",
        "55-51-23-4",
        "(555) 12 34 56",
        "１２-３４-５６",
        "①②-③④-⑤⑥",
        "12345",
        "٠١/٠٢/٥٠",
        "S M I T H",
        "J.D.O.E",
        "山田1",
        "Qwrtzpl",
        "92 yo",
        "93 year old",
        "91 jährig",
        "95 ans",
        "OX3 9DU",
        "SW1A 2AA",
    ],
)
def test_numbers_dates_and_disguised_names_are_removed(secret: str) -> None:
    cleaned = reduce_to_vocabulary(f"CHEST {secret} CONTRAST", NOTHING_FORBIDDEN)

    assert secret not in cleaned
    assert not any(part in cleaned.split() for part in secret.split() if len(part) > 1)


@pytest.mark.parametrize("symbols", ["\ufffd\ufffd", "°×", "±¡", "\x80\x9f", "\u200b\u200c", "😀"])
def test_no_byte_of_a_wrongly_declared_character_set_passes_as_punctuation(symbols: str) -> None:
    assert reduce_to_vocabulary(f"CHEST {symbols}", NOTHING_FORBIDDEN) == "CHEST"


@pytest.mark.parametrize(
    ("name", "text", "left"),
    [
        ("HODGKIN^MARTHA", "Hodgkin lymphoma of chest", "lymphoma of chest"),
        ("Black^Ann", "black blood CHEST", "blood CHEST"),
        ("CHEST^ADAM", "CT CHEST", "CT"),
        ("Müller^José", "MULLER CHEST", "CHEST"),
        ("MRI^LI", "CHEST LI", "CHEST"),
    ],
)
def test_the_patients_name_is_removed_even_if_it_is_a_clinical_word(name: str, text: str, left: str) -> None:
    assert reduce_to_vocabulary(text, forbidden_words([KnownValue("name", name)])) == left


def test_letters_of_an_identifier_do_not_remove_the_modality() -> None:
    assert (
        reduce_to_vocabulary(
            "CT CHEST", forbidden_words([KnownValue("id", "1CT1"), KnownValue("id", "CT-2004")])
        )
        == "CT CHEST"
    )


def test_a_known_identifier_is_detected_in_any_text() -> None:
    ban = forbidden_words([KnownValue("id", "AB-771-23"), KnownValue("name", "O'Brien^Siobhán")])

    assert is_named("room of siobhan", ban)
    assert is_named("see 77123", ban)
    assert not is_named("see 77 and 12", ban)


@pytest.mark.parametrize(
    "evil", ["1" * 100_000, "1 " * 50_000, "a " * 50_000, "1" + " " * 100_000 + "x", "9" * 100_000]
)
def test_any_text_is_processed_in_bounded_time(evil: str) -> None:
    start = time.process_time()

    reduce_to_vocabulary(evil, NOTHING_FORBIDDEN)

    assert time.process_time() - start < 2


@given(st.text(max_size=60))
def test_a_reduced_text_is_stable(text: str) -> None:
    once = reduce_to_vocabulary(text, NOTHING_FORBIDDEN)

    assert reduce_to_vocabulary(once, NOTHING_FORBIDDEN) == once


@given(
    st.lists(
        st.sampled_from(["CHEST", "Smith", "12", "7", "x", "9", "S", "y", "1234", "CT", ".", "_"]),
        max_size=12,
    )
)
def test_a_reduced_phrase_is_stable(parts: list[str]) -> None:
    once = reduce_to_vocabulary(" ".join(parts), NOTHING_FORBIDDEN)

    assert reduce_to_vocabulary(once, NOTHING_FORBIDDEN) == once
