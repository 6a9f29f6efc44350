"""Image markers are kept, unless the patient or another word of the line makes them a name."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

CLEANER, NOBODY = TextCleaner(TextSection()), compile_terms(())


@pytest.mark.parametrize(
    "line",
    [
        "ASSIS",
        "BIPEDESTACION",
        "Page 1/3",
        "RAO 30",
        "PSV 45 cm/s",
        "STOJAC",
        "VLEŽE",
        "HOJRE",
        "LVIDd 4.5 cm",
    ],
)
def test_positions_settings_and_measures_in_an_image_do_not_identify(line: str) -> None:
    assert not CLEANER.identifying(line, NOBODY, noisy=True)


def test_a_patient_named_like_an_image_marker_is_found() -> None:
    assert CLEANER.identifying("ASSIS", compile_terms([KnownValue("name", "ASSIS^MARIA")]), noisy=True)


@pytest.mark.parametrize("line", ["ASSIS GRZBOWSKA", "Page, Larkington"])
def test_an_image_marker_next_to_an_unknown_word_identifies(line: str) -> None:
    assert CLEANER.identifying(line, NOBODY, noisy=True)


def test_an_image_marker_that_is_a_name_is_removed_from_a_sentence() -> None:
    assert CLEANER.identifying("ASSIS", NOBODY, noisy=False)
