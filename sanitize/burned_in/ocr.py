"""Optical character recognition (OCR) of one frame.

The local contrast of the frame is normalized, so that dark, bright and faint text look alike on any
background. The detector then runs twice: on the upright frame, enlarged until it finds small glyphs; and on
the frame rotated by 90 degrees, reduced if it is large, for vertical lines.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from medsanitize.sanitize.burned_in.areas import covered_fraction, join_overlapping
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.ocr_models import OcrModels
from numpy.typing import NDArray

Frame = NDArray[np.uint8]
"""Displayed gray values of one frame, shape (rows, columns)."""

Bounds = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels, half-open."""

# Pixels to which a frame, or an area that changed, is enlarged for the detector, at most threefold.
_LOOK = 1.1e6
_LOOK_AGAIN = 0.35e6
_MOST_ENLARGED = 3.0
# Pixels that are replicated around a frame, so that text at its border has background on all sides.
_MARGIN = 16
# Contrast normalization: radius in enlarged pixels, noise and target deviation in gray values.
_AROUND = 40
_NOISE = 1.5
_CONTRAST = 48.0
# Certainty from which a line is not also read upside down.
_SURE = 0.9
# Ratio of height to width from which a patch is a vertical line.
_UPRIGHT = 1.5
# A patch is known if another one covers this part of it and is less than 2.5 times as high.
_COVERED = 0.7
_ALIKE = 2.5
# Patches higher than 40 pixels with at most three letters may hide small lines.
_LARGE = 40
_FEW = 3
_HALF = 0.5
# `read_closely`: contrast radius and surroundings in line heights, and the height (pixels) to enlarge to.
_CLOSE = 0.3
_LINE = 32
_LETTERS_ON = 5


class TextReader:
    """Finds and reads text in frames; loads its models with the first frame.

    An instance holds only the models: the result depends on the frame only.
    """

    def __init__(self) -> None:
        self._models = OcrModels()

    def read(self, frame: Frame) -> tuple[TextBox, ...]:
        """Find every line of text in one frame.

        Parameters
        ----------
        frame : array of uint8, shape (rows, columns)
            Displayed gray values.

        Returns
        -------
        tuple of TextBox
            From top to bottom, then left to right. Boxes with illegible text have a low score.
        """
        if frame.size == 0 or frame.min() == frame.max():
            return ()
        scale = _upright_scale(frame.size)
        found = self._look(_evened(frame, _AROUND / scale), scale)
        reduced = min(1.0, _scale(frame.size))
        found += self._look_turned(_evened(frame, _AROUND / reduced), reduced, found)
        boxes = self._read(frame, found)
        boxes += self._read(frame, self._look_within(frame, boxes, scale))
        return tuple(sorted(boxes, key=lambda box: (box.top, box.left, box.bottom, box.right)))

    def read_changes(self, frame: Frame, area: Bounds, changed: NDArray[np.bool_]) -> tuple[TextBox, ...]:
        """Find the lines of one area in which pixels changed since the previous frame was read.

        Parameters
        ----------
        frame : array of uint8, shape (rows, columns)
        area : tuple of int
            Left, top, right, bottom.
        changed : array of bool, shape (rows, columns)

        Returns
        -------
        tuple of TextBox
            Horizontal lines with changed pixels.
        """
        left, top, right, bottom = area
        crop = frame[top:bottom, left:right]
        # Loops have many frames: one pass, on fewer pixels than in `read`.
        scale = min(_upright_scale(frame.size), max(1.0, float((_LOOK_AGAIN / max(crop.size, 1)) ** 0.5)))
        found = (
            (x0 + left, y0 + top, x1 + left, y1 + top)
            for x0, y0, x1, y1 in self._look(_evened(crop, _AROUND / scale), scale)
        )
        new = [one for one in found if changed[one[1] : one[3], one[0] : one[2]].any()]
        return tuple(self._read(frame, new))

    def read_closely(self, frame: Frame, boxes: Sequence[TextBox]) -> tuple[TextBox, ...]:
        """Find text around known lines: their faint ends, and lines directly above and below.

        Parameters
        ----------
        frame : array of uint8, shape (rows, columns)
        boxes : sequence of TextBox
            Lines of the frame.

        Returns
        -------
        tuple of TextBox
            May overlap ``boxes`` and each other.
        """
        near: list[TextBox] = []
        for box in boxes:
            turned = box.bottom - box.top > _UPRIGHT * (box.right - box.left)
            left, top, right, bottom = _surroundings(box, frame.shape, turned=turned)
            crop = frame[top:bottom, left:right]
            # A radius below the height of a letter: a bright background nearby hides nothing.
            even = _evened(np.ascontiguousarray(np.rot90(crop)) if turned else crop, _CLOSE * box.height)
            patches = self._look(even, min(_MOST_ENLARGED, max(1.0, _LINE / box.height)))
            for patch, text in zip(
                patches, self._texts([even[t:b, x:r] for x, t, r, b in patches]), strict=True
            ):
                x0, y0, x1, y1 = _turned_back(patch, crop.shape[1]) if turned else patch
                near.append(TextBox(x0 + left, y0 + top, x1 + left, y1 + top, *text))
        return tuple(near)

    def _read(self, frame: Frame, found: list[Bounds]) -> list[TextBox]:
        """Recognize the text of patches."""
        texts = self._texts([frame[top:bottom, left:right] for left, top, right, bottom in found])
        return [TextBox(*bounds, *text) for bounds, text in zip(found, texts, strict=True)]

    def _look_turned(self, frame: Frame, scale: float, found: list[Bounds]) -> list[Bounds]:
        """Detect vertical lines, except for those already ``found``."""
        turned = self._look(np.ascontiguousarray(np.rot90(frame)), scale)
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

    def _look(self, frame: Frame, scale: float) -> list[Bounds]:
        """Run the detector on the frame at ``scale``; return bounds in pixels of the frame."""
        import cv2

        rows, columns = frame.shape
        height, width = max(1, round(rows * scale)), max(1, round(columns * scale))
        method = cv2.INTER_CUBIC if scale >= 1 else cv2.INTER_AREA
        sized = cv2.resize(frame, (width, height), interpolation=method)
        # The detector needs sides that are multiples of 32.
        bottom, right = (-(-(side + 2 * _MARGIN) // 32) * 32 - side - _MARGIN for side in (height, width))
        edged = cv2.copyMakeBorder(sized, _MARGIN, bottom, _MARGIN, right, cv2.BORDER_REPLICATE)
        found = []
        for patch in self._models.detect(np.asarray(edged, np.uint8)):
            x0, x1 = ((x - _MARGIN) * columns / width for x in (patch.left, patch.right))
            y0, y1 = ((y - _MARGIN) * rows / height for y in (patch.top, patch.bottom))
            left, top = max(0, int(np.floor(x0))), max(0, int(np.floor(y0)))
            right_, bottom_ = min(columns, int(np.ceil(x1))), min(rows, int(np.ceil(y1)))
            if right_ - left >= 3 and bottom_ - top >= 3:
                found.append((left, top, right_, bottom_))
        return found

    def _texts(self, patches: list[Frame]) -> list[tuple[str, float]]:
        """Recognize each patch in the orientation with the highest certainty.

        Vertical patches are read in both directions; others upside down only when their certainty is low.
        """
        upright = [patch.shape[0] <= _UPRIGHT * patch.shape[1] for patch in patches]
        plain = [_stretched(patch) for patch in patches]
        first = [one if flat else np.rot90(one) for one, flat in zip(plain, upright, strict=True)]
        texts = self._models.recognize(first)
        again = [index for index, text in enumerate(texts) if text[1] < _SURE or not upright[index]]
        turned = self._models.recognize([np.rot90(first[index], 2) for index in again])
        for index, text in zip(again, turned, strict=True):
            texts[index] = max(texts[index], text, key=lambda one: one[1])
        return texts


def _scale(size: int) -> float:
    """Scale at which a frame of ``size`` pixels has the size for the detector."""
    return float((_LOOK / size) ** 0.5)


def _upright_scale(size: int) -> float:
    """Scale of the upright pass: small frames are enlarged, large ones are not reduced."""
    return min(_MOST_ENLARGED, max(1.0, _scale(size)))


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


def _surroundings(box: TextBox, shape: tuple[int, ...], *, turned: bool) -> Bounds:
    """The box with room for some letters at its ends and for a line above and below."""
    along, across = _LETTERS_ON * box.height, round(1.5 * box.height)
    x, y = (across, along) if turned else (along, across)
    return (
        max(0, box.left - x),
        max(0, box.top - y),
        min(shape[1], box.right + x),
        min(shape[0], box.bottom + y),
    )


def _may_swallow(box: TextBox) -> bool:
    """Whether a patch is large and has almost no legible text: it may hide lines."""
    return box.height > _LARGE and sum(letter.isalnum() for letter in box.text) <= _FEW


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
