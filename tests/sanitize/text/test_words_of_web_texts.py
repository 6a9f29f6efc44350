"""Words that only web texts have are kept without a capital; what has one may be a rare name."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.vocabulary import corpus_words
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

NOBODY = compile_terms([])


@pytest.fixture(scope="module")
def cleaner() -> TextCleaner:
    """A cleaner without rules of a site."""
    return TextCleaner(TextSection(action="clean"))


@pytest.mark.parametrize(
    "text",
    [
        "A mellkasban folyadék nem látható, a tüdő ép.",
        "Nu se observă modificări ale structurii osoase.",
        "Keuhkoissa ei nähdä nestettä eikä muutoksia.",
        "Det foreligger ingen væske i lungene.",
        "Akciğerlerde sıvı izlenmedi, kalp normal büyüklükte.",
    ],
)
def test_reports_of_further_languages_stay(text: str, cleaner: TextCleaner) -> None:
    assert cleaner.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A beteg lánya Boglárka kíséri, a tüdő ép.", "Boglárka"),
        ("Pacienta este însoțită de fiul Răzvan, fără leziuni.", "Răzvan"),
        ("Potilas Tuomikoski tulee kontrolliin, ei murtumaa.", "Tuomikoski"),
        ("Henvist av Kvalvåg, ingen brudd.", "Kvalvåg"),
        ("Az osztályról küldte Szegedi Bodrogközi, törés nincs.", "Bodrogközi"),
        ("SAG T2 MOZGÁS KERECSÉNYI", "KERECSÉNYI"),
    ],
)
def test_names_of_further_languages_leave(text: str, name: str, cleaner: TextCleaner) -> None:
    assert name not in cleaner.clean(text, NOBODY).text


@pytest.mark.parametrize(
    "name", ["nagy", "kovács", "szegedi", "virtanen", "popescu", "yılmaz", "novák", "hansen"]
)
def test_no_name_is_among_the_words_of_web_texts(name: str) -> None:
    assert name not in corpus_words()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Material dostarczono 3.11, blok", "3.11"),
        ("biopsin inkom 17/9, PAD följer", "17/9"),
        ("התקבל 3.11 מספר", "3.11"),
        ("παραλαβή 3/11, βιοψία", "3/11"),
        ("REPEAT PT MOVED OSULLIVAN^K", "^K"),
        ("protokol B-4412/21 biyopsi", "4412"),
        ("ΓΟΝΑΤΟ ΘΑΛΑΜΟΣ 9", "9"),
        ("MRI 4 desember, lungene", "desember"),
    ],
)
def test_dates_of_receipt_and_numbers_leave(text: str, left: str, cleaner: TextCleaner) -> None:
    assert left not in cleaner.clean(text, NOBODY).text


def test_a_place_on_a_circle_stays(cleaner: TextCleaner) -> None:
    text = "Herdbefund links bei 3 Uhr, 8 mm"
    assert cleaner.clean(text, NOBODY).text == text
