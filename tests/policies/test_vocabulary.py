"""The vocabulary keeps clinical words and passes no name, address, record number or marker."""

from __future__ import annotations

import re
import string
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.policies.tables import coded_concepts
from medsanitize.policies.tables.coded_concepts import known_code, plausible_code
from medsanitize.policies.tables.vocabulary import (
    defined_terms,
    device_models,
    fold,
    plausible_version,
    split_words,
    words,
)

FREQUENT_NAMES = re.findall(
    r"\w+",
    """
    Smith Johnson Williams Jones Brown Davis Miller Wilson Moore Taylor Anderson Thomas Jackson White
    Harris Martin Thompson Garcia Martinez Robinson Clark Rodriguez Lewis Lee Walker Hall Allen Young
    Hernandez King Wright Lopez Green Baker Adams Nelson Carter Mitchell Perez Roberts Turner Phillips
    Campbell Parker Evans Edwards Collins Stewart Morris Rogers Reed Cook Morgan Bell Murphy Bailey
    Rivera Cooper Richardson Cox Howard Ward Torres Peterson Gray Ramirez James Watson Brooks Kelly
    Sanders Price Bennett Wood Barnes Ross Henderson Coleman Jenkins Perry Powell Patterson Hughes
    Flores Washington Butler Simmons Foster Bishop Black Stone Rose Fox Hodgkin Paget Parkinson Müller
    Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Koch Bauer Richter Klein Wolf
    Neumann Schwarz Zimmermann Braun Krüger Hartmann Lange Dupont Durand Dubois Moreau Laurent Simon
    Michel Lefebvre Leroy Roux David Bertrand Morel Fournier Girard Bonnet Rossi Russo Ferrari Esposito
    Bianchi Romano Colombo Ricci Marino Greco Bruno Gallo Conti Costa Gonzalez Fernandez Sanchez Diaz
    Alvarez Moreno Muñoz Alonso Gutierrez Romero Navarro Silva Santos Oliveira Souza Pereira Lima
    Carvalho Jansen Bakker Visser Smit Mulder Nowak Kowalski Wiśniewski Novák Svoboda Yılmaz Kaya Demir
    Nguyen Tran Pham Kim Park Choi Wang Zhang Chen Yang Huang Zhao Sato Suzuki Takahashi Tanaka Watanabe
    Ivanov Petrov Maria Anna Peter Thomas Julia Michael Sarah Emma Lukas Mohammed Ahmed London Paris
    Berlin Madrid Boston Chicago Heidelberg Amsterdam Houston Victoria Street Avenue Hospital Klinik
    Universität
    """,
)


LISTED_WITH_DIGITS = {word for word in words() if re.fullmatch(r"[a-z]{0,2}[0-9]{3,5}", word)}


def passes(text: str) -> bool:
    """The token rule of the caller."""
    return all(fold(word) in words() or (word.isdigit() and len(word) <= 2) for word in split_words(text))


@pytest.mark.parametrize(
    "text",
    [
        "CT CHEST ABDOMEN PELVIS W/WO CONTRAST",
        "MRI BRAIN WITHOUT AND WITH GADOLINIUM",
        "Ax T2 FLAIR fs post",
        "t1_mprage_sag_p2_iso",
        "ep2d_diff_b1000_TRACEW",
        "XR KNEE LEFT AP LAT 3 VIEWS",
        "US OB SECOND TRIMESTER",
        "PET CT SKULL BASE TO MID THIGH",
        "Schädel nativ, Schicht",
        "Rx tórax PA y lateral",
        "Radiografia del torace",
        "Échographie abdominale",
        "Röntgen thorax staand",
        "MAMMOGRAM SCREENING BILATERAL MLO CC TOMOSYNTHESIS",
        "Lung 1.5mm B60f axial",
        "evaluate for pulmonary embolism",
        "hip pain, rule out fracture",
        "Hematoxylin and eosin, brightfield, 40x",
        "short axis, long axis, 4CH cine",
        "left lower lobe nodule follow up",
    ],
)
def test_clinical_text_passes(text: str) -> None:
    assert passes(text), [word for word in split_words(text) if fold(word) not in words()]


@pytest.mark.parametrize("name", FREQUENT_NAMES)
def test_frequent_names_are_not_words(name: str) -> None:
    assert fold(name) not in words()


@given(st.from_regex(re.compile(r"[A-Z]{2}[0-9]{5}[A-Z]|[A-Z]{0,2}[0-9]{3,9}", re.ASCII), fullmatch=True))
def test_markers_and_record_numbers_do_not_pass(marker: str) -> None:
    assert not passes(marker) or marker.lower() in LISTED_WITH_DIGITS


def test_words_with_more_than_two_digits_in_a_row_are_defined_ones() -> None:
    assert len(LISTED_WITH_DIGITS) < 60
    assert not [word for word in words() if re.fullmatch(r"[a-z]{0,2}\d{5,}[a-z]?", word)]


def test_ages_are_not_words() -> None:
    assert not {f"{age}{sort}" for age in range(20, 100) for sort in "fmy"} & words()


def test_words_are_sorted_lower_case_and_without_separators() -> None:
    assert all(word == fold(word) and split_words(word) == [word] for word in words())


def test_lists_load_fast_without_heavy_imports() -> None:
    script = (
        "import time, sys; import medsanitize.policies.tables.vocabulary as v\n"
        "start = time.process_time(); v.words(); v.device_models(); v.defined_terms()\n"
        "print(time.process_time() - start, 'pydicom' in sys.modules)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        for _ in "123"
    ]
    times = sorted(float(run.stdout.split()[0]) for run in runs)
    assert times[0] < 0.06
    assert all(run.stdout.split()[1] == "False" for run in runs)


@pytest.mark.parametrize(
    "phrase",
    [
        "GE MEDICAL SYSTEMS",
        "LightSpeed VCT",
        "TrioTim",
        "Aquilion ONE",
        "EPIQ 7C",
        "Aperio GT450",
        "3D Slicer",
        "Philips",
    ],
)
def test_manufacturers_and_products_are_known_as_whole_phrases(phrase: str) -> None:
    assert fold(phrase) in device_models()


def test_defined_terms_cover_modality_position_and_body_part() -> None:
    terms = defined_terms()
    assert {"CT", "MR", "SM", "OPT"} <= terms[0x00080060]
    assert "HFDR" in terms[0x00185100]
    assert "CHESTABDPELVIS" in terms[0x00180015]


@pytest.mark.parametrize(
    "version",
    [
        "VE10B",
        "syngo MR E11",
        "5.00.02",
        "V8.32ER009",
        "LightSpeedApps308I.2_H3.1M5",
        "V3.51*P25",
        "1.5.6.850",
    ],
)
def test_released_versions_are_plausible(version: str) -> None:
    assert plausible_version(version)


@pytest.mark.parametrize(
    "text",
    [
        "ZQ00012X",
        "A1234567",
        "12345678",
        "10.20.130.14",
        "1970-05-13",
        "13.05.1970",
        "Smith v1.0",
        "a123456",
        "123456f",
    ],
)
def test_identifiers_are_not_versions(text: str) -> None:
    assert not plausible_version(text)


def test_codes_of_the_standard_have_meanings() -> None:
    assert "Liver" in (known_code("SCT", "10200004") or ())
    assert "Liver" in (known_code("SRT", "T-62000") or ())
    assert known_code("SNM3", "T-62000") == known_code("SRT", "T-62000")
    assert "millimeter" in (known_code("UCUM", "mm") or ()) or "mm" in (known_code("UCUM", "mm") or ())
    assert known_code("RFC3066", "de") == ("German",)
    assert known_code("SCT", "12345") is None


def test_long_snomed_concept_ids_have_a_valid_check_digit() -> None:
    codes = [value for scheme, value in coded_concepts._meanings() if scheme == "SCT"]
    failing = [value for value in codes if not coded_concepts._sct(value)]
    assert len(failing) < len(codes) / 500


@pytest.mark.parametrize(
    ("scheme", "value"),
    [
        ("SCT", "80891009"),
        ("SCT", "71341001"),
        ("LN", "18782-3"),
        ("SRT", "T-D0050"),
        ("99SDM", "G-D101"),
        ("DCM", "113690"),
        ("UCUM", "ml/100ml/s"),
        ("UCUM", "mm2/s"),
        ("UCUM", "{ratio}"),
        ("UCUM", "g/ml"),
        ("RADLEX", "RID1301"),
        ("I10", "C34.90"),
        ("SCPECG", "5.10.3-1"),
        ("RFC5646", "fr"),
    ],
)
def test_codes_of_standard_schemes_are_plausible(scheme: str, value: str) -> None:
    assert plausible_code(scheme, value)


@pytest.mark.parametrize(
    ("scheme", "value"),
    [
        ("SCT", "80891008"),
        ("SCT", "12345678"),
        ("LN", "18782-4"),
        ("DCM", "ZQ00012X"),
        ("SRT", "ZQ00012X"),
        ("UCUM", "{ZQ00012X}"),
        ("UCUM", "12345"),
        ("99LOCAL", "CT0001"),
        ("RXNORM", "123456"),
        ("", "2501"),
        ("I10", "A1234567"),
    ],
)
def test_other_values_are_not_plausible(scheme: str, value: str) -> None:
    assert not plausible_code(scheme, value)


@given(st.text(string.digits, min_size=6, max_size=12), st.integers(1, 9))
def test_a_changed_check_digit_is_never_a_snomed_code(body: str, step: int) -> None:
    changed = body[:-1] + str((int(body[-1]) + step) % 10)
    assert not (coded_concepts._sct(body) and coded_concepts._sct(changed))


@given(st.text(min_size=1, max_size=40))
def test_no_text_crashes_the_checks(text: str) -> None:
    for scheme in ("SCT", "LN", "UCUM", "SRT", "DCM", text):
        assert plausible_code(scheme, text) in (True, False)
    assert plausible_version(text) in (True, False)
