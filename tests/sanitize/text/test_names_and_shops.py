"""Names in the forms of lists and labels, shops, homes, pet names and long surnames are cut."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

# Some of these sentences look like running text, for which the language model is asked as well.
pytestmark = pytest.mark.text

NOBODY = compile_terms([])
CLEANER = TextCleaner(TextSection(action="clean"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("LEE, H sag T1 post contrast", "sag T1 post contrast"),
        ("BERG, M Mammographie beidseits", "Mammographie beidseits"),
        ("ЛИ, О маммография, контроль", "маммография, контроль"),
        ("pt Fatima el A. brought in by ambulance", "pt. brought in by ambulance"),
        ("제갈 교수님 의뢰, 요로결석 의심", "교수님 의뢰, 요로결석 의심"),
        ("患儿豆豆，肺炎", "患儿，肺炎"),
        ("Dictated by Dr. Sarah Miller at 14:30", "Dictated by Dr. at"),
        ("Großmutter Adelheid begleitet das Kind", "Großmutter begleitet das Kind"),
    ],
)
def test_names_in_lists_and_beside_relations_are_cut(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Sturz vor Edeka Kessler in Hagen, Schenkelhalsfraktur", "Sturz vor, Schenkelhalsfraktur"),
        ("Potrącony przed Biedronką w Pruszczu Gdańskim, złamanie", "Potrącony przed, złamanie"),
        ("Påkörd utanför ICA Maxi i Nässjö, fraktur", "Påkörd utanför, fraktur"),
        ("Сбит автомобилем у «Пятёрочки» в Балашихе, перелом", "Сбит автомобилем у, перелом"),
        ("在永辉超市盐城店门口摔倒", "在 门口摔倒"),
        ("Bewohnerin des Seniorenstift Lindenhof, Dekubitus", "Bewohnerin des, Dekubitus"),
        ("Residente no Lar Nossa Senhora da Paz, pneumonia", "Residente no, pneumonia"),
        ("FRACTURE CLINIC RM 6, remove cast", "FRACTURE CLINIC, remove cast"),
        ("住夕阳红养老院，吸入性肺炎", "吸入性肺炎"),
        ("Приёмное отделение, бокс 6: боль в груди", "Приёмное отделение, бокс: боль в груди"),
        ("Cama 312-A, planta 3ª, control de sonda", "planta, control de sonda"),
        ("Woont Kerkstraat 112-II, 9712 AB Groningen, gevallen", "Woont, gevallen"),
        ("kein Vorhofflimmern, befundet am 4. d. M. von Wiesengrund", "kein Vorhofflimmern, befundet am von"),
    ],
)
def test_shops_homes_and_rooms_are_cut(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    "text",
    [
        "CHEST, L decubitus view",
        "RM 3 T du genou",
        "симптом «матового стекла» справа",
        "sténose serrée de l'IVA moyenne",
        "ICA stenosis of 70 %",
    ],
)
def test_sides_devices_and_signs_of_that_form_are_kept(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text
