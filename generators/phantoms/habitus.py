"""Habitus of a chest phantom: build, soft tissue and gas, which differ between patients as much as bones do.

`anatomy` draws bones, lungs and vessels in a trunk that all patients share. Here the trunk of each patient is
scaled, bent and filled with tissue of its own, so that no part of an image looks like that of somebody else.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from medsanitize.generators.phantoms.anatomy import Anatomy, anatomy
from medsanitize.generators.phantoms.random_fields import Field, grid, noise, sample_canvas, soft, stream

# Standard deviation of the displacement of a point by scale in cells per canvas, in canvas units.
_BENDS = ((3, 0.05), (6, 0.03), (11, 0.012))
# Contrast of soft tissue by scale, as attenuation.
_TISSUES = ((6, 0.12), (12, 0.11), (24, 0.09), (45, 0.06))
# Attenuation above which contrast is reduced, and the share that is left.
_KNEE, _ABOVE = 0.85, 0.5


@lru_cache(maxsize=32)
def individual_anatomy(patient: int, size: int, seed: int) -> Anatomy:
    """Build the chest of a patient as `anatomy` does, with a habitus of its own."""
    random = stream(seed, patient, 10)
    chest = anatomy(patient, size, seed)
    trunk = soft(chest.still - 0.12, 0.08) * (1 - 0.6 * chest.inside)
    # As after a device's processing of the range: neither lungs nor abdomen are clipped.
    still = np.where(chest.still > _KNEE, _KNEE + (chest.still - _KNEE) * _ABOVE, chest.still)
    still = still + trunk * _tissue(random, size) - _gas(random, size, chest)
    air = chest.lung * np.float32(random.uniform(0.7, 0.85))
    layers = np.stack([still, air, chest.heart, chest.inside], axis=-1)
    bent = sample_canvas(layers, *_bent(random, size))
    return Anatomy(bent[..., 0], bent[..., 1], bent[..., 2], bent[..., 3])


def _tissue(random: np.random.Generator, size: int) -> Field:
    """Muscle, fat and skin folds."""
    total = np.zeros((size, size), np.float32)
    for cells, contrast in _TISSUES:
        total += noise(random, cells, size) * np.float32(contrast * np.exp(0.2 * random.standard_normal()))
    return total


def _gas(random: np.random.Generator, size: int, chest: Anatomy) -> Field:
    """Gas in stomach and bowel: bubbles below the lungs."""
    _, y = grid(size)
    bubbles = soft(noise(random, 8, size) - np.float32(random.uniform(0.6, 1.4)), 0.25)
    below = soft(y - 0.5, 0.1) * (1 - chest.inside)
    gas: Field = bubbles * below * np.float32(random.uniform(0.15, 0.35))
    return gas


def _bent(random: np.random.Generator, size: int) -> tuple[Field, Field]:
    """Coordinates in the shared trunk of each point of the patient's."""
    x, y = grid(size)
    wide, high = 1.2 * np.exp(0.09 * np.clip(random.standard_normal(2), -2, 2))
    lean, left, up = np.clip(random.standard_normal(3), -2, 2) * [0.04, 0.04, 0.05]
    across = x / np.float32(wide) + np.float32(lean) * y + np.float32(left)
    down = y / np.float32(high) + np.float32(up + 0.03)
    for cells, spread in _BENDS:
        across = across + noise(random, cells, size) * np.float32(spread)
        down = down + noise(random, cells, size) * np.float32(spread)
    return across, down
