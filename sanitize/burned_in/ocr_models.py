"""Text detector and line recognizer from the rapidocr package, run by ONNX Runtime on one thread.

Only the model files of the package are used (PP-OCR: a detector with differentiable binarization and a CTC
line recognizer); its code, which may download models, is not imported.
"""

from __future__ import annotations

import importlib.util
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from medsanitize.errors import EnvironmentFailure
from medsanitize.sanitize.burned_in.areas import join_overlapping
from medsanitize.sanitize.burned_in.detector_tiles import text_tiles
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from medsanitize.sanitize.onnx import open_network, run_network
from numpy.typing import NDArray

Gray = NDArray[np.uint8]
Found = TypeVar("Found")
# Input of the recognizer: height, least width, and what wider ones are multiples of (pixels).
_LINE_HEIGHT = 48
_WIDTH = 96
_STEP = 32
# Lines whose text is remembered, and parts of images whose patches are: some hundred bytes each.
_REMEMBERED, _REMEMBERED_PARTS = 4096, 1024
# Least detector score of a text pixel and of a patch (mean), and least side of a patch (pixels).
_INK = 0.2
_LEAST = 0.4
_THIN = 3
# The detector marks shrunken text: patches grow by area * ratio / perimeter (Liao et al. 2020).
_UNCLIP = 1.6
# Pixels around tiles beyond which no patch of theirs extends.
_AROUND = 2


@dataclass(frozen=True, slots=True)
class TextPatch:
    """A connected patch of detected text: bounds that include complete glyphs, and mean score (0 to 1)."""

    left: float
    top: float
    right: float
    bottom: float
    score: float


class OcrModels:
    """The detector and the recognizer, loaded when first used.

    What has the pixels of something earlier, such as a static overlay in other frames and images, is not
    looked at again: patches and texts are functions of pixels.
    """

    def __init__(self) -> None:
        # By digest of a line's pixels: the texts may identify, so they are in memory only and bounded.
        self._recognized: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        self._detected: OrderedDict[bytes, tuple[TextPatch, ...]] = OrderedDict()

    @cached_property
    def _detector(self) -> Any:
        return _session("det")

    @cached_property
    def _recognizer(self) -> Any:
        return _session("rec")

    @cached_property
    def _letters(self) -> list[str]:
        # Class 0 is the blank of CTC, the last class a space; neither is in the model's list.
        listed = self._recognizer.get_modelmeta().custom_metadata_map["character"].splitlines()
        return ["", *listed, " "]

    def detect(self, picture: Gray, where: NDArray[np.bool_] | None = None) -> list[TextPatch]:
        """Detect patches of text in an image without scaling it.

        Parameters
        ----------
        picture : array of uint8, shape (rows, columns)
            Both sides must be multiples of 32. Large images are processed by tile; uniform tiles are skipped.
        where : array of bool, shape (rows / 16, columns / 16), optional
            Squares that may contain text; tiles without any are skipped.

        Returns
        -------
        list of TextPatch
        """
        tiles = list(text_tiles(picture, where))
        return [
            TextPatch(one.left + left, one.top + top, one.right + left, one.bottom + top, one.score)
            for left, top, right, bottom in _apart(tiles, picture.shape)
            for one in self._patches(
                picture[top:bottom, left:right], _within(tiles, left, top, right, bottom)
            )
        ]

    def _patches(self, part: Gray, tiles: list[tuple[slice, slice]]) -> tuple[TextPatch, ...]:
        """Patches of a part of an image, of which some tiles are looked at."""
        inside = b"".join(part[tile].tobytes() for tile in tiles)
        key = blake2b(repr((part.shape, tiles)).encode() + inside, digest_size=16).digest()
        return _remembered(self._detected, key, _REMEMBERED_PARTS, lambda: self._detect(part, tiles))

    def _detect(self, part: Gray, tiles: list[tuple[slice, slice]]) -> tuple[TextPatch, ...]:
        heat = np.zeros(part.shape, np.float32)
        for tile in tiles:
            seen = run_network(self._detector, _normalized(part[tile])[None])[0, 0]
            heat[tile] = np.maximum(heat[tile], seen)
        return tuple(_patches(heat))

    def recognize(self, lines: list[Gray]) -> list[tuple[str, float]]:
        """Recognize images of single lines.

        Parameters
        ----------
        lines : list of arrays of uint8, shape (rows, columns)

        Returns
        -------
        list of (str, float)
            Text and mean certainty (0 to 1) of each line.
        """
        return [self._text(line) for line in lines]

    def _text(self, line: Gray) -> tuple[str, float]:
        key = blake2b(repr(line.shape).encode() + line.tobytes(), digest_size=16).digest()
        return _remembered(self._recognized, key, _REMEMBERED, lambda: self._recognize(line))

    def _recognize(self, line: Gray) -> tuple[str, float]:
        """Recognize one line by itself: beside others, its padding and rounding would depend on them."""
        import cv2

        width = max(16, round(_LINE_HEIGHT * line.shape[1] / line.shape[0]))
        method = cv2.INTER_AREA if line.shape[0] > _LINE_HEIGHT else cv2.INTER_CUBIC
        sized = cv2.resize(line, (width, _LINE_HEIGHT), interpolation=method).astype(np.uint8)
        # Few different widths, since the network plans its memory for each.
        padded = np.zeros((1, 3, _LINE_HEIGHT, max(_WIDTH, -(-width // _STEP) * _STEP)), np.float32)
        padded[0, :, :, :width] = _normalized(sized)
        return self._decoded(run_network(self._recognizer, padded)[0])

    def _decoded(self, chances: NDArray[np.float32]) -> tuple[str, float]:
        """CTC decoding: most probable class of each column, without repetitions and blanks."""
        best = chances.argmax(axis=1)
        kept = (best != 0) & np.concatenate([[True], best[1:] != best[:-1]])
        if not kept.any():
            return "", 0.0
        text = "".join(self._letters[index] for index in best[kept])
        return text, round(float(chances.max(axis=1)[kept].mean()), 4)


def _apart(tiles: list[tuple[slice, slice]], shape: tuple[int, ...]) -> tuple[Area, ...]:
    """Areas around tiles, with a margin, none of which touches another: no patch is in two of them."""
    return join_overlapping(
        (
            max(0, columns.start - _AROUND),
            max(0, rows.start - _AROUND),
            min(shape[1], columns.stop + _AROUND),
            min(shape[0], rows.stop + _AROUND),
        )
        for rows, columns in tiles
    )


def _within(
    tiles: list[tuple[slice, slice]], left: int, top: int, right: int, bottom: int
) -> list[tuple[slice, slice]]:
    """Those of the tiles that begin in an area, relative to it."""
    return [
        (slice(rows.start - top, rows.stop - top), slice(columns.start - left, columns.stop - left))
        for rows, columns in tiles
        if left <= columns.start < right and top <= rows.start < bottom
    ]


def _patches(heat: NDArray[np.float32]) -> Iterator[TextPatch]:
    """Connected patches of a probability map of text."""
    import cv2

    mask = cv2.dilate((heat > _INK).astype(np.uint8), np.ones((2, 2), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    own = np.flatnonzero(mask)
    sums = np.bincount(labels.ravel()[own], heat.ravel()[own].astype(np.float64), count)
    for index in range(1, count):
        x, y, width, height, area = (int(value) for value in stats[index])
        score = float(sums[index]) / area
        if score < _LEAST or min(width, height) < _THIN:
            continue
        margin = width * height * _UNCLIP / (2 * (width + height))
        yield TextPatch(x - margin, y - margin, x + width + margin, y + height + margin, score)


def _remembered(known: OrderedDict[bytes, Found], key: bytes, most: int, find: Callable[[], Found]) -> Found:
    """Return the result for a key, which is found once; the least recently used of ``most`` are forgotten."""
    if key not in known:
        known[key] = find()
        if len(known) > most:
            known.popitem(last=False)
    known.move_to_end(key)
    return known[key]


def _normalized(picture: Gray) -> NDArray[np.float32]:
    scaled = picture.astype(np.float32) / np.float32(127.5) - np.float32(1)
    return np.broadcast_to(scaled, (3, *picture.shape))


@cache
def _session(kind: str) -> Any:
    """Load a model of the package, once per process."""
    spec = importlib.util.find_spec("rapidocr")
    if spec is None or spec.origin is None or importlib.util.find_spec("onnxruntime") is None:
        raise EnvironmentFailure("OCR requires the extra 'pixels'", "Install medsanitize[pixels]")
    found = sorted(Path(spec.origin).parent.glob(f"models/*_{kind}_*.onnx"))
    if not found:
        raise EnvironmentFailure(
            "The rapidocr package contains no text models", "Install rapidocr 3.10 or later"
        )
    from onnxruntime import SessionOptions  # type: ignore[import-untyped]

    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return open_network(str(found[-1]), options)
