"""Feasts, Roman months and days without a year are dates; ages over 89 are cut however they are written."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

pytestmark = pytest.mark.text
NOBODY = compile_terms([])
CLEANER = TextCleaner(TextSection(action="clean"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Slipped on ice Boxing Day, wrist pain", "Slipped on ice, wrist pain"),
        ("Symptoms since Memorial Day", "Symptoms since"),
        ("Last dialysis on St. Stephen's Day", "Last dialysis on"),
        ("Sturz am Karfreitag, Hüftschmerz", "Sturz am, Hüftschmerz"),
        ("Unfall an Fronleichnam", "Unfall an"),
        ("Chute le jour de l'an, genou", "Chute le, genou"),
        ("Caída el día de Reyes, cadera", "Caída el, cadera"),
        ("Caduta a Pasquetta, polso", "Caduta a, polso"),
        ("Queda na véspera de Ano Novo, punho", "Queda na, punho"),
        ("Val op tweede kerstdag, pols", "Val op, pols"),
        ("Upadek w Wielkanoc, ból", "Upadek w, ból"),
        ("Föll på annandag påsk, handled", "Föll på, handled"),
        ("Боль после Пасхи, кашель", "Боль после, кашель"),
        ("中秋节后咳嗽", "后咳嗽"),
        ("크리스마스 이후 기침", "이후 기침"),
    ],
)
def test_a_feast_is_a_date(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Stan po operacji 4.IX.2017, ból", "Stan po operacji, ból"),
        ("Compared with 21-XI-2018, unchanged", "Compared with, unchanged"),
        ("Discharged 7/11, readmitted with fever", "Discharged, readmitted with fever"),
        ("Gestürzt 9.6. beim Sport", "Gestürzt beim Sport"),
        ("Do, 8.2. Kontrolle", "Do, Kontrolle"),
        ("Letter of 4th ult. about cough", "Letter of. about cough"),
        ("Next scan 2020-W31, nodule", "Next scan, nodule"),
    ],
)
def test_a_date_is_cut_also_with_a_roman_month_or_without_a_year(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    "text", ["Salter-Harris III, 2 fragments", "nodule 4.5. No change", "image 5/12, seen"]
)
def test_grades_and_fractions_are_no_dates(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize("text", ["Christmas disease, factor IX", "christmas tree bladder", "prenatal MRI"])
def test_a_clinical_word_that_is_also_a_feast_is_kept(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("ninety-seven-year-old woman, hip fracture", "year-old woman, hip fracture"),
        ("Man aged ninety one, cough", "Man aged, cough"),
        ("Centenarian with pneumonia", "with pneumonia"),
        ("Pain in her mid-nineties", "Pain in her"),
        ("fünfundneunzigjährige Patientin, Sturz", "jährige Patientin, Sturz"),
        ("Homme de quatre-vingt-seize ans, toux", "Homme de ans, toux"),
        ("Mujer de noventa y ocho años, tos", "Mujer de años, tos"),
        ("Paziente novantaquattrenne, tosse", "Paziente, tosse"),
        ("Mulher de noventa e três anos, tosse", "Mulher de anos, tosse"),
        ("Man van drieënnegentig jaar, hoest", "Man van jaar, hoest"),
        ("Женщина, девяносто семь лет, кашель", "Женщина, лет, кашель"),
        ("九十五岁男性，咳嗽", "岁男性，咳嗽"),
        ("97 yaşında kadın, öksürük", "yaşında kadın, öksürük"),
    ],
)
def test_an_age_over_89_is_cut_also_in_words(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    "text",
    [
        "ninety degrees of flexion",
        "Flexion neunzig Grad",
        "rotation de quatre-vingt-dix degrés",
        "eighty-nine-year-old man",
        "one hundred ml contrast",
        "aged ninety days",
    ],
)
def test_other_numbers_in_words_are_kept(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Fall on Bastille Day, wrist", "Fall on, wrist"),
        ("Chute à l'Épiphanie, genou", "Chute à l', genou"),
        ("दिवाली पर गिरा", "पर गिरा"),
        ("勤労感謝の日に転倒", "に転倒"),
        ("Kontrast reddedildi, onam alındı", "Kontrast reddedildi, onam alındı"),
    ],
)
def test_public_holidays_of_all_countries_are_dates(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Consenso firmato il 25 c.m.", "Consenso firmato il"),
        ("Aufgenommen am 12. d. M., Sturz", "Aufgenommen am, Sturz"),
        ("Ingreso el 14 del corriente, caída", "Ingreso el, caída"),
        ("15 числа упал", "упал"),
        ("本月15日跌倒", "跌倒"),
    ],
)
def test_a_day_of_this_month_is_a_date(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("упал во вторник, ушиб", "упал, ушиб"),
        ("חום מיום שלישי", "חום"),
        ("सोमवार को गिरा", "को गिरा"),
        ("上周五跌倒", "跌倒"),
        ("水曜日に転倒", "に転倒"),
        ("월요일 낙상, 대퇴골 골절", "낙상, 대퇴골 골절"),
        ("Fell on Mon, wrist pain", "Fell on, wrist pain"),
    ],
)
def test_a_weekday_is_a_date_in_any_script(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize("text", ["каждый год в среднем", "每周检查", "first day of treatment"])
def test_what_only_looks_like_a_weekday_or_feast_is_kept(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Pacjentka lat 92, udar", "Pacjentka lat, udar"),
        ("Mujer de 92 a. con ictus", "Mujer de a. con ictus"),
        ("M/94 chest pain", "M/ chest pain"),
        ("She is 93, frail", "She is, frail"),
        ("Woman in her 90s", "Woman in her"),
        ("Age 093Y, fall", "Age Y, fall"),
        ("muž, 94r, pád", "muž, r, pád"),
        ("больной 92 г., ОНМК", "больной г., ОНМК"),
        ("94-jarige vrouw met fractuur", "jarige vrouw met fractuur"),
        ("96-årig kvinna, fraktur", "kvinna, fraktur"),
        ("92-letni pacjent, udar", "letni pacjent, udar"),
        ("pacienta de 92 de ani", "pacienta de de ani"),
        ("92.8 years old, fall", "years old, fall"),
    ],
)
def test_an_age_over_89_goes_in_the_abbreviations_of_any_language(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    "text", ["Patient 95 kg, 172 cm", "female 94 bpm", "EF 95%, HR 94", "lat 90 view", "85-jarige vrouw"]
)
def test_a_quantity_beside_a_person_is_no_age(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("CT thorax,14:32,contrast", "CT thorax,contrast"),
        ("CT,25 Oct,contrast", "CT,contrast"),
        ("F,92 yo,CT thorax", "F, yo,CT thorax"),
        ("腹部CT，14:32，增强", "腹部CT，增强"),
        ("女，93岁，腹部CT", "女， 岁，腹部CT"),
    ],
)
def test_a_comma_without_a_space_hides_neither_a_date_nor_an_age(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left
