"""From a picture to the numbers a network takes; every choice is plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from medsanitize.errors import IntegrityError

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.pictures.picture import Picture
    from numpy.typing import NDArray

# ITU-R BT.601: how much of each channel makes grey.
LUMA = (0.299, 0.587, 0.114)


class Fit(StrEnum):
    """How a picture becomes a square."""

    STRETCH = "stretch"
    """Both sides are scaled to the size, whatever the shape was."""
    CROP = "crop"
    """The shorter side is scaled to the size and the middle is kept."""
    PAD = "pad"
    """The longer side is scaled to the size and black is added evenly around the rest."""


class Channels(StrEnum):
    """What the three channels hold."""

    GREY = "grey"
    """The same grey image three times."""
    COLOUR = "colour"
    """Red, green, blue."""


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """What is done to a picture before the network, in this order: channels, fit, normalise.

    Attributes
    ----------
    size
        Side of the square, pixels.
    fit, channels
        See there. Scaling is bilinear with an antialiasing triangle as wide as the scale (Pillow's).
    mean, deviation
        Of each channel, on the scale [0, 1]: a value becomes ``(value - mean) / deviation``.
    """

    size: int
    fit: Fit
    channels: Channels
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Preprocessing:
        """From plain data; IntegrityError where a fact is missing or of another kind."""
        try:
            return cls(
                size=int(facts["size"]),
                fit=Fit(facts["fit"]),
                channels=Channels(facts["channels"]),
                mean=_three(facts["mean"]),
                deviation=_three(facts["deviation"]),
            )
        except (KeyError, TypeError, ValueError):
            raise IntegrityError(
                "The model's preprocessing cannot be understood", "Train or fetch the model again"
            ) from None


def _three(values: Any) -> tuple[float, float, float]:
    one, two, three = (float(value) for value in values)
    return one, two, three


def prepare(picture: Picture, how: Preprocessing) -> NDArray[np.float32]:
    """One picture as ``(3, size, size)`` float32."""
    import numpy as np

    mean = np.array(how.mean, np.float32)[:, None, None]
    deviation = np.array(how.deviation, np.float32)[:, None, None]
    squares = [_square(plane, how) for plane in _planes(picture.pixels, how.channels)]
    stacked = np.stack(squares * (3 // len(squares)))
    return np.asarray((stacked - mean) / deviation, np.float32)


def _planes(pixels: NDArray[np.float32], channels: Channels) -> list[NDArray[np.float32]]:
    """Grey or RGB as the network wants it: one plane, or three."""
    import numpy as np

    if pixels.ndim == 2:
        return [pixels]
    if channels is Channels.GREY:
        return [pixels @ np.array(LUMA, np.float32)]
    return [pixels[..., channel] for channel in range(3)]


def _square(plane: NDArray[np.float32], how: Preprocessing) -> NDArray[np.float32]:
    """One plane as ``(size, size)``."""
    import numpy as np
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(plane, np.float32))
    width, height = image.size
    if how.fit is Fit.STRETCH:
        return np.asarray(image.resize((how.size, how.size), Image.Resampling.BILINEAR))
    if how.fit is Fit.CROP:
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
        return np.asarray(image.resize((how.size, how.size), Image.Resampling.BILINEAR, box))
    scale = how.size / max(width, height)
    inner = (max(1, round(width * scale)), max(1, round(height * scale)))
    square = np.zeros((how.size, how.size), np.float32)
    left_edge, top_edge = (how.size - inner[0]) // 2, (how.size - inner[1]) // 2
    square[top_edge : top_edge + inner[1], left_edge : left_edge + inner[0]] = np.asarray(
        image.resize(inner, Image.Resampling.BILINEAR)
    )
    return square
