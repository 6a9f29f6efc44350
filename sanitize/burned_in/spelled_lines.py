"""Text that is spelled over the frames of a loop, one letter in each: no frame alone shows a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.line_checks import SURE
from medsanitize.sanitize.formats.dicom.image_pixel import Area

# Different letters that make a line spelled.
_FEWEST = 3
# Orientation markers change as well, when a volume is turned.
ORIENTATION_MARKERS = frozenset("APLRHFSI")
# Ratio of the heights of letters of one line.
_SIZES = 1.5


def spelled_areas(frames: Sequence[Sequence[TextBox]]) -> tuple[Area, ...]:
    """Return the areas in which single letters that change from frame to frame form a line.

    Parameters
    ----------
    frames : sequence of sequence of TextBox
        What was read in each frame.

    Returns
    -------
    tuple of Area
        The whole lines, which may show letters that were not read, to be blanked in every frame.
    """
    letters = [
        (index, box)
        for index, boxes in enumerate(frames)
        for box in boxes
        if box.score >= SURE and len(box.text.strip()) == 1 and box.text.strip().isalpha()
    ]
    shown = Counter(_place(box) for _, box in letters)
    # What most frames show is no letter of a word, but a marker.
    changing = [(index, box) for index, box in letters if 2 * shown[_place(box)] <= len(frames)]
    return tuple(_extent(line) for line in by_lines(changing) if _is_spelled(line))


def _place(box: TextBox) -> tuple[str, int, int]:
    """Return a letter and roughly where it stands."""
    size = max(1, box.height)
    return box.text.strip(), box.left // size, box.top // size


def _is_spelled(line: Sequence[tuple[int, TextBox]]) -> bool:
    different = {box.text.strip().upper() for _, box in line}
    alone = len({index for index, _ in line}) >= _FEWEST
    return alone and len(different) >= _FEWEST and not different <= ORIENTATION_MARKERS


def by_lines(letters: Sequence[tuple[int, TextBox]]) -> Iterator[list[tuple[int, TextBox]]]:
    """Group letters of all frames by their place above one another and their height."""
    lines: list[list[tuple[int, TextBox]]] = []
    for index, box in sorted(letters, key=lambda one: (one[1].top, one[1].left)):
        for line in lines:
            first = line[0][1]
            shared = min(first.bottom, box.bottom) - max(first.top, box.top)
            alike = max(first.height, box.height) <= _SIZES * min(first.height, box.height)
            if alike and 2 * shared > min(first.height, box.height):
                line.append((index, box))
                break
        else:
            lines.append([(index, box)])
    yield from lines


def _extent(line: Sequence[tuple[int, TextBox]]) -> Area:
    boxes = [box for _, box in line]
    height = max(box.height for box in boxes)
    return (
        max(0, min(box.left for box in boxes) - height),
        max(0, min(box.top for box in boxes) - height // 4),
        max(box.right for box in boxes) + height,
        max(box.bottom for box in boxes) + height // 4,
    )
