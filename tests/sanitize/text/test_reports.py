"""Terms of reports that stay, and the names next to them that do not."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

NOBODY = compile_terms([])


@pytest.fixture(scope="module")
def cleaner() -> TextCleaner:
    """A cleaner without rules of a site."""
    return TextCleaner(TextSection(action="clean"))


@pytest.mark.parametrize(
    "text",
    [
        "liseré en zone 7 de Gruen, descellement cotyloïdien",
        "Lockerung der Zone 3 nach Gruen, keine Fraktur",
        "киста Бейкера, мыщелок без изменений",
        "Bakerova cysta, torbiel Bakera, Baker kisti",
        "Z.n. Hartmann-OP, distendierte Schlingen",
        "Murphy ecográfico negativo, vía biliar no dilatada",
        "FEVI 40 %, IAo ligera, PgR 40 %",
        "infiltrat basalt vä, CRP 140",
        "Zahn 48 retiniert und verlagert",
        "Verdichtung im Unterlappen li., Vergleich mit Voraufnahme",
    ],
)
def test_terms_stay(cleaner: TextCleaner, text: str) -> None:
    assert cleaner.clean(text, NOBODY).text == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Disease Crohn, Anna Weber", "Weber"),
        ("Murphy positive for flu, seen in clinic", "Murphy"),
        ("The study was discussed with the team, li agrees.", "li"),
        ("врач Бейкера, болезнь Крона", "Бейкера"),
        ("lyse de L3, patient Thibault Quenouille", "Quenouille"),
        ("secondary caries, referred by Tamarind Dental, Bexley Road", "Tamarind"),
        ("kemik kaybı, Huzur Bakımevi sakini", "Huzur"),
        ("verwezen door Tandartspraktijk De Molenwiek", "Molenwiek"),
        ("수평 골소실, 햇살치과 의뢰", "햇살"),
        ("水平性骨吸収、紹介元 ひまわり歯科医院", "ひまわり"),
        ("转诊自阳光口腔门诊", "阳光"),
        ("在人民公园摔倒，股骨颈骨折", "人民"),
        ("Resektionsränder tumorfrei, Journal-Nr. H/21/04417", "H/"),
    ],
)
def test_names_beside_terms_are_cut(cleaner: TextCleaner, text: str, name: str) -> None:
    assert name in text
    assert name not in cleaner.clean(text, NOBODY).text


def test_an_address_is_cut_without_its_label(cleaner: TextCleaner) -> None:
    assert (
        cleaner.clean("Wohnhaft Am Mühlgraben 3a, 04107 Leipzig, Gonarthrose", NOBODY).text
        == "Wohnhaft, Gonarthrose"
    )
    assert cleaner.clean("住址江苏省盐城市亭湖区希望大道12号，跌倒", NOBODY).text == "住址，跌倒"
