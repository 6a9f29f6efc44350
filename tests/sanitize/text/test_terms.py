"""Names inside clinical terms, scales and operations are kept; the same names of persons are cut."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms
from medsanitize.sanitize.text.terms import phrase_key
from medsanitize.sanitize.text.word_shape import resembles_no_name

NOBODY = compile_terms([])
CLEANER = TextCleaner(TextSection(action="clean"))


@pytest.mark.parametrize(
    "text",
    [
        "Charcot-Marie-Tooth disease",
        "Known Charcot-Marie-Tooth disease, type 2A",
        "Swan-Ganz catheter tip in the right pulmonary artery",
        "Status post Whipple procedure",
        "s/p Whipple, no collection",
        "Crohn's disease of the terminal ileum",
        "Bei M. Crohn",
        "Known Crohn, flare",
        "Morbus Perthes links",
        "Lisfranc injury",
        "Nodule follow-up per Fleischner guidelines",
        "Young-Simpson syndrome",
        "Creutzfeldt-Jakob disease",
        "Hirschsprung disease",
        "Wolff-Parkinson-White syndrome",
        "Diffuse Lewy body disease",
        "Niemann-Pick disease type C",
    ],
)
def test_a_name_inside_a_term_is_kept(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    "text",
    [
        "Gleason 4+3=7",
        "Prostate cancer, Gleason 4+3=7, PSA 12",
        "Bosniak IIF cyst left kidney",
        "Deauville 2",
        "Deauville score 4",
        "Child-Pugh B cirrhosis",
        "Kellgren-Lawrence grade 3",
        "Weber B fracture",
        "Schatzker IV",
        "Hinchey II diverticulitis",
        "BI-RADS 4a",
        "PI-RADS 3",
        "pT3a pN1 cM0",
        "L4/5 disc herniation",
        "Hounsfield units 45",
        "TE 90 TR 4000",
        "Nodule (IMA 8-34)",
        "Opacity in the left lower lobe (series 4, image 56)",
        "ALK, EGFR, KRAS, TTF1, DNA",
        "IDH1 mutated, MGMT methylated",
        "BRCA1 positive",
        "TOMO",
        "DBT left MLO",
        "CEA elevated",
        "T1 Dixon FS tra",
        "Topogramm",
        "RESTAGING CT",
        "Tomosynthese beidseits",
    ],
)
def test_scales_markers_and_techniques_are_kept(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Dr Crohn", "Crohn"),
        ("Dr. Whipple", "Whipple"),
        ("Mr Whipple for CT", "Whipple"),
        ("Patient: Crohn", "Crohn"),
        ("Seen by Dr Hodgkin", "Hodgkin"),
        ("Discussed with Dr Crohn about the disease", "Crohn"),
        ("Ms Baker", "Baker"),
        ("Mr Baker cyst removed", "Baker"),
        ("John Whipple procedure", "Whipple"),
        ("J. Whipple", "Whipple"),
        ("Frau Perthes", "Perthes"),
        ("Name: Baker", "Baker"),
        ("Herr Bosniak II", "Bosniak"),
        ("Dr. Weber B", "Weber"),
        ("Mrs Gleason 7", "Gleason"),
        ("Crohn", "Crohn"),
        ("WHIPPLE", "WHIPPLE"),
        ("Ordered by Lugano", "Lugano"),
        ("Mr. Young-Simpson", "Simpson"),
        ("seen after Whipple Allen", "Whipple"),
        ("John Smith syndrome follow-up", "Smith"),
        ("Miller knee", "Miller"),
        ("Anderson chest 2 views", "Anderson"),
        ("Harris 2 views chest", "Harris"),
        ("Patient Weber II", "Weber"),
        ("Seen after Ross left", "Ross"),
        ("M. Gaucher se plaint de lombalgies", "Gaucher"),
        ("Clark 3 week follow-up", "Clark"),
        ("Patient Keller disease-free since 2019", "Keller"),
        ("John Hess grade 3", "Hess"),
        ("Wilson heart failure", "Wilson"),
        ("SMITH KNEE", "SMITH"),
    ],
)
def test_the_name_of_a_person_is_cut(text: str, name: str) -> None:
    assert name not in CLEANER.clean(text, NOBODY).text


def test_a_term_is_cut_if_it_is_a_known_identifier() -> None:
    from medsanitize.sanitize.context import KnownValue

    terms = compile_terms([KnownValue("name", "Hodgkin^Paul")])
    assert "Hodgkin" not in CLEANER.clean("Hodgkin lymphoma, Paul", terms).text


@pytest.mark.parametrize("text", ["Jim", "Monday", "Wind"])
def test_a_word_that_is_a_name_is_cut_where_it_is_the_whole_text(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == ""


@pytest.mark.parametrize("word", ["hyperexpanded", "immunohistochemical", "colelitiasis"])
def test_unlisted_clinical_words_are_kept(word: str) -> None:
    assert CLEANER.clean(f"{word} noted", NOBODY).text == f"{word} noted"


@pytest.mark.parametrize("name", ["themistocleous", "bergmann", "kleinschmidt", "kowalczyk", "ng"])
def test_letters_of_names_are_not_those_of_words(name: str) -> None:
    assert not resembles_no_name(name)


def test_phrases_are_compared_without_the_ending_of_a_plural() -> None:
    assert phrase_key(["Crohn", "Diseases"]) == "crohn disease"
    assert phrase_key(["Situs", "Virus"]) == "situs virus"


@pytest.mark.parametrize(
    "text",
    [
        "Stokes-Adams, syncope",
        "Danis-Weber B.",
        "Schönlein-Henoch, petechiae",
        "Judet-Letournel, acetabulum",
        "Savary-Miller II, reflux",
        "Kimmelstiel-Wilson nodules",
    ],
)
def test_a_pair_of_names_that_only_terms_have_is_kept_by_itself(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Dr Stokes-Adams, syncope", "Dr, syncope"),
        ("Patient: Danis-Weber", "Patient:"),
        ("Stokes Adams, syncope", "syncope"),
    ],
)
def test_such_a_pair_is_cut_where_it_is_a_person(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == left


@pytest.mark.parametrize(
    "text",
    [
        "Gonarthrose Kellgren IV beidseits",
        "Linfoma di Hodgkin, Deauville 3 al controllo",
        "Pancreatite aguda Balthazar D",
        "Cisti renali Bosniak IIF a destra",
        "Bronchiectasis, Brooker 2 ossification",
    ],
)
def test_a_scale_with_its_grade_is_kept_within_a_sentence(text: str) -> None:
    assert TextCleaner(TextSection(action="clean")).clean(text, compile_terms([])).text == text
