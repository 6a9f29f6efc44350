"""Images of whole slides, downscaled or cropped to inner tissue (Holub et al. 2023).

The paper downscales the whole slide to the input size of a network, or crops it so that only inner tissue is
visible. Here the longer side of a whole slide is 512 pixels, which serves networks of different input sizes,
and the crop is 224 x 224 pixels of that around the middle of the tissue. The paper aligns slides before
cropping, as the worst case; this module does not.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UnreadablePicture

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Longer side of a whole slide, in pixels.
EDGE = 512
# Side of the central crop, in pixels of the whole slide: the input size of the networks in the paper.
CROP = 224
_MOST_BYTES = 512 << 20
# Otsu's method splits any histogram: below this saturation is only the noise of empty glass.
_LEAST_SATURATION = 0.04
_BINS = 256


def is_slide(path: Path) -> bool:
    """Whether OpenSlide can read the file as a slide."""
    from openslide import OpenSlide

    return OpenSlide.detect_format(path) is not None


def read_slide(path: Path) -> NDArray[np.float32]:
    """Read a whole slide as RGB in [0, 1], on the background color that it names (white by default).

    The pixels come from the smallest level with a longer side of at least 512 pixels, restricted to the
    scanned region where the slide states one. The levels of a DICOM slide are found next to the file by their
    series.

    Raises
    ------
    UnreadablePicture
        ``slide-not-readable``, or ``too-large`` if that level is.
    """
    from openslide import OpenSlide, OpenSlideError

    try:
        with OpenSlide(path) as slide:
            return _whole(slide)
    except (OpenSlideError, OSError, ValueError):
        raise UnreadablePicture("slide-not-readable", "slide") from None


def _whole(slide: Any) -> NDArray[np.float32]:
    import numpy as np
    from PIL import Image

    left, top, wide, high = _bounds(slide)
    longer = max(wide, high)
    fitting = [n for n, down in enumerate(slide.level_downsamples) if longer / down >= EDGE]
    # Levels are sorted from the largest to the smallest.
    level = fitting[-1] if fitting else 0
    down = slide.level_downsamples[level]
    size = max(round(wide / down), 1), max(round(high / down), 1)
    if size[0] * size[1] * 4 > _MOST_BYTES:
        raise UnreadablePicture("too-large", "slide")
    # OpenSlide takes the location in pixels of the largest level, whatever level is read.
    region = slide.read_region((left, top), level, size)
    ground = "#" + str(slide.properties.get("openslide.background-color", "FFFFFF"))
    flat = Image.new("RGB", region.size, ground)
    # Regions that were not scanned are transparent.
    flat.paste(region, mask=region.getchannel("A"))
    return downscale(np.asarray(flat))


def downscale(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Scale an 8-bit image to a longer side of at most 512 pixels, in [0, 1]; never enlarge it."""
    import numpy as np
    from PIL import Image

    longer = max(pixels.shape[:2])
    if longer > EDGE:
        rows, columns = (max(round(side * EDGE / longer), 1) for side in pixels.shape[:2])
        pixels = np.asarray(Image.fromarray(pixels).resize((columns, rows), Image.Resampling.BOX))
    return pixels.astype(np.float32) / np.float32(255)


def _bounds(slide: Any) -> tuple[int, int, int, int]:
    """Left, top, width and height of the scanned region, in pixels of the largest level."""
    wide, high = slide.dimensions
    names = ("x", "y", "width", "height")
    said = [str(slide.properties.get(f"openslide.bounds-{name}", "")) for name in names]
    # isascii: isdigit() accepts superscript digits, which int() refuses.
    if not all(one.isascii() and one.isdigit() for one in said):
        return 0, 0, wide, high
    left, top, across, down = (int(one) for one in said)
    if not (0 < across <= wide - left and 0 < down <= high - top):
        return 0, 0, wide, high
    return left, top, across, down


def tissue_mask(pixels: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Find tissue: saturation above Otsu's threshold, as stains have color and glass has none.

    Parameters
    ----------
    pixels : array of float32, shape (rows, columns, 3)
        RGB in [0, 1].

    Returns
    -------
    array of bool, shape (rows, columns)
        All False if nothing is colored.
    """
    import numpy as np

    brightest = pixels.max(axis=2)
    saturation = np.where(brightest > 0, 1 - pixels.min(axis=2) / np.maximum(brightest, 1e-6), 0)
    threshold = max(_otsu(saturation), _LEAST_SATURATION)
    mask: NDArray[np.bool_] = saturation > threshold
    return mask


def _otsu(values: NDArray[Any]) -> float:
    """Threshold in [0, 1] with the largest variance between both classes (Otsu 1979)."""
    import numpy as np

    counts = np.histogram(values, _BINS, (0, 1))[0].astype(np.float64)
    middles = (np.arange(_BINS) + 0.5) / _BINS
    below, total = np.cumsum(counts), counts.sum()
    sums = np.cumsum(counts * middles)
    above = total - below
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (sums / below - (sums[-1] - sums) / above) ** 2
    best = np.nan_to_num(between)
    return float((np.argmax(best) + 1) / _BINS) if best.any() else 0.0


def central_crop(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Crop 224 x 224 pixels, or less of a smaller slide, around the center of mass of the tissue."""
    import numpy as np

    rows, columns = np.nonzero(tissue_mask(pixels))
    middle = [float(one.mean()) if one.size else math.nan for one in (rows, columns)]
    spans = []
    for place, side in zip(middle, pixels.shape, strict=False):
        size = min(CROP, side)
        center = (side - 1) / 2 if math.isnan(place) else place
        start = min(max(round(center - (size - 1) / 2), 0), side - size)
        spans.append(slice(start, start + size))
    return np.ascontiguousarray(pixels[spans[0], spans[1]])
