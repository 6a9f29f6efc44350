"""Known names are found in texts in another script than that of the header."""

from __future__ import annotations

import pytest
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.known_identifiers import compile_terms, find_known_identifiers
from medsanitize.sanitize.text.scripts.romanization import reduced_spellings


def cut(name: str, text: str) -> list[str]:
    terms = compile_terms([KnownValue("name", name)])
    return [text[one.start : one.end] for one in find_known_identifiers(text, terms)]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("Moroz^Ivan", "Мороз жалуется на боль", "Мороз"),
        ("Yekaterina^Solovyova", "КТ Соловьёва", "Соловьёва"),
        ("Khrushchev", "Хрущёв, боль", "Хрущёв"),
        ("Hruschtschow", "Хрущёв, боль", "Хрущёв"),
        ("Papadopoulos^Georgios", "Ο Παπαδόπουλος αναφέρει", "Παπαδόπουλος"),
        ("Мороз^Иван", "CT Moroz chest", "Moroz"),
        ("Παπαδόπουλος", "CT PAPADOPOULOS", "PAPADOPOULOS"),
    ],
)
def test_a_known_name_is_found_in_other_letters(name: str, text: str, found: str) -> None:
    assert found in cut(name, text)


def test_other_words_are_not_found() -> None:
    assert cut("Silva^Maria", "Перелом ребра слева") == []
    assert cut("Мороз", "CT chest mirror") == []


def test_spellings_of_one_name_are_reduced_to_one() -> None:
    spellings = ["хрущев", "khrushchev", "hruschtschow", "chruscev"]

    assert set.intersection(*(set(reduced_spellings(one)) for one in spellings))
