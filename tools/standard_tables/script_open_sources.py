"""Read the open word lists of Greek, Arabic, Hebrew and Hindi.

Each function takes the folder of unpacked packages; ``VOCABULARY.md`` lists them with licenses and digests.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from medsanitize.sanitize.text.scripts.characters import WORD
from medsanitize.tools.standard_tables.script_sources import strings, translations

_FOLDERS = {
    "ar": {"ar", "ar_SA"},
    "el": {"el", "el_GR"},
    "he": {"he", "he_IL"},
    "hi": {"hi", "hi_IN", "hi-in"},
}
_PACKAGES = ("django", "wagtail", "airflow", "kolibri", "jupyterlab_language_pack_*")
_TRANSLATED = re.compile(r'msgstr(?:\[\d\])? ((?:"[^\n]*"\n)+)')


def words(folder: Path, language: str) -> set[str]:
    """Return the words of translated texts, and function words."""
    return translations(folder, language) | _localized(folder, language) | _stop_words(folder, language)


def lists(folder: Path, language: str) -> set[str]:
    """Return the forms of a corpus or pronunciation dictionary, names among them; none of Hebrew."""
    if language == "ar":
        return _arabic(folder)
    if language == "hi":
        path = next(folder.rglob("hindilemmatizer/data/totalWords.txt"))
        return set(path.read_text(encoding="utf-8", errors="replace").split())
    return _greek(folder) if language == "el" else set()


def medical(folder: Path, language: str) -> set[str]:
    """Return the words of diseases, parts of the body, tests, devices and medicines of hebsafeharbor."""
    if language != "he":
        return set()
    found: set[str] = set()
    for name in ("body_parts", "disease", "lab_tests", "medical_device", "medical_tests", "medications"):
        path = next(folder.rglob(f"hebsafeharbor/lexicons/{name}.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(_split(node.value))
    return found


def _greek(folder: Path) -> set[str]:
    """Return the words without a capital in a Greek corpus, and the lemmas, of spacy-lookups-data."""
    path = next(folder.rglob("spacy_lookups_data/data/el_lexeme_prob.json.gz"))
    counted = json.loads(gzip.decompress(path.read_bytes()))
    lemmas = json.loads(gzip.decompress(path.with_name("el_lemma_index.json.gz").read_bytes()))
    small = {word for word in counted if word == word.lower()}
    return small | {word for kind in lemmas.values() for word in kind}


def hebrew_names(folder: Path) -> set[str]:
    """Return the names of hebrew-names, from the census of Israel."""
    found: set[str] = set()
    for path in folder.rglob("hebrew_names/dist.*.*"):
        for line in path.read_text(encoding="utf-16").splitlines():
            found.update(_split(line.split("\t")[0]))
    return found


def _arabic(folder: Path) -> set[str]:
    path = next(folder.rglob("gruut_lang_ar/lexicon.db"))
    with sqlite3.connect(path) as database:
        return {word for (word,) in database.execute("SELECT DISTINCT word FROM word_phonemes")}


def _stop_words(folder: Path, language: str) -> set[str]:
    path = next(folder.rglob("stopwordsiso/stopwords-iso.json"))
    return {
        word for phrase in json.loads(path.read_text(encoding="utf-8"))[language] for word in _split(phrase)
    }


def _localized(folder: Path, language: str) -> set[str]:
    """Return the words of the translations of Django, Wagtail, Airflow, Kolibri and JupyterLab."""
    found: set[str] = set()
    for package in _PACKAGES:
        for path in _paths(folder, package, _FOLDERS[language]):
            text = path.read_text(encoding="utf-8")
            texts = strings(json.loads(text)) if path.suffix == ".json" else _TRANSLATED.findall(text)
            for one in texts:
                found.update(_split(one))
    return found


def _paths(folder: Path, package: str, languages: set[str]) -> Iterator[Path]:
    for root in sorted(folder.glob(f"localized/{package}")):
        for path in sorted(root.rglob("*")):
            if path.suffix in (".po", ".json") and languages.intersection(path.parts):
                yield path


def _split(text: str) -> list[str]:
    return re.findall(f"{WORD}+", text)
