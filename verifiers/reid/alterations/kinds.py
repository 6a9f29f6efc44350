"""All alterations by name: those of one image, and those that join two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.reid.alterations import composites, geometry, intensity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Copies of one image, by name. Names are part of a verdict: rename none.
ALTERED: Final[Mapping[str, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]]] = {
    "moved": geometry.moved,
    "mirrored": geometry.mirrored,
    "cropped": geometry.cropped,
    "cropped off center": geometry.cropped_off_center,
    "rotated": geometry.rotated,
    "zoomed out": geometry.zoomed_out,
    "elastic": geometry.elastic,
    "blurred": intensity.blurred,
    "re-encoded": intensity.encoded,
    "noised": intensity.noised,
    "gamma": intensity.gamma,
    "equalized": intensity.equalized,
    "inverted": intensity.inverted,
}
# Parts of one image in that of another patient.
JOINED: Final[Mapping[str, Callable[[NDArray[np.uint8], NDArray[np.uint8]], NDArray[np.uint8]]]] = {
    "left half": composites.left_half,
    "right half": composites.right_half,
    "upper half": composites.upper_half,
    "lower half": composites.lower_half,
    "blended": composites.blended,
    "patch": composites.patch,
}
