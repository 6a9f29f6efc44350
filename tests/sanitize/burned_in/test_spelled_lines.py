"""A name of which each frame shows one letter is found over all frames; markers are not."""

from __future__ import annotations

import pytest
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.spelled_lines import spelled_areas


def _letter(text: str, left: int, top: int = 20, score: float = 0.99) -> TextBox:
    return TextBox(left, top, left + 24, top + 30, text, score)


def test_letters_that_change_from_frame_to_frame_are_one_line() -> None:
    frames = [[_letter(letter, 20 + 30 * place)] for place, letter in enumerate("WEBY")]

    (area,) = spelled_areas(frames)

    assert area[0] <= 20
    assert area[2] >= 20 + 30 * 3 + 24


def test_the_line_includes_letters_that_were_not_read() -> None:
    frames = [[_letter("W", 20)], [], [_letter("B", 80)], [], [_letter("Y", 140)]]

    (area,) = spelled_areas(frames)

    assert area[0] < 50 < 110 < area[2]


@pytest.mark.parametrize(
    "frames",
    [
        [[_letter("R", 20), _letter("W", 60)] for _ in range(8)],
        [[_letter(letter, 20)] for letter in "ALPR"],
        [[_letter(letter, 20)] for letter in "1234"],
        [[_letter(letter, 20 + 30 * place, score=0.7)] for place, letter in enumerate("WEBY")],
        [[_letter("W", 20)], [_letter("B", 80, top=200)], [_letter("Y", 140, top=400)]],
        [],
    ],
    ids=["of every frame", "orientation", "counter", "uncertain", "apart", "no frames"],
)
def test_markers_counters_and_specks_are_no_spelled_line(frames: list[list[TextBox]]) -> None:
    assert spelled_areas(frames) == ()
