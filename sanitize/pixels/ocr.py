"""One frame in, lines of text out."""

from __future__ import annotations

import numpy as np
from medsanitize.sanitize.pixels.boxes import TextBox
from medsanitize.sanitize.pixels.models import Models
from numpy.typing import NDArray

Frame = NDArray[np.uint8]
"""Display grey of one frame, rows by columns, 0 to 255."""

_SHORT_SIDE = 736


class TextReader:
    """Finds and reads the text in frames. Models are loaded when the first frame is read.

    It holds nothing but the models: what is read depends on the frame alone.
    """

    def __init__(self) -> None:
        self._models = Models()

    def read(self, frame: Frame) -> tuple[TextBox, ...]:
        """Find every line of text in one frame.

        Parameters
        ----------
        frame : array of uint8, shape (rows, columns)
            Display grey.

        Returns
        -------
        tuple of TextBox
            From top to bottom, then left to right. Boxes whose text could not be read have a low score.
        """
        import cv2

        rows, columns = frame.shape
        scale = max(1.0, _SHORT_SIDE / min(rows, columns))
        height, width = (-(-round(side * scale) // 32) * 32 for side in (rows, columns))
        picture = cv2.resize(frame, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.uint8)
        found = self._models.detect(picture, 0.3, 0.5, 1.6)
        bounds, lines = [], []
        for patch in found:
            left, right = (int(np.clip(x * columns / width, 0, columns)) for x in (patch.left, patch.right))
            top, bottom = (int(np.clip(y * rows / height, 0, rows)) for y in (patch.top, patch.bottom))
            if right - left >= 3 and bottom - top >= 3:
                bounds.append((left, top, right, bottom))
                line = frame[top:bottom, left:right]
                lines.append(line if line.shape[1] * 1.5 >= line.shape[0] else np.rot90(line))
        texts = self._models.recognise(lines)
        boxes = [TextBox(*bound, *text) for bound, text in zip(bounds, texts, strict=True)]
        return tuple(sorted(boxes, key=lambda box: (box.top, box.left, box.bottom, box.right)))
