"""Search of synthetic images for burned-in text, which a generator can learn from its images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.policies.load import loads
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.sanitize.quarantine import Quarantined

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.sanitize.raster.raster_sanitizer import RasterSanitizer
    from numpy.typing import NDArray

# The strictest reading of pixels that a preset has. Nothing is read from or written to these folders.
_POLICY: Final = """\
version: 1
preset: research
release: {name: synthetic, version: "1", mode: pseudonymous}
inputs: [./none]
output: ./none-released
state: ./none-state
keys: {env: NONE}
"""


def default_text_search() -> RasterSanitizer:
    """Return what searches images as the preset ``research`` does."""
    from medsanitize.sanitize.raster.raster_sanitizer import RasterSanitizer

    # Pictures without metadata need no pseudonyms: any key will do.
    return RasterSanitizer(loads(_POLICY, base=Path.cwd()), derive_sub_keys(bytes(64), scope="project"))


def without_text(
    sanitizer: RasterSanitizer, image: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], int] | None:
    """Blank burned-in text in an image, ``(rows, columns)``; None if that is impossible.

    Returns
    -------
    tuple of (ndarray, int) or None
        The image, and the number of blanked regions.
    """
    try:
        return sanitizer.without_text(image)
    except Quarantined:
        return None
