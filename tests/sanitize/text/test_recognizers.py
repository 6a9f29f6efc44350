"""Structured identifiers are removed by their form or a preceding word; quantities are kept."""

from __future__ import annotations

# ruff: noqa: E501  (one class a paragraph)
import pytest
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms
from medsanitize.sanitize.text.recognizers import find_patterns

NOBODY = compile_terms([])

# Class of 45 CFR 164.514(b)(2) -> values, in the formats of many countries.
IDENTIFIERS = {
    "phone": "(212) 555-1234|+44 20 5551234|030/1234567|555-1234|06 12 34 56 78|+49 89 5551234|0171 2345678",
    "date": "12.05.1950|2019-04-05|5/12/50|12 05 50|20190405|05/2019|Dec 4th|4. Dezember 2019|4 décembre 2019|12 May 2020"
    "|4 de mayo de 2019|3 dicembre 2018|5 grudnia 2019|December 4|12.05.50M|14:32|14h30|2:15 pm",
    "email": "a@b.com|john.smith+x@mail.example.org|jsmith (at) clinic",
    "url": "https://portal.example.org/p/17|www.example.com|portal.hospital.org/x",
    "path": "C:\\Users\\someone\\scan|/home/someone/data|\\\\server\\share\\file|report_someone.pdf",
    "network": "192.168.1.10|fe80:0:0:0:1:2:3:4|00:1A:2B:3C:4D:5E|0011.2233.4455",
    "uid": "1.2.826.0.1.3680043.10.1511|123e4567-e89b-12d3-a456-426614174000",
    "national number": "123-45-6789|943 476 5919|1 85 05 78 006 084 36|123.456.789-09|12345678Z|X1234567L|19811218-9876"
    "|44051401359|RSSMRA85T10A562S|111222333|QQ 12 34 56 C|756.1234.5678.97|DE89 3704 0044 0532 0130 00",
    "record number": "C22-6718|D2018-5503|T17/90041|20-G-4415|22:N0713|P 23-9902|18-hs-3307|19B-7781|23-MR-002211/B2|H19/5512-C4|AB-1234567|SN123456|12345678|XK12-3456|A12B34C56",
    "address": "123 Main Street, Springfield 12345|Hauptstraße 12, 10115 Berlin|12 rue de la Paix, 75002 Paris"
    "|Calle Mayor 5, 28013 Madrid|C/ Real 12, 3º izda, 28013 Madrid|via Roma 1, 00184 Roma|ul. Długa 5, 00-238 Warszawa|Keizersgracht 12, 1015 CN Amsterdam"
    "|Storgatan 3, 111 22 Stockholm|P.O. Box 123|SW1A 2AA|K1A 0B1",
}  # fmt: skip

SETTINGS = ("CHEST {} CONTRAST", "chest pain, {} , follow up", "{}", "Befund {} ohne Kontrastmittel")


@pytest.fixture(scope="module")
def cleaner() -> TextCleaner:
    return TextCleaner(TextSection(action="clean"))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", sorted(IDENTIFIERS))
def test_identifiers_of_every_class_are_removed(kind: str, setting: str, cleaner: TextCleaner) -> None:
    left = {}
    for value in IDENTIFIERS[kind].split("|"):
        text = cleaner.clean(setting.format(value), NOBODY).text
        parts = [part for part in value.replace(",", " ").split() if len(part) > 2 and not part.islower()]
        if value in text or any(part in text.split() for part in parts):
            left[value] = text

    assert left == {}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("CT ABDOMEN ext 31245", "CT ABDOMEN ext"),
        ("call (212) 555-1234 today", "call today"),
        ("MRN: AB-1234567", "MRN:"),
        ("PACEMAKER , card no SN123456", "PACEMAKER , card no"),
        ("born 05/50, smoker", "born, smoker"),
        ("Tel. 030 1234567", "Tel."),
        ("Stent lot QX77-31, iliac", "Stent lot, iliac"),
        ("Lote 7B19-C, prótesis", "Lote, prótesis"),
        ("serial no. XK12-3456", "serial no."),
    ],
)
def test_the_label_is_kept_and_its_number_removed(text: str, left: str, cleaner: TextCleaner) -> None:
    assert cleaner.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    "text",
    [
        "AXIAL 5.0 B30f",
        "LUNG 1.25MM",
        "12 mm nodule",
        "DWI b1000 ADC",
        "TR 450 TE 12 FA 90 ETL 4 FOV 240x240 matrix 256x192",
        "OMNIPAQUE 350 100ml",
        "Ultravist 300, 100 ml, flow 3 ml/s",
        "smoker, 20 pack years",
        "32 weeks gestation",
        "54 yo female",
        "L4-5 disc",
        "BI-RADS 4a",
        "pT2N0",
        "Gleason 3+4",
        "SUVmax 4.5, HU 35",
        "120 kV 2.5 mAs 40 mGy 3T 10%",
        "3 of 12 nodes",
        "370 MBq F-18 FDG",
        "1.5 x 1.5 x 5mm",
        "Cobb angle 23°",
        "window L40/400",
        "a lot of fluid, charge 2 J",
        "TE20-300 ms",
        "C5-C6, C50.911",
    ],
)
def test_quantities_are_kept(text: str, cleaner: TextCleaner) -> None:
    assert cleaner.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    "age", ["92 yo", "93-year-old", "aged 95", "91 jährig", "95 ans", "97F", "años 94 años", "101 years"]
)
def test_an_age_over_89_is_removed(age: str, cleaner: TextCleaner) -> None:
    text = cleaner.clean(f"{age} with chest pain", NOBODY).text

    assert not any(char.isdigit() for char in text)


def test_hospital_specific_numbers_are_removed_by_a_policy_pattern() -> None:
    cleaner = TextCleaner(TextSection(action="clean", patterns=(r"[A-Z]\d{2}",)))

    assert cleaner.clean("CHEST X17 CONTRAST", NOBODY).text == "CHEST CONTRAST"


def test_clinical_words_after_a_postcode_and_a_comma_are_not_a_town() -> None:
    text = "wohnt Hauptstr. 4, Kassel 34117, Verlaufskontrolle Rundherd"

    address = max((one for one in find_patterns(text) if one.rule == "address"), key=lambda one: one.end)

    assert text[address.end :] == ", Verlaufskontrolle Rundherd"


@pytest.mark.parametrize("plate", ["plate Q77", "number plate XK5", "License plate 482913", "plate 1A"])
def test_a_number_behind_the_word_plate_is_removed(plate: str, cleaner: TextCleaner) -> None:
    assert not any(char.isdigit() for char in cleaner.clean(f"parked with {plate}", NOBODY).text)


@pytest.mark.parametrize("text", ["end plate T12 fracture", "growth plate L4", "endplate C5/6"])
def test_a_level_behind_the_word_plate_is_kept(text: str, cleaner: TextCleaner) -> None:
    assert cleaner.clean(text, NOBODY).text == text
