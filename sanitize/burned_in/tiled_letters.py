"""Text that is spelled over the tiles of a mosaic, one letter in each: no tile alone shows a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.classify import LEGIBLE
from medsanitize.sanitize.burned_in.line_checks import SURE
from medsanitize.sanitize.burned_in.spelled_lines import ORIENTATION_MARKERS, by_lines
from medsanitize.sanitize.formats.dicom.image_pixel import Area

# Different letters of a row that spell something. Fewer may be the names of three views.
_FEWEST = 4
# Tiles are wider than a letter; letters of a word are nearer to each other, and read together.
_APART = 1.6
# Of the distance between tiles: letters are of different widths.
_TOLERANCE = 0.15
# Half the width of a letter and its margin, of the height of a read box.
_HALF = 0.7


def tiled_areas(boxes: Sequence[TextBox], shape: tuple[int, int]) -> tuple[Area, ...]:
    """Return the places of all tiles where the letters of a mosaic stand, whether they were read or not.

    Parameters
    ----------
    boxes : sequence of TextBox
        What was read in a frame.
    shape : tuple of int
        Rows and columns of the frame.
    """
    letters = [box for box in boxes if box.score >= LEGIBLE and _is_letter(box)]
    rows = list(by_lines([(0, box) for box in letters]))
    found = []
    for row in rows:
        line = _unique([box for _, box in row if box.score >= SURE])
        distance = _distance(line)
        if distance and _is_spelled(line):
            found.append((line[0], distance))
    return tuple(area for first, distance in found for area in _places(first, distance, rows, shape))


def _is_letter(box: TextBox) -> bool:
    return len(box.text.strip()) == 1 and box.text.strip().isalnum()


def _middle(box: TextBox) -> float:
    return (box.left + box.right) / 2


def _unique(line: Sequence[TextBox]) -> list[TextBox]:
    """Return a row from left to right, without second readings of a letter."""
    kept: list[TextBox] = []
    for box in sorted(line, key=_middle):
        if not kept or _middle(box) - _middle(kept[-1]) > box.height / 2:
            kept.append(box)
    return kept


def _distance(line: Sequence[TextBox]) -> float:
    """Return the distance between tiles, of which those between letters are multiples, or 0."""
    steps = [_middle(right) - _middle(left) for left, right in pairwise(line)]
    least = min(steps, default=0.0)
    if len(line) < _FEWEST or least < _APART * max(box.height for box in line):
        return 0.0
    tiles = [round(step / least) for step in steps]
    if any(abs(step / least - many) > _TOLERANCE * many for step, many in zip(steps, tiles, strict=True)):
        return 0.0
    return (_middle(line[-1]) - _middle(line[0])) / sum(tiles)


def _is_spelled(line: Sequence[TextBox]) -> bool:
    """Return whether letters differ, and are neither markers nor a count such as A B C D or 0 2 4 6."""
    texts = [box.text.strip().upper() for box in line]
    steps = {ord(after) - ord(before) for before, after in pairwise(texts)}
    return len(set(texts)) >= _FEWEST - 1 and not set(texts) <= ORIENTATION_MARKERS and len(steps) > 1


def _places(
    first: TextBox, distance: float, rows: Sequence[Sequence[tuple[int, TextBox]]], shape: tuple[int, int]
) -> Iterator[Area]:
    """Yield the places of a row's letters in all tiles, in every row that has one of them there."""
    height, columns = shape
    side = max(box.height for row in rows for _, box in row)
    half = _HALF * side
    start = _middle(first) % distance
    middles = [start + distance * number for number in range(int((columns - start) // distance) + 1)]
    for row in rows:
        boxes = [box for _, box in row]
        if not any(abs(_middle(box) - middle) <= side / 2 for box in boxes for middle in middles):
            continue
        top = max(0, min(box.top for box in boxes) - side // 4)
        bottom = min(height, max(box.bottom for box in boxes) + side // 4)
        for middle in middles:
            yield max(0, round(middle - half)), top, min(columns, round(middle + half)), bottom
