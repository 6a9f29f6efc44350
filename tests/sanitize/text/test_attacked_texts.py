"""Disguised and split identifiers, unknown from any header, in twelve languages: all are removed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.vocabulary import cues, fold
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

NOBODY = compile_terms([])
CLEANER = TextCleaner(TextSection(action="clean"))
PLANTED = re.compile(r"\{([^}]*)\}")
WORD = re.compile(r"[^\W_]+")
LINES = [
    line
    for line in (Path(__file__).parent / "attacked_texts.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
SECTIONS = ("title", "relation", "institution", "institution part")
# Words in braces that do not identify once the adjacent name or number is removed.
HARMLESS = frozenset(
    "van von der den de da la le uhr uur no h hod hrs am anfang in of street high box calle avenida via "
    "viale and patient c".split()
).union(*(cues()[section] for section in SECTIONS))


@pytest.mark.text
@pytest.mark.parametrize("part", range(8))
def test_nothing_that_identifies_is_kept(part: int) -> None:
    survivors = {}
    for line in LINES[part::8]:
        cleaned = CLEANER.clean(PLANTED.sub(lambda match: match[1], line), NOBODY).text
        left = [fold(word) for word in WORD.findall(cleaned)]
        for word in WORD.findall(PLANTED.sub(" ", line)):
            if fold(word) in left:
                left.remove(fold(word))
        if set(left) - HARMLESS:
            survivors[line] = cleaned

    assert survivors == {}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Fallnr. 70012345 Thorax", "Fallnr. Thorax"),
        ("CT Schädel Pat. SOMMER", "CT Schädel Pat."),
        ("Patient: supine, arms raised", "Patient: supine, arms raised"),
        ("Patient: Klein", "Patient:"),
        ("a.p. stehend Pat. MENDOZA", "a.p. stehend Pat."),
        ("Patiente vue par le Dr Marchand", "Patiente vue par le Dr"),
        pytest.param("von der Leber unabhängig", "von der Leber unabhängig", marks=pytest.mark.text),
        ("Historia clínica 4471092 TC cerebral", "Historia clínica TC cerebral"),
        ("guided by CT", "guided by CT"),
        ("GUIDED BY US", "GUIDED BY US"),
        ("daughter may call", "daughter may call"),
        ("A.P. stehend", "A.P. stehend"),
        ("Gleason 7", "Gleason 7"),
    ],
)
def test_label_and_adjacent_clinical_words_are_kept(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


def test_a_text_without_accents_is_treated_like_the_accented_one() -> None:
    text = "Schaedel nativ, GEFAESSE, Rontgen, Echographie, oedeme, torax, akciger grafisi, kregoslupa"

    assert CLEANER.clean(text, NOBODY).text == text


def test_an_inflected_ordinary_word_is_not_a_name() -> None:
    kept = "Digitalisierung issues, ossificazioni, calcificaciones, ossificações, verkalkungsbedingt"
    names = "Petrovic Colosimi Sarkisian Demetrina Encarnación Conceição Hartung Fleischer Teteringen"

    assert CLEANER.clean(kept, NOBODY).text == kept
    assert CLEANER.clean(f"CHEST {names}", NOBODY).text == "CHEST"
