"""A name of which each tile of a mosaic shows one letter is found; markers and counts are not."""

from __future__ import annotations

import pytest
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.tiled_letters import tiled_areas

SHAPE = (512, 512)


def _row(letters: str, top: int = 40, step: int = 128, score: float = 0.99) -> list[TextBox]:
    return [
        TextBox(50 + step * place, top, 80 + step * place, top + 36, letter, score)
        for place, letter in enumerate(letters)
        if letter != " "
    ]


def _is_covered(areas: tuple[tuple[int, int, int, int], ...], box: TextBox) -> bool:
    return any(
        area[0] <= box.left and area[1] <= box.top and area[2] >= box.right and area[3] >= box.bottom
        for area in areas
    )


def test_letters_of_tiles_are_found_in_every_row() -> None:
    rows = [*_row("WERN"), *_row("ESKY", top=168)]
    areas = tiled_areas(rows, SHAPE)
    assert [box for box in rows if not _is_covered(areas, box)] == []


def test_a_tile_whose_letter_was_not_read_is_blanked_as_well() -> None:
    seen = [*_row("WERN"), *_row("E  Y", top=168, score=0.7)]
    areas = tiled_areas(seen, SHAPE)
    assert [box for box in _row("ESKY", top=168) if not _is_covered(areas, box)] == []


def test_a_missing_letter_within_the_row_does_not_hide_the_others() -> None:
    row = _row("WE NSK", step=80)
    assert [box for box in row if not _is_covered(tiled_areas(row, SHAPE), box)] == []


@pytest.mark.parametrize(
    "boxes",
    [
        _row("RLRL"),
        _row("ARHP"),
        _row("ABCD"),
        _row("0246"),
        _row("RRRR"),
        _row("TCS", step=160),
        _row("WERN", step=40),
        [box for place, letter in enumerate("WERN") for box in _row(letter, top=40 + 100 * place)],
        [],
    ],
    ids=[
        "sides",
        "orientation",
        "panels",
        "scale",
        "one marker",
        "three views",
        "a word",
        "a column",
        "none",
    ],
)
def test_markers_counts_and_words_are_no_tiled_letters(boxes: list[TextBox]) -> None:
    assert tiled_areas(boxes, SHAPE) == ()
