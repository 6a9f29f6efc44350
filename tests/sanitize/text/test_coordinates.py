"""Geographic coordinates are cut, and other numbers with degrees or many decimals are kept."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms

CLEANER, NOBODY = TextCleaner(TextSection(action="clean")), compile_terms([])


@pytest.mark.parametrize(
    "place",
    [
        "47.37689 N, 8.54169 E",
        "N 59.91387 E 10.75225",
        "-23.55052, -46.63331",
        "lat 59.9138, long 10.7522",
        "GPS: 35.68, 139.69",
        "55°45'21\"N 37°37'04\"E",
        "59°54′49″N 10°45′8″E",
        "9C3XGV5G+2X",
        "///limit.broom.flip",
        "w3w: limit.broom.flip",
    ],
)
def test_a_place_on_earth_is_cut(place: str) -> None:
    left = CLEANER.clean(f"Found at {place}; hypothermia", NOBODY).text

    assert not any(char.isdigit() for char in left.replace("w3w", ""))
    assert not any(part in left for part in ("limit", "GV", "N "))
    assert "hypothermia" in left


@pytest.mark.parametrize(
    "text",
    [
        "flexion 15° to 120°",
        "Cobb angle 32°, kyphosis 40°",
        "ADC 0.8125 x 10-3",
        "lat 2.5 cm",
        "thickness 0.625 mm",
        "gantry 15° 30' tilt",
    ],
)
def test_angles_and_measurements_are_kept(text: str) -> None:
    assert CLEANER.clean(text, NOBODY).text == text
