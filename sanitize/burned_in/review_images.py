"""Review items with images of lines that were read with low certainty. They contain PHI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.rendering import Picture
from medsanitize.sanitize.result import ReviewItem

MOST = 12
"""Most review items of one object; those with the lowest certainty come first."""
_THUMBNAIL = 512  # pixels
# Certainty from which a blanked or a kept line needs no review.
_SURE_BLANKED, _SURE_KEPT = 0.85, 0.6
# Kept lines with fewer letters are mostly no text.
_LEAST_LETTERS = 3


def frame_location(frame: int, box: TextBox | None = None) -> str:
    """Return the location of a frame (from 1), or of a box in it (left, top, right, bottom)."""
    place = f"pixels/frame {frame}"
    return f"{place}/box {box.left},{box.top},{box.right},{box.bottom}" if box else place


@dataclass(slots=True)
class ReviewImages:
    """Collects the lines of one object that were read with low certainty."""

    _found: dict[tuple[int, int, int, int, str], tuple[float, int, TextBox, str, Picture]] = field(
        default_factory=dict
    )
    _overview: tuple[int, Picture] | None = None

    def note(self, frame: int, box: TextBox, picture: Picture, *, blanked: bool) -> None:
        """Store a line if it was read with low certainty.

        Parameters
        ----------
        frame : int
            From 1.
        box : TextBox
        picture : array of uint8, shape (rows, columns)
            The complete frame.
        blanked : bool
            Whether the line is blanked.
        """
        if box.score >= (_SURE_BLANKED if blanked else _SURE_KEPT):
            return
        if not blanked and sum(letter.isalnum() for letter in box.text) < _LEAST_LETTERS:
            return
        key = (box.left, box.top, box.right, box.bottom, box.text)
        # Each stored line has an image: a long loop must not fill the memory.
        if key in self._found or len(self._found) > 8 * MOST:
            return
        # A kept line may be a leak: it comes before the blanked ones.
        order = box.score + blanked
        rule = "burned-in-text-blanked" if blanked else "burned-in-text-kept"
        self._found[key] = (order, frame, box, rule, _crop(picture, box).copy())

    def show(self, frame: int, picture: Picture) -> None:
        """Store the first changed frame before it is changed."""
        if self._overview is None:
            self._overview = (frame, _thumbnail(picture))

    def made(self, after: Callable[[int], Picture | None]) -> tuple[ReviewItem, ...]:
        """Return the review items.

        Parameters
        ----------
        after : callable
            Returns a frame (from 1) as it will be released, or None.
        """
        first: list[ReviewItem] = []
        if self._overview is not None:
            frame, before = self._overview
            shown = after(frame)
            new = _png(_thumbnail(shown)) if shown is not None else b""
            first.append(ReviewItem(frame_location(frame), "burned-in-text-overview", "", _png(before), new))
        chosen = sorted(self._found.values(), key=lambda one: (one[0], one[1], one[2].top, one[2].left))
        for _, frame, box, rule, crop in chosen[: MOST - len(first)]:
            shown = after(frame)
            new = _png(_crop(shown, box)) if shown is not None else b""
            first.append(ReviewItem(frame_location(frame, box), rule, box.text, _png(crop), new))
        return tuple(first)


def whole_image_item(picture: Picture) -> ReviewItem:
    """Return the review item of an image that may show handwriting, which no program reads."""
    return ReviewItem("pixels", "handwriting-unread", "", _png(_thumbnail(picture)), b"")


def residual_text_item(
    frame: int, boxes: Sequence[TextBox], before: Picture, after: Picture
) -> tuple[ReviewItem, ...]:
    """Return review items for lines that are still legible in a frame (from 1) after blanking."""
    rule = "burned-in-text-remains"
    return tuple(
        ReviewItem(
            frame_location(frame, box), rule, box.text, _png(_crop(before, box)), _png(_crop(after, box))
        )
        for box in boxes[:MOST]
    )


def _crop(picture: Picture, box: TextBox) -> Picture:
    margin = 2 * max(box.height, 4)
    top, left = max(box.top - margin, 0), max(box.left - margin, 0)
    return picture[top : box.bottom + margin, left : box.right + margin]


def _thumbnail(picture: Picture) -> Picture:
    from PIL import Image

    image = Image.fromarray(picture)
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return np.asarray(image)


def _png(picture: Picture) -> bytes:
    from PIL import Image

    stream = BytesIO()
    # Higher levels take several times as long.
    Image.fromarray(np.ascontiguousarray(picture)).save(stream, "PNG", compress_level=1)
    return stream.getvalue()
