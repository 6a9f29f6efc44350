"""Readers of terminologies, and the tables that are generated from them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from medsanitize.policies.tables import vocabulary

terminologies = pytest.importorskip(
    "medsanitize.tools.standard_tables.terminologies",
    reason="the programs are in the source, not in the wheel",
)
SOURCES = {source.name: source for source in terminologies.TERMINOLOGIES}


def test_headings_are_read_without_qualifiers(tmp_path: Path) -> None:
    lines = "id,scheme,subject\nu/mesh/D1,MeSH,Asthma\nu/mesh/D1Q000031,MeSH,Asthma/blood\n"
    (tmp_path / "mesh.csv").write_text(lines, encoding="utf-8")
    assert list(SOURCES["MeSH"].read(tmp_path / "mesh.csv")) == ["Asthma"]


def test_names_and_synonyms_are_read_without_obsolete_ones(tmp_path: Path) -> None:
    lines = 'name: Renal cyst\nsynonym: "Kidney cyst" EXACT []\nname: obsolete Old term\nxref: X:1\n'
    (tmp_path / "hp.obo").write_text(lines, encoding="utf-8")
    assert list(SOURCES["HPO"].read(tmp_path / "hp.obo")) == ["Renal cyst", "Kidney cyst"]


def test_official_names_of_substances_are_read_as_words(tmp_path: Path) -> None:
    lines = "Name\tTYPE\tUNII\nOSIMERTINIB MESYLATE\tof\tA\n5-X.BETA.\tof\tB\nTAGRISSO\tbn\tA\n"
    (tmp_path / "names.txt").write_text(lines, encoding="utf-8")
    assert list(SOURCES["UNII"].read(tmp_path / "names.txt")) == ["osimertinib mesylate"]


def test_diseases_are_divided_by_the_prefix_of_their_identifier(tmp_path: Path) -> None:
    (tmp_path / "a.hpoa").write_text(
        "#x\nORPHA:1\tFabry disease\tx\nOMIM:2\tDeafness 2\tx\n", encoding="utf-8"
    )
    assert list(SOURCES["Orphanet"].read(tmp_path / "a.hpoa")) == ["Fabry disease"]
    assert list(SOURCES["OMIM"].read(tmp_path / "a.hpoa")) == ["Deafness 2"]


def test_titles_are_read_without_codes_in_brackets(tmp_path: Path) -> None:
    text = "<desc>Cholera &amp; more (A00-A09)</desc><note>carrier of cholera (Z22.1)</note>"
    (tmp_path / "cm.xml").write_text(text, encoding="utf-8")
    assert list(SOURCES["ICD-10-CM"].read(tmp_path / "cm.xml")) == ["Cholera & more"]
    assert list(SOURCES["ICD-10-CM notes"].read(tmp_path / "cm.xml")) == ["carrier of cholera"]


def test_translations_are_read_if_they_differ(tmp_path: Path) -> None:
    text = 'msgid "Cyst"\nmsgstr "Zyste"\n\nmsgid "Asthma"\nmsgstr "Asthma"\n\nmsgid "Gout"\nmsgstr ""\n'
    (tmp_path / "de.po").write_text(text, encoding="utf-8")
    assert list(SOURCES["ICD-10 de"].read(tmp_path / "de.po")) == ["Zyste"]


def test_terms_are_halved_by_their_digest() -> None:
    held = [term for term in map(str, range(1000)) if terminologies.in_half(term)]
    assert 400 < len(held) < 600
    assert held == [term for term in map(str, range(1000)) if terminologies.in_half(term)]


@pytest.mark.parametrize("name", ["clinical", "phrases"])
def test_tables_are_sorted_by_bytes_as_the_search_expects(name: str) -> None:
    lines = (files("medsanitize.policies.tables") / f"vocabulary_{name}.txt").read_bytes().splitlines()
    assert lines == sorted(set(lines))
    assert all(lines)


def test_words_of_the_tables_are_found() -> None:
    assert "autosomal" in vocabulary.clinical_words()
    assert "zollinger ellison syndrome" in vocabulary.phrases()
    assert "crohn" in vocabulary.eponyms()
    assert "crohn" not in vocabulary.clinical_words()


def test_the_model_has_a_signed_byte_for_each_weight() -> None:
    shape = vocabulary.word_shape()
    assert len(shape.weights) == 1 << 19
    assert min(shape.weights) < 0 < max(shape.weights)


def test_a_word_needs_less_likeness_where_names_are_rare() -> None:
    thresholds = vocabulary.word_shape().thresholds
    assert thresholds["any"] > thresholds["sentence"] > thresholds["small"]
