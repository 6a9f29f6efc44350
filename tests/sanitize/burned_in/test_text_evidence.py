"""Letters are counted only until they decide whether a piece is text; the decision is that of all letters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.sanitize.burned_in.letter_ink import count_letters
from medsanitize.sanitize.burned_in.text_evidence import POSSIBLE, TEXT, evidence, letters_needed, log_odds
from PIL import Image, ImageDraw, ImageFont


@given(
    st.floats(0, 1), st.floats(1, 100), st.integers(0, 200), st.sampled_from((TEXT, POSSIBLE)), st.booleans()
)
def test_a_piece_with_the_letters_needed_is_text_and_with_clearly_fewer_is_not(
    chance: float, length: float, ink: int, least: float, large: bool
) -> None:
    needed = letters_needed(chance, length, ink, least, large=large)
    assert log_odds(evidence(chance, length, needed, ink, large=large)) >= least
    if needed > 0.01:
        assert log_odds(evidence(chance, length, 0.99 * needed, ink, large=large)) < least


@given(st.text("ABEHKMRSW357", min_size=1, max_size=12), st.floats(0.1, 20))
@settings(max_examples=30, deadline=None)
def test_counting_stops_only_when_there_are_enough_letters(text: str, enough: float) -> None:
    pytest.importorskip("cv2")
    drawn = Image.new("L", (260, 40))
    ImageDraw.Draw(drawn).text((6, 8), text, fill=255, font=ImageFont.load_default(18))
    picture, inside = np.asarray(drawn), np.ones((40, 260), bool)
    counted, whole = count_letters(picture, inside, enough), count_letters(picture, inside)
    assert counted == whole if whole < enough else enough <= counted <= whole
