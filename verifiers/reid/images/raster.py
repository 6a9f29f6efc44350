"""Images of PNG, JPEG and TIFF files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UnreadablePicture
from medsanitize.verifiers.reid.images.grayscale import rescale_intensity
from medsanitize.verifiers.reid.images.image import ImageArray, Modality

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Largest image that is decoded, as float32 samples.
MOST_BYTES = 512 << 20
# Pillow tries no other decoder: each one is attack surface for a hostile file.
_FORMATS = ("PNG", "JPEG", "TIFF")
_NEW_SUBFILE_TYPE = 254
_PHOTOMETRIC = 262
_MIN_COLOR_SPREAD = 0.12
_MIN_COLORED_SHARE = 0.05


def read_raster(path: Path, stated: Modality | None = None) -> ImageArray:
    """Read the first page of a file, upright by its EXIF orientation.

    Color images with three equal channels become gray. Gray samples of more than 8 bits, whose range is
    unknown, are scaled between their 0.5th and 99.5th percentile. Transparency becomes white in color images
    and black in gray ones; an image is in color if more than 5 % of its pixels have channels that differ by
    more than 0.12.

    Parameters
    ----------
    path : Path
        The file.
    stated : Modality, optional
        The kind of the image, which its pixels do not tell: a CT slice is as gray as a radiograph. A picture
        in color is of unknown kind if a radiograph is stated.

    Raises
    ------
    UnreadablePicture
        ``not-an-image``, ``too-large`` (before decoding) or ``pixels-undecodable``.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=_FORMATS) as image:
                # By the header, before Pillow allocates the pixels.
                if image.width * image.height * _channels(image.mode) * 4 > MOST_BYTES:
                    raise UnreadablePicture("too-large", "pixels")
                pixels = _pixels(ImageOps.exif_transpose(image), _is_inverted(image))
                further = _further(image)
    except UnidentifiedImageError:
        raise UnreadablePicture("not-an-image") from None
    except Image.DecompressionBombError:
        raise UnreadablePicture("too-large", "pixels") from None
    # Pillow raises SyntaxError for broken headers.
    except (OSError, SyntaxError, ValueError, LookupError, ArithmeticError, RuntimeError, TypeError):
        raise UnreadablePicture("pixels-undecodable", "pixels") from None
    shown = collapse_channels(pixels)
    # A radiograph has no colors: the statement is of another picture.
    contradicted = stated is not None and stated.is_projection and _is_stained(shown)
    return ImageArray(shown, None if contradicted else stated, further=further)


def collapse_channels(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Reduce three equal channels to one."""
    import numpy as np

    if pixels.ndim == 3:
        first = pixels[..., 0]
        if np.array_equal(first, pixels[..., 1]) and np.array_equal(first, pixels[..., 2]):
            return np.ascontiguousarray(first)
    return pixels


def _further(image: Any) -> int:
    """Pages after the first that are no reduced version of another (NewSubfileType, TIFF 6.0 p. 36)."""
    count = 0
    for number in range(1, getattr(image, "n_frames", 1)):
        image.seek(number)
        count += not int(getattr(image, "tag_v2", {}).get(_NEW_SUBFILE_TYPE, 0)) & 1
    return count


def _channels(mode: str) -> int:
    """Number of samples per decoded pixel."""
    return 1 if mode in ("1", "L", "I", "F") or mode.startswith("I;") else 4 if "A" in mode.upper() else 3


def _is_inverted(image: Any) -> bool:
    """Whether WhiteIsZero is left to invert: Pillow inverts only images of up to 8 bits."""
    tags = getattr(image, "tag_v2", {})
    return image.mode not in ("1", "L") and tags.get(_PHOTOMETRIC) == 0


def _pixels(image: Any, inverted: bool) -> NDArray[np.float32]:
    import numpy as np

    if image.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
        found = rescale_intensity(np.asarray(image))
        return 1 - found if inverted else found
    if image.mode in ("1", "L"):
        return _unit(image.convert("L"))
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        return _opaque(_unit(image.convert("RGBA")))
    return _unit(image.convert("RGB"))


def _unit(image: Any) -> NDArray[np.float32]:
    import numpy as np

    return np.asarray(image, np.float32) / np.float32(255)


def _opaque(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Blend RGBA with its background: white for a color image, black for a gray one."""
    import numpy as np

    colors, alpha = pixels[..., :3], pixels[..., 3:]
    behind = np.float32(1 if _is_stained(collapse_channels(colors * alpha)) else 0)
    return colors * alpha + behind * (1 - alpha)


def _is_stained(pixels: NDArray[np.float32]) -> bool:
    import numpy as np

    if pixels.ndim == 2:
        return False
    spread = pixels.max(axis=2) - pixels.min(axis=2)
    return bool(np.count_nonzero(spread > _MIN_COLOR_SPREAD) > _MIN_COLORED_SHARE * spread.size)
