"""Clinical words of Russian are known by the root that they share with other languages; names are not."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.script_words import fold_script
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms
from medsanitize.sanitize.text.morphology import is_clinical
from medsanitize.sanitize.text.scripts.loanwords import is_loanword


@pytest.mark.parametrize(
    "word", "экстравазация экссудаты макулярный бронхиолит трабекулярный гепатоспленомегалия".split()
)
def test_words_with_the_root_of_a_clinical_word_are_known(word: str) -> None:
    assert is_loanword(fold_script(word))


@pytest.mark.parametrize(
    "name", "Константинов Белозерцева Красноярский Вяземская Преображенский Митрофанова Гайнутдинов".split()
)
def test_names_are_not(name: str) -> None:
    assert not is_loanword(fold_script(name))


def test_such_a_word_is_kept_in_a_text() -> None:
    text = "выявлены твёрдые экссудаты и трабекулярный отёк"

    assert TextCleaner(TextSection(action="clean")).clean(text, compile_terms([])).text == text


@pytest.mark.parametrize("text", ["введено 80 мл Омнипак 350, без осложнений", "オムニパーク350を90ml静注"])
def test_contrast_agents_are_kept_with_their_concentration(text: str) -> None:
    assert TextCleaner(TextSection(action="clean")).clean(text, compile_terms([])).text == text


@pytest.mark.parametrize("word", ["reavaliada", "reavaliadas"])
def test_verbs_with_a_prefix_are_words(word: str) -> None:
    assert is_clinical(word)


@pytest.mark.parametrize("name", ["desjardins", "retamales", "reinhardt"])
def test_names_that_begin_like_a_prefix_are_not(name: str) -> None:
    assert not is_clinical(name)
