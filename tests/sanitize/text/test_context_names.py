"""Employers, schools, ships, clubs, wards, rooms and weekdays are cut whole."""

from __future__ import annotations

import time

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

NOBODY = compile_terms([])
CLEANER = TextCleaner(TextSection(action="clean"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Retired worker at Northgate Shipyards, pleural plaques", "Retired worker at, pleural plaques"),
        ("works at summit steel, chronic cough", "works at, chronic cough"),
        ("WORKER AT SUMMIT STEEL, CHRONIC COUGH", "WORKER AT, CHRONIC COUGH"),
        ("Arbeitet für Stahlbau Neue Brücke, Husten", "Arbeitet für, Husten"),
        ("Travaille pour Acier Sommet, toux", "Travaille pour, toux"),
        ("Trabaja para Aceros Cumbre, tos", "Trabaja para, tos"),
        ("Lavora per Acciai Vetta, tosse", "Lavora per, tosse"),
        ("Estuda na Escola Verde, tosse", "Estuda na, tosse"),
        ("Werkt bij Bakkerij De Molen, hoest", "Werkt bij, hoest"),
        ("Pracuje dla Stal Szczyt, kaszel", "Pracuje dla, kaszel"),
        ("Arbetar för Stål Toppen, hosta", "Arbetar för, hosta"),
        ("Employer: Pacific Foods, shoulder pain", "Employer:, shoulder pain"),
        ("Injured at work at Union Metal Works, crushed finger", "Injured at work at, crushed finger"),
        ("Lärare på Gröna Ängens skola, knöl", "Lärare på, knöl"),
        ("Wypadek w pracy w firmie Metal Unia, zmiażdżenie", "Wypadek w pracy w firmie, zmiażdżenie"),
        ("Bramkarz Zielonych, złamanie", "Bramkarz, złamanie"),
        ("Attends Oak Hill High School, knee injury", "Attends, knee injury"),
        ("Patient in room 214, bed 4", "Patient in"),
        ("Verlegung von Station 7B", "Verlegung von"),
        ("Revisión en consulta 27, tos", "Revisión en, tos"),
        ("Douleur, cabinet 3, toux", "Douleur, toux"),
        ("Vervolg op poli 3, hoest", "Vervolg op, hoest"),
        ("Кашель, койка 3", "Кашель, койка"),
        ("診察室2、咳", "診察室、咳"),
        ("진료실 3, 기침", "진료실, 기침"),
        ("Please send to Maple Ward, no contrast", "Please send to, no contrast"),
        ("Fell on Monday the 3rd of May, wrist pain", "Fell on, wrist pain"),
        ("Kontrolle am Montag, dem 3., Drainage entfernt", "Kontrolle am, Drainage entfernt"),
        ("Last scan on the 14th, unchanged nodule", "Last scan on, unchanged nodule"),
        ("Markers performed, CLIA 05D0987654", "Markers performed"),
        ("CAP number 7654321, tumor cells", "tumor cells"),
        ("Biopsy at Harbor Light Center, benign", "Biopsy at, benign"),
        ("Prior study from Silver Creek Radiology, unchanged", "Prior study from, unchanged"),
        ("Blut an Labor, Befund vom Nordstern Zentrum, normal", "Blut an Labor, Befund vom, normal"),
        ("Laborer at Rosyth Dockyard, pleural plaques", "Laborer at, pleural plaques"),
        ("Soldat im Bataillon Neuer Turm, Knieschmerz", "Soldat im, Knieschmerz"),
        ("Séjour à l'Hôtel Beau Lac, chute", "Séjour à l', chute"),
        pytest.param("Goes by Little Joe, chest pain", "Goes by, chest pain", marks=pytest.mark.text),
        ("Rufname Bärli, Husten", "Rufname, Husten"),
        ("Apodada La Morena, tos", "Apodada, tos"),
        ("Known as Shorty, back pain", "Known as, back pain"),
        ("Registration LX19 KPD, crash victim", "Registration, crash victim"),
        ("Kennzeichen M-XY 482, Unfall", "Kennzeichen, Unfall"),
        ("username: jfields, portable", "username:, portable"),
        ("Telegram j.fields_81, cough", "Telegram, cough"),
    ],
)
def test_names_known_by_the_words_next_to_them_are_cut_whole(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    "text",
    [
        "Also known as Crohn disease",
        "growth plate L4, plate fixation",
        "plate 3.5 mm, 12 screws",
        pytest.param("obtained by PA Chest view", marks=pytest.mark.text),
        "followed by PA and lateral",
        "referred to Fertility Center, cyst",
        "seen in Abdominal Imaging, biopsy",
        pytest.param("metastasis in Left Upper Group of nodes", marks=pytest.mark.text),
        "PET bed position 3, 7 beds in total",
        "bed 2 of 6",
        "Fracture of the 3rd rib and the 2nd toe",
        "on the 2nd and 3rd image",
        "works at a computer, neck pain",
        "works at night",
        "Dialysis on Tuesdays, fistula in the left forearm",
        "stable on room air",
        "T2 sagittal, level L4/5",
        "Primera consulta 2 semanas después de la cirugía",
        "Zweite Konsultation 2 Wochen später",
        "Clínica: dolor torácico",
    ],
)
def test_clinical_words_next_to_places_are_kept(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize("piece", ["works at Oak ", "Oak School ", "room ", "CAP AB-", "Monday the 3rd of "])
def test_time_is_linear_in_the_length_of_a_text(piece: str) -> None:
    start = time.process_time()

    CLEANER.clean(piece * (8000 // len(piece)), NOBODY)

    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Afd. C5, X-thorax", "X-thorax"),
        ("Rm 12A CXR", "CXR"),
        ("4 West CXR", "CXR"),
        ("3病棟 胸部撮影", "病棟 胸部撮影"),
        ("मकान 14, गली 3", "मकान, गली"),
    ],
)
def test_wards_and_houses_go_in_their_abbreviations(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Nr rej. PO 4KX81, wypadek", "Nr rej., wypadek"),
        ("Авто А 441 КР 37, ДТП", "Авто, ДТП"),
        ("SPZ 5C2 8813, nehoda", "nehoda"),
        ("bil KTL 82H, olycka", "bil, olycka"),
        ("차량 12가 3456, 사고", "차량, 사고"),
        ("Reg.nr KTL 82H, olycka", "Reg.nr, olycka"),
        ("Véhicule AB-344-RK, accident", "Véhicule, accident"),
        ("Fahrzeug B-MW 1234, Unfall", "Fahrzeug, Unfall"),
    ],
)
def test_plates_of_further_countries_are_cut(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left
