"""Clinical words are known in the spelling of every language, and names with the same letters are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.policies.model import TextSection
from medsanitize.policies.tables import vocabulary
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.cognates import SHORTEST_KEY, cognate_key, is_cognate
from medsanitize.sanitize.text.known_identifiers import compile_terms
from medsanitize.sanitize.text.lexicon import WordKind, reformed, word_kind

NOBODY = compile_terms([])
CLEANER = TextCleaner(TextSection(action="clean"))
ROOTS = [root for root in vocabulary.clinical_roots().lines.decode().split() if len(root) > 2 * SHORTEST_KEY]


@pytest.mark.parametrize(
    "spellings",
    [
        "pediculosis pedikulose pediculose pediculosi",
        "lymphocytic linfocítica linfocitico lymphocytique limfocytisk",
        "tularemia tularämie tularémie tularémia tularemi",
        "carcinoma karzinom carcinome karcinom carcinomas",
        "operation operación operação operazione operacja operationen",
        "stenosis stenose estenose estenosis stenosi stenoza",
        "myocardial myokardialer miocardiale myokardial miocardiales",
    ],
)
def test_the_spellings_of_a_word_have_one_key(spellings: str) -> None:
    assert len({cognate_key(word) for word in spellings.split()}) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Kokzidioidomykose der Lunge",
        "Sonstige Echinokokkose",
        "Necrobiose lipoídica",
        "Blefaroconjuntivite",
        "Estrongiloidíase intestinal",
        "Miringite crônica",
        "Estado de mal epiléptico com hemorragia subaracnóidea",
    ],
)
def test_a_clinical_word_is_kept_in_the_spelling_of_its_language(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@given(st.sampled_from(ROOTS), st.sampled_from(["", "a", "e", "o", "en", "es", "os", "um"]))
def test_an_ending_and_a_k_for_a_c_do_not_change_the_root(root: str, ending: str) -> None:
    word = root.replace("c", "k") + ending
    assert cognate_key(word) == cognate_key(root + ending)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyzäöüßéèêíóúçñøåœæł", min_size=1, max_size=40))
def test_a_key_is_no_longer_than_its_word_written_out(word: str) -> None:
    assert len(cognate_key(word)) <= len(word) + word.count("ß")


@given(st.sampled_from(sorted(vocabulary.eponyms())))
def test_the_name_in_a_term_is_no_spelling_of_a_word(name: str) -> None:
    assert not is_cognate(name)


@pytest.mark.parametrize(
    "name",
    ["Castellano", "Politis", "Papadopoulos", "Steinmetz", "Kowalczyk", "Carvalho", "Lindström"],
)
def test_a_name_by_itself_is_cut(name: str) -> None:
    assert CLEANER.clean(name, NOBODY).text.strip() == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("freqüente", "frequente"),
        ("tireóide", "tireoide"),
        ("diarréia", "diarreia"),
        ("gefäß", "gefäss"),
        ("gül", "gül"),
    ],
)
def test_the_spelling_before_a_reform_is_that_of_the_lists(before: str, after: str) -> None:
    assert reformed(before) == after


@pytest.mark.parametrize("word", ["freqüente", "Straßenverkehr", "sangüíneos"])
def test_a_word_in_the_spelling_before_a_reform_is_kept(word: str) -> None:
    assert word_kind(word) is WordKind.SAFE


@pytest.mark.parametrize("name", ["Weiß", "Preuß", "Gül", "Müllers", "Günthers", "Theodors"])
def test_a_name_is_not_kept_for_another_spelling_of_it(name: str) -> None:
    assert word_kind(name) is not WordKind.SAFE


@pytest.mark.parametrize(
    "word", ["Fettgewebsnekrose", "Monozytenleukämie", "Patellarsehne", "Perinatalperiode", "Landmaschinen"]
)
def test_a_german_compound_is_kept(word: str) -> None:
    assert word_kind(word) is WordKind.SAFE
