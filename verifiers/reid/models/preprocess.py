"""Preprocessing of an image for a network, described by plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from medsanitize.errors import IntegrityError

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray
    from numpy.typing import NDArray

# Weights of red, green and blue in gray (ITU-R BT.601).
LUMA = (0.299, 0.587, 0.114)
# Along one axis: start, extent, and number of pixels after scaling.
Window = tuple[float, float, int]
# Borders are searched at this size at most, so that the result does not depend on the detector.
MAX_BORDER_SIDE = 512


class Fit(StrEnum):
    """How an image is made square."""

    STRETCH = "stretch"
    """Both sides are scaled to the size, whatever the aspect ratio."""
    CROP = "crop"
    """The shorter side is scaled to the size, and the middle is kept."""
    PAD = "pad"
    """The longer side is scaled to the size, and the rest is padded with black on both sides."""


class Channels(StrEnum):
    """Content of the three channels."""

    GRAY = "gray"
    """The same gray image three times."""
    COLOR = "color"
    """Red, green, blue."""


class ContrastMode(StrEnum):
    """Normalization of a radiograph."""

    AS_IS = "as-is"
    """None."""
    EVEN = "even"
    """Uniform borders are cropped and contrast is equalized by tiles; see `radiograph_normalization`."""
    LOCAL = "local"
    """Deviations from the local mean, in local deviations: independent of what is shown elsewhere."""


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Preprocessing of an image, in this order: channels, contrast, fit, normalization.

    Attributes
    ----------
    size
        Size of the preprocessed image, pixels.
    fit, channels
        See `Fit` and `Channels`. Scaling is bilinear with an antialiasing triangle as wide as the scale, as
        in Pillow.
    mean, deviation
        By channel, for values in [0, 1]: a value becomes ``(value - mean) / deviation``.
    look
        See `ContrastMode`. Borders are searched at ``MAX_BORDER_SIDE`` pixels at most; contrast is equalized
        after scaling.
    """

    size: int
    fit: Fit
    channels: Channels
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    look: ContrastMode = ContrastMode.AS_IS

    def to_json(self) -> dict[str, Any]:
        """Return the preprocessing as JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Preprocessing:
        """Parse the output of `to_json`.

        Raises
        ------
        IntegrityError
            If a member is missing or of another type.
        """
        try:
            return cls(
                size=int(facts["size"]),
                fit=Fit(facts["fit"]),
                channels=Channels(facts["channels"]),
                mean=_three(facts["mean"]),
                deviation=_three(facts["deviation"]),
                look=ContrastMode(facts["look"]),
            )
        except (KeyError, TypeError, ValueError):
            raise IntegrityError(
                "The model's preprocessing is invalid", "Train or fetch the model again"
            ) from None


def _three(values: Any) -> tuple[float, float, float]:
    one, two, three = (float(value) for value in values)
    return one, two, three


def prepare(picture: ImageArray, how: Preprocessing) -> NDArray[np.float32]:
    """Preprocess an image.

    Parameters
    ----------
    picture : ImageArray
        The image.
    how : Preprocessing
        The preprocessing.

    Returns
    -------
    array of float32, shape (3, size, size)
        The preprocessed image.
    """
    import numpy as np

    mean = np.array(how.mean, np.float32)[:, None, None]
    deviation = np.array(how.deviation, np.float32)[:, None, None]
    pixels = _channels(picture.pixels, how.channels)
    if how.look is ContrastMode.EVEN:
        from medsanitize.verifiers.reid.models.radiograph_normalization import even_contrast

        square = np.stack([even_contrast(plane) for plane in _square(_within_borders(pixels), how)])
    elif how.look is ContrastMode.LOCAL:
        from medsanitize.verifiers.reid.models.radiograph_normalization import local_contrast

        square = np.stack([local_contrast(plane) for plane in _square(pixels, how)])
    else:
        square = _square(pixels, how)
    return np.asarray((square - mean) / deviation, np.float32)


def _within_borders(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Crop uniform borders, searched at one scale so that the result does not depend on the detector."""
    from medsanitize.verifiers.reid.models.radiograph_normalization import content

    rows, columns = pixels.shape[:2]
    scale = min(1.0, MAX_BORDER_SIDE / max(rows, columns))
    small = (max(1, round(rows * scale)), max(1, round(columns * scale)))
    seen = _weights(rows, 0, rows, small[0]) @ pixels.mean(2) if scale < 1 else pixels.mean(2)
    seen = (_weights(columns, 0, columns, small[1]) @ seen.T).T if scale < 1 else seen
    top, bottom, left, right = content(seen)
    edges = (round(edge * rows / small[0]) for edge in (top, bottom))
    sides = (round(edge * columns / small[1]) for edge in (left, right))
    return pixels[slice(*edges), slice(*sides)]


def _channels(pixels: NDArray[np.float32], channels: Channels) -> NDArray[np.float32]:
    """Gray or RGB, shape (rows, columns, 1 or 3)."""
    import numpy as np

    if pixels.ndim == 3 and channels is Channels.GRAY:
        pixels = pixels @ np.array(LUMA, np.float32)
    return np.ascontiguousarray(pixels if pixels.ndim == 3 else pixels[..., None], np.float32)


def _square(pixels: NDArray[np.float32], how: Preprocessing) -> NDArray[np.float32]:
    """Scale to shape (1 or 3, size, size), padded with black."""
    import numpy as np

    size, (rows, columns, channels) = how.size, pixels.shape
    of_rows, of_columns = _window(rows, columns, how)
    inner, down, across = _scaled(pixels, of_rows, of_columns), of_rows[2], of_columns[2]
    if (down, across) == (size, size):
        return inner
    square = np.zeros((channels, size, size), np.float32)
    above, before = (size - down) // 2, (size - across) // 2
    square[:, above : above + down, before : before + across] = inner
    return square


def _scaled(pixels: NDArray[np.float32], of_rows: Window, of_columns: Window) -> NDArray[np.float32]:
    """Scale ``(rows, columns, channels)`` to ``(channels, rows, columns)``, a sparse product per axis."""
    import numpy as np

    rows, columns, channels = pixels.shape
    down = _weights(rows, *of_rows) @ pixels.reshape(rows, -1)
    turned = down.reshape(-1, columns, channels).transpose(1, 2, 0).reshape(columns, -1)
    across = _weights(columns, *of_columns) @ turned
    return np.ascontiguousarray(across.reshape(-1, channels, len(down)).transpose(1, 2, 0))


def _window(rows: int, columns: int, how: Preprocessing) -> tuple[Window, Window]:
    """The part of the rows and of the columns that is kept."""
    size = how.size
    if how.fit is Fit.CROP:
        side = min(rows, columns)
        return ((rows - side) / 2, side, size), ((columns - side) / 2, side, size)
    if how.fit is Fit.PAD:
        scale = size / max(rows, columns)
        return (0, rows, max(1, round(rows * scale))), (0, columns, max(1, round(columns * scale)))
    return (0, rows, size), (0, columns, size)


# Images of one detector share their size, and with it these weights.
@lru_cache(maxsize=256)
def _weights(length: int, start: float, seen: float, target: int) -> Any:
    """Weights of ``length`` pixels in each of ``target`` scaled ones: a triangle as wide as the scale.

    A sparse matrix, shape (target, length); the numbers equal those of Pillow's bilinear resize of floats.
    """
    import numpy as np
    from scipy import sparse  # type: ignore[import-untyped]

    scale = seen / target
    reach = max(scale, 1.0)
    centers = start + (np.arange(target) + 0.5) * scale
    first = np.maximum((centers - reach + 0.5).astype(np.int64), 0)
    places = first[:, None] + np.arange(int(2 * reach) + 2)
    shares = np.maximum(1 - np.abs(places + 0.5 - centers[:, None]) / reach, 0) * (places < length)
    shares /= shares.sum(1, keepdims=True)
    taken = shares > 0
    rows = np.broadcast_to(np.arange(target)[:, None], places.shape)[taken]
    values = shares[taken].astype(np.float32)
    return sparse.csr_matrix((values, (rows, places[taken])), shape=(target, length))
