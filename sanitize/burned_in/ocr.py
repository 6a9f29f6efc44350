"""Optical character recognition (OCR) of one frame.

Only parts of the frame that may show text (`text_map`) are read. Their local contrast is normalized, so
that dark, bright and faint text look alike on any background. The detector of lines then runs on the upright
frame, enlarged until it finds small glyphs; and, where it found nothing, on the frame rotated by 90 degrees,
for vertical lines.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from medsanitize.sanitize.burned_in.areas import covered_fraction, join_overlapping
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.detector_tiles import GRAIN
from medsanitize.sanitize.burned_in.ocr_models import OcrModels
from medsanitize.sanitize.burned_in.text_map import CELL, Chances, text_chances
from numpy.typing import NDArray

Frame = NDArray[np.uint8]
"""Displayed gray values of one frame, shape (rows, columns)."""

Cells = NDArray[np.bool_]
"""Cells of a text map, shape (ceil(rows / 4), ceil(columns / 4))."""

Bounds = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels, half-open."""

# Chance from which a cell of the text map may belong to text that can be read.
_POSSIBLE = 0.1
# Chance of a cell of a piece that counts for the size of letters.
_LIKELY = 0.5
# Height of letters (pixels) to which small ones are enlarged for the detector, at most threefold, and how
# many pixels may be looked at for it.
_LETTER = 26.0
_LOOK = 1.1e6
_MOST_ENLARGED = 3.0
# How much letters of any height are enlarged, and how many pixels may be looked at for it.
_ENLARGED, _CHEAP = 2.0, 1e5
# Part of the lines that may be smaller than the height for which the frame is enlarged.
_SMALLEST = 0.1
# Pixels that are replicated around a frame, so that text at its border has background on all sides.
_MARGIN = 16
# Contrast normalization: radius in enlarged pixels, noise and target deviation in gray values.
_AROUND = 40
_NOISE = 1.5
_CONTRAST = 48.0
# Certainty from which a line is not also read upside down.
_SURE = 0.9
# Characters per height of a line along its length, with fewer of which it is read upside down as well.
_FILLED = 0.7
# Ratio of height to width from which a patch is a vertical line.
_UPRIGHT = 1.5
# A patch is known if another one covers this part of it and is less than 2.5 times as high.
_COVERED = 0.7
_ALIKE = 2.5
# Patches higher than 40 pixels with at most three letters may hide small lines.
_LARGE = 40
_FEW = 3
_HALF = 0.5


class TextReader:
    """Finds and reads text in frames; loads its models with the first frame.

    An instance holds only the models: the result depends on the frame only.
    """

    def __init__(self) -> None:
        self._models = OcrModels()

    def read(self, frame: Frame, chances: Chances | None = None) -> tuple[TextBox, ...]:
        """Find every line of text in one frame.

        Parameters
        ----------
        frame : array of uint8, shape (rows, columns)
            Displayed gray values.
        chances : array of float32, optional
            Text map of the stored values, by default of the frame; nothing is read where it shows no text.

        Returns
        -------
        tuple of TextBox
            From top to bottom, then left to right. Boxes with illegible text have a low score.
        """
        if frame.size == 0 or frame.min() == frame.max():
            return ()
        if chances is None:
            chances = text_chances(frame.astype(np.float32))
        where = chances >= _POSSIBLE
        if not where.any():
            return ()
        scale = _scale(chances, frame.size)
        even = _evened(frame, _AROUND / scale)
        found = self._look(even, scale, where)
        found += self._look_turned(even, scale, found, _without(where, found))
        boxes = self._read(frame, found)
        boxes += self._read(frame, self._look_within(frame, boxes, scale))
        return tuple(sorted(boxes, key=lambda box: (box.top, box.left, box.bottom, box.right)))

    def read_changes(
        self, frame: Frame, chances: Chances, area: Bounds, changed: NDArray[np.bool_]
    ) -> tuple[TextBox, ...]:
        """Find the lines of one area in which pixels changed since the previous frame was read.

        Parameters
        ----------
        frame : array of uint8, shape (rows, columns)
        chances : array of float32
            Text map of the frame.
        area : tuple of int
            Left, top, right, bottom; left and top are multiples of `CELL`.
        changed : array of bool, shape (rows, columns)

        Returns
        -------
        tuple of TextBox
            Lines with changed pixels.
        """
        left, top, right, bottom = area
        cells = chances[top // CELL : -(-bottom // CELL), left // CELL : -(-right // CELL)]
        found = (
            replace(
                one,
                left=one.left + left,
                top=one.top + top,
                right=one.right + left,
                bottom=one.bottom + top,
            )
            for one in self.read(frame[top:bottom, left:right], cells)
        )
        return tuple(one for one in found if changed[one.top : one.bottom, one.left : one.right].any())

    def _read(self, frame: Frame, found: list[Bounds]) -> list[TextBox]:
        """Recognize the text of patches."""
        texts = self._texts([frame[top:bottom, left:right] for left, top, right, bottom in found])
        return [TextBox(*bounds, *text) for bounds, text in zip(found, texts, strict=True)]

    def _look_turned(
        self, frame: Frame, scale: float, found: list[Bounds], where: Cells | None = None
    ) -> list[Bounds]:
        """Detect vertical lines, except for those already ``found``."""
        if where is not None and not where.any():
            return []
        turned = self._look(
            np.ascontiguousarray(np.rot90(frame)),
            scale,
            None if where is None else _rotated(where, frame.shape),
        )
        back = [_turned_back(one, frame.shape[1]) for one in turned]
        return [one for one in back if _runs_upwards(one) and not is_known_patch(one, found)]

    def _look_within(self, frame: Frame, boxes: list[TextBox], scale: float) -> list[Bounds]:
        """Detect small lines in large patches without legible text."""
        # Normalized contrast makes speckle and bone as strong as letters; in the original frame they are not.
        known = [_bounds(box) for box in boxes if not _may_swallow(box)]
        lines: list[Bounds] = []
        for x, y, x1, y1 in join_overlapping(_bounds(box) for box in boxes if _may_swallow(box)):
            crop = _stretched(frame[y:y1, x:x1])
            inner = self._look(crop, scale)
            inner += self._look_turned(crop, 1.0, inner)
            for left, top, right, bottom in inner:
                line = left + x, top + y, right + x, bottom + y
                small = min(right - left, bottom - top) <= _LARGE
                if small and not any(covered_fraction(line, one) > _HALF for one in (*known, *lines)):
                    lines.append(line)
        return lines

    def _look(self, frame: Frame, scale: float, where: Cells | None = None) -> list[Bounds]:
        """Run the detector on cells of the frame at ``scale``; return bounds in pixels of the frame."""
        import cv2

        rows, columns = frame.shape
        height, width = max(1, round(rows * scale)), max(1, round(columns * scale))
        method = cv2.INTER_CUBIC if scale >= 1 else cv2.INTER_AREA
        sized = cv2.resize(frame, (width, height), interpolation=method)
        # The detector needs sides that are multiples of 32.
        bottom, right = (-(-(side + 2 * _MARGIN) // 32) * 32 - side - _MARGIN for side in (height, width))
        edged = cv2.copyMakeBorder(sized, _MARGIN, bottom, _MARGIN, right, cv2.BORDER_REPLICATE)
        squares = None if where is None else _squares(where, scale, edged.shape)
        found = []
        for patch in self._models.detect(np.asarray(edged, np.uint8), squares):
            x0, x1 = ((x - _MARGIN) * columns / width for x in (patch.left, patch.right))
            y0, y1 = ((y - _MARGIN) * rows / height for y in (patch.top, patch.bottom))
            left, top = max(0, int(np.floor(x0))), max(0, int(np.floor(y0)))
            right_, bottom_ = min(columns, int(np.ceil(x1))), min(rows, int(np.ceil(y1)))
            if right_ - left >= 3 and bottom_ - top >= 3:
                found.append((left, top, right_, bottom_))
        return found

    def _texts(self, patches: list[Frame]) -> list[tuple[str, float]]:
        """Recognize each patch in the orientation with the highest certainty.

        Vertical patches are read in both directions; others upside down only when their certainty is low or
        they have few letters for their length.
        """
        upright = [patch.shape[0] <= _UPRIGHT * patch.shape[1] for patch in patches]
        plain = [_stretched(patch) for patch in patches]
        first = [one if flat else np.rot90(one) for one, flat in zip(plain, upright, strict=True)]
        texts = self._models.recognize(first)
        again = [
            index
            for index, (text, score) in enumerate(texts)
            if score < _SURE or not upright[index] or _is_sparse(text, first[index])
        ]
        turned = self._models.recognize([np.rot90(first[index], 2) for index in again])
        for index, text in zip(again, turned, strict=True):
            texts[index] = max(texts[index], text, key=lambda one: one[1])
        return texts


def _scale(chances: Chances, size: int) -> float:
    """Scale at which small letters are as large as the detector needs; large areas are enlarged less."""
    import cv2

    where = chances >= _POSSIBLE
    count, labels, stats, _ = cv2.connectedComponentsWithStats(where.astype(np.uint8), connectivity=8)
    heights = CELL * np.minimum(stats[:, cv2.CC_STAT_WIDTH], stats[:, cv2.CC_STAT_HEIGHT])
    # Specks of noise, smaller than any letter, have low chances only.
    likely = np.unique(labels[chances >= _LIKELY])
    smallest = float(np.quantile(heights[likely if len(likely) else range(1, count)], _SMALLEST))
    area = CELL**2 * float(where.sum())
    needed = min(_LETTER / max(smallest, CELL), (max(_LOOK, size) / area) ** 0.5)
    # Large letters over anatomy are told from it better if they are enlarged, too.
    cheap = min(_ENLARGED, (_CHEAP / area) ** 0.5)
    return float(min(_MOST_ENLARGED, max(1.0, needed, cheap)))


def _without(where: Cells, found: list[Bounds]) -> Cells:
    """Cells that are in no patch; a few that are left of a patch do not count."""
    import cv2

    rest = where.copy()
    for left, top, right, bottom in found:
        rest[top // CELL : -(-bottom // CELL), left // CELL : -(-right // CELL)] = False
    return np.asarray(cv2.erode(rest.astype(np.uint8), np.ones((2, 2), np.uint8)) > 0)


def _rotated(where: Cells, shape: tuple[int, ...]) -> Cells:
    """Cells of the frame rotated left by 90 degrees; those at its last column may begin outside."""
    turned = np.rot90(where)
    # The last column of cells may be narrower than the others: every cell may extend into the next.
    shifted = np.zeros_like(turned)
    shifted[:-1] = turned[1:]
    return turned | shifted if shape[1] % CELL else turned


def _squares(where: Cells, scale: float, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Squares of the enlarged frame with margin that a cell touches."""
    squares = np.zeros((shape[0] // GRAIN, shape[1] // GRAIN), bool)
    rows, columns = np.nonzero(where)
    for down in (0, 1):
        for across in (0, 1):
            y = ((rows + down) * CELL * scale + _MARGIN).astype(int) // GRAIN
            x = ((columns + across) * CELL * scale + _MARGIN).astype(int) // GRAIN
            squares[np.minimum(y, squares.shape[0] - 1), np.minimum(x, squares.shape[1] - 1)] = True
    return squares


def _turned_back(one: Bounds, columns: int) -> Bounds:
    """Convert bounds in the frame rotated left by 90 degrees to bounds in the frame."""
    left, top, right, bottom = one
    return columns - bottom, left, columns - top, right


def _runs_upwards(one: Bounds) -> bool:
    """Whether a patch is a vertical line of several letters."""
    return one[3] - one[1] > _UPRIGHT * (one[2] - one[0])


def _evened(frame: Frame, reach: float) -> Frame:
    """Normalize mean and deviation within ``reach`` pixels around each pixel; noise remains faint."""
    import cv2

    around = max(1, round(reach))
    values = frame.astype(np.float32)
    window = (2 * around + 1, 2 * around + 1)
    mean = cv2.blur(values, window, borderType=cv2.BORDER_REFLECT_101)
    square = cv2.blur((values - mean) ** 2, window, borderType=cv2.BORDER_REFLECT_101)
    spread = np.sqrt(np.maximum(square, 0))  # rounding of running sums may give values below zero
    even: NDArray[np.float32] = np.asarray(128 + _CONTRAST * (values - mean) / (spread + _NOISE))
    gray: Frame = np.asarray(np.clip(even, 0, 255), np.uint8)
    return gray


def _bounds(box: TextBox) -> Bounds:
    return box.left, box.top, box.right, box.bottom


def _may_swallow(box: TextBox) -> bool:
    """Whether a patch is large and has almost no legible text: it may hide lines."""
    return box.height > _LARGE and sum(letter.isalnum() for letter in box.text) <= _FEW


def _is_sparse(text: str, line: Frame) -> bool:
    """Whether a reading has too few letters to fill a line, as of one that stands upside down."""
    return bool(len(text) * line.shape[0] < _FILLED * line.shape[1])


def _stretched(patch: Frame) -> Frame:
    """Stretch the gray values of a patch to 0 to 255, without outliers."""
    low, high = (float(value) for value in np.percentile(patch, (1, 99)))
    if high <= low:
        return patch
    wide: Frame = np.clip((patch - low) * (255 / (high - low)), 0, 255).astype(np.uint8)
    return wide


def is_known_patch(one: Bounds, others: list[Bounds]) -> bool:
    """Return whether a patch is, or is part of, another one of similar height.

    Parameters
    ----------
    one : Bounds
    others : list of Bounds
        Patches that are much higher are ignored: they may be no lines.
    """
    area, side = (one[2] - one[0]) * (one[3] - one[1]), min(one[2] - one[0], one[3] - one[1])
    for other in others:
        width = max(0, min(one[2], other[2]) - max(one[0], other[0]))
        height = max(0, min(one[3], other[3]) - max(one[1], other[1]))
        whole = min(other[2] - other[0], other[3] - other[1])
        if width * height > _COVERED * area and whole < _ALIKE * side:
            return True
    return False
