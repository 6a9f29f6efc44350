"""Abbreviations of medicine and products are kept; initials and names are not."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

CLEANER, NOBODY = TextCleaner(TextSection(action="clean")), compile_terms([])


@pytest.mark.parametrize(
    "text",
    [
        "LVH and RVH, LVEDD 58 mm, PASP 40 mmHg",
        "SCFE with DDH, status post ACDF",
        "ADPKD, CHD, GGO in RLL",
        "RNFL thinning, CME, CNV",
        "NSCLC under Keytruda, HCC after Nexavar",
        "Viabahn and Xience stents, Biotronik pacemaker",
    ],
)
def test_abbreviations_and_products_are_kept(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("read by KVW, CHEST PA", "read by, CHEST PA"),
        ("Seen by Dr. Amd, chest", "Seen by Dr. chest"),
        ("Chop, Anna: chest", "chest"),
        ("Dr. Stryker, knee", "Dr. knee"),
    ],
)
def test_initials_and_names_are_cut(text: str, left: str) -> None:
    assert CLEANER.clean(text, NOBODY).text.replace(",", "") == left.replace(",", "")


def test_an_abbreviation_in_cyrillic_capitals_is_kept() -> None:
    text = "Инсульт, бассейн левой СМА, ТИА"
    assert TextCleaner(TextSection(action="clean")).clean(text, compile_terms([])).text == text
