"""Unlisted words are kept where they are written as words, and cut where they may be names."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

NOBODY = compile_terms([])
CLEANER = TextCleaner(TextSection(action="clean"))


@pytest.mark.parametrize(
    "text",
    [
        "Geen vergrote klieren mediastinaal of inguinaal.",
        "Adenopatías hiliares y nódulo espiculado.",
        "Cellule con aspetto sarcomatoide diffuso.",
        "Zmiany włóknistotorbielowate obustronne.",
        "Die Läsion liegt am Beckenperitoneum links.",
        "Positive for MLH1, PMS2 and MSH2.",
    ],
)
def test_unlisted_words_of_a_sentence_are_kept(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Geen klieren vergroot, dr. subsolidoso akkoord.", "subsolidoso"),
        ("No effusion. Name: subsolidoso", "subsolidoso"),
        ("Seen with Wadhwani in clinic.", "Wadhwani"),
        ("The study was discussed with wadhwani in clinic.", "wadhwani"),
        ("no effusion seen by subsolidoso today", "subsolidoso"),
        ("Die Läsion wurde mit Frau Beckenperitoneum besprochen.", "Beckenperitoneum"),
        ("Kowalczykowska reports pain in the chest.", "Kowalczykowska"),
        ("CT for Subsolidoso Hiliarez on the ward.", "Subsolidoso"),
    ],
)
def test_an_unlisted_word_is_cut_where_it_may_be_a_name(text: str, name: str) -> None:
    assert name not in CLEANER.clean(text, NOBODY).text


def test_an_unlisted_word_of_an_image_is_a_possible_name() -> None:
    line = "Geen klieren subsolidoso"
    assert CLEANER.clean(f"{line}.", NOBODY).text == f"{line}."
    assert CLEANER.identifying(line, NOBODY, noisy=False)
