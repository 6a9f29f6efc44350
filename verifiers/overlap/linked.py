"""What linked the two images of a pair, drawn over them: for the page of the closest pairs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from medsanitize.verifiers.models.attention import Attended, attend, open_attended, packaged_attended
from medsanitize.verifiers.overlap.models import Paths
from medsanitize.verifiers.pictures.picture import Modality, Picture

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HEAT = (1.0, 0.35, 0.0)
_OPAQUE = 0.7


@lru_cache(maxsize=4)
def deciding_network(paths: Paths, modality: Modality) -> Attended:
    """The network that decided on pairs of a modality: to verify, else to find, else the packaged one."""
    for folder in (*paths.verification, *paths.retrieval):
        opened = open_attended(folder)
        if opened.config.modality is modality:
            return opened
    return packaged_attended(modality)


def linked(paths: Paths, one: Picture, other: Picture) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Two pictures as the network saw them, tinted where each is like the other.

    Returns
    -------
    tuple of two arrays of uint8, shape (size, size, 3)
    """
    import numpy as np

    found = attend(deciding_network(paths, one.modality), one, other)
    heat = _OPAQUE * found.heat[..., None]
    tinted = found.squares[..., None] * (1 - heat) + np.array(_HEAT, np.float32) * heat
    first, second = np.rint(tinted.clip(0, 1) * 255).astype(np.uint8)
    return first, second
