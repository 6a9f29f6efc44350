"""The text detector and recogniser that the rapidocr wheel carries, run by onnxruntime on one thread.

Only the wheel's model files are used (PP-OCR: a differentiable-binarisation detector and a CTC line
recogniser): nothing is fetched, logged or timed.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from medsanitize.errors import EnvironmentFailure
from medsanitize.sanitize.burned_in.detector_tiles import text_tiles
from medsanitize.sanitize.onnx import open_network, run_network
from numpy.typing import NDArray

Grey = NDArray[np.uint8]
_LINE_HEIGHT = 48
_BATCH = 8
_WIDTH = 320
_INK = 0.2
_LEAST = 0.4
_THIN = 3
_UNCLIP = 1.6


@dataclass(frozen=True, slots=True)
class TextPatch:
    """A connected patch that the detector takes for text: bounds grown to whole glyphs, mean score."""

    left: float
    top: float
    right: float
    bottom: float
    score: float


class OcrModels:
    """The two networks, loaded when first used."""

    @cached_property
    def _detector(self) -> Any:
        return _session("det")

    @cached_property
    def _recogniser(self) -> Any:
        return _session("rec")

    @cached_property
    def _letters(self) -> list[str]:
        listed = self._recogniser.get_modelmeta().custom_metadata_map["character"].splitlines()
        return ["", *listed, " "]

    def detect(self, picture: Grey) -> list[TextPatch]:
        """Patches of text in a picture, read at its own scale; large pictures are read tile by tile.

        Areas too plain to hold a glyph are not looked at.
        """
        import cv2

        heat = self._heat(picture)
        mask = cv2.dilate((heat > _INK).astype(np.uint8), np.ones((2, 2), np.uint8))
        count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        sums = np.bincount(labels.ravel(), heat.ravel().astype(np.float64), count)
        patches = []
        for index in range(1, count):
            x, y, width, height, area = (int(value) for value in stats[index])
            score = float(sums[index]) / area
            if score < _LEAST or min(width, height) < _THIN:
                continue
            margin = width * height * _UNCLIP / (2 * (width + height))
            patches.append(TextPatch(x - margin, y - margin, x + width + margin, y + height + margin, score))
        return patches

    def _heat(self, picture: Grey) -> NDArray[np.float32]:
        """The detector's map of text, 0 to 1, of a picture whose sides are multiples of 32."""
        heat = np.zeros(picture.shape, np.float32)
        for area in text_tiles(picture):
            seen = run_network(self._detector, _normalised(picture[area])[None])[0, 0]
            heat[area] = np.maximum(heat[area], seen)
        return heat

    def recognise(self, lines: list[Grey]) -> list[tuple[str, float]]:
        """Text and mean certainty of each picture of one line; pictures of one width are read together."""
        import cv2

        sized = []
        for line in lines:
            width = max(16, round(_LINE_HEIGHT * line.shape[1] / line.shape[0]))
            method = cv2.INTER_AREA if line.shape[0] > _LINE_HEIGHT else cv2.INTER_CUBIC
            sized.append(cv2.resize(line, (width, _LINE_HEIGHT), interpolation=method).astype(np.uint8))
        texts: list[tuple[str, float]] = [("", 0.0)] * len(lines)
        order = sorted(range(len(lines)), key=lambda index: (sized[index].shape[1], index))
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            width = max(_WIDTH, sized[batch[-1]].shape[1])
            padded = np.zeros((len(batch), 3, _LINE_HEIGHT, width), np.float32)
            for row, index in enumerate(batch):
                padded[row, :, :, : sized[index].shape[1]] = _normalised(sized[index])
            for index, chances in zip(batch, run_network(self._recogniser, padded), strict=True):
                texts[index] = self._decoded(chances)
        return texts

    def _decoded(self, chances: NDArray[np.float32]) -> tuple[str, float]:
        """CTC: the likeliest letter of each column, repeats and blanks dropped."""
        best = chances.argmax(axis=1)
        kept = (best != 0) & np.concatenate([[True], best[1:] != best[:-1]])
        if not kept.any():
            return "", 0.0
        text = "".join(self._letters[index] for index in best[kept])
        return text, round(float(chances.max(axis=1)[kept].mean()), 4)


def _normalised(picture: Grey) -> NDArray[np.float32]:
    scaled = picture.astype(np.float32) / np.float32(127.5) - np.float32(1)
    return np.broadcast_to(scaled, (3, *picture.shape))


@cache
def _session(kind: str) -> Any:
    """A network of the wheel, loaded once a process: DICOM frames, pictures and documents share it."""
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
