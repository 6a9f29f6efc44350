"""Tissue phantoms: blocks of patients, near and distant sections, and scanners with different colors.

Colors follow the Beer-Lambert law with the absorption of hematoxylin and eosin (Ruifrok and Johnston 2001).
Structures change slowly through a block: consecutive sections are nearly equal, distant ones are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from medsanitize.generators.phantoms.random_fields import (
    Field,
    blur,
    noise,
    sample_canvas,
    soft,
    splat,
    stream,
)
from numpy.typing import NDArray

# Distance in sections over which the structures of a block change completely.
DEPTH = 60.0
# Optical density per stain in R, G and B.
_HEMATOXYLIN = np.array([0.65, 0.70, 0.29], np.float32)
_EOSIN = np.array([0.07, 0.99, 0.11], np.float32)
_WAVES = 3


@dataclass(frozen=True, slots=True)
class Scanner:
    """Color rendering of a scanner: gain and gamma per channel, blur in [0, 1], noise."""

    gain: tuple[float, float, float]
    gamma: tuple[float, float, float]
    blur: float
    noise: float


@dataclass(frozen=True, slots=True)
class _Habit:
    """Tissue properties common to all blocks of a patient."""

    glands: int
    strands: int
    lumen: float
    nuclei: float
    nucleus: float
    hematoxylin: float
    eosin: float


@lru_cache(maxsize=64)
def scanner(number: int) -> Scanner:
    """Properties of a scanner; number 0 is neutral."""
    if number == 0:
        return Scanner((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), 0.0, 0.006)
    random = stream(number, 4)
    gain, gamma = random.uniform(0.94, 1.0, 3), random.uniform(0.88, 1.14, 3)
    return Scanner(
        (float(gain[0]), float(gain[1]), float(gain[2])),
        (float(gamma[0]), float(gamma[1]), float(gamma[2])),
        float(random.uniform(0.2, 0.9)),
        float(random.uniform(0.006, 0.014)),
    )


def tissue_phantom(
    patient: int, block: int, section: int, scanned: int = 0, *, size: int = 512, seed: int = 0
) -> NDArray[np.uint8]:
    """Generate a tissue slide at overview magnification.

    Parameters
    ----------
    patient, block : int
        Blocks of a patient share their texture, not their shape.
    section : int
        Position in the block in sections (about 4 micrometers); 0 and 1 are consecutive.
    scanned : int
        Number of the scanner; the same section on another scanner is the same glass slide.
    size : int
        Rows and columns.
    seed : int
        Selects the population.

    Returns
    -------
    array of uint8, shape (size, size, 3)
        RGB. Deterministic.
    """
    habit = _habit(patient, seed)
    hematoxylin, eosin = _stains(habit, patient, block, section, size, seed)
    optical = (hematoxylin[..., None] * _HEMATOXYLIN + eosin[..., None] * _EOSIN) * np.float32(1.5)
    glass = np.float32(0.955) * np.exp(-optical)
    random = stream(seed, patient, 5, block, section, scanned)
    return _scanned(_laid(glass, random, size, rescan=scanned > 0), scanner(scanned), random)


@lru_cache(maxsize=256)
def _habit(patient: int, seed: int) -> _Habit:
    random = stream(seed, patient, 6)
    return _Habit(
        glands=int(random.integers(22, 52)),
        strands=int(random.integers(12, 30)),
        lumen=float(random.uniform(0.75, 1.5)),
        nuclei=float(random.uniform(0.6, 1.5)),
        nucleus=float(random.uniform(0.5, 1.0)),
        hematoxylin=float(random.uniform(0.8, 1.25)),
        eosin=float(random.uniform(0.8, 1.2)),
    )


def _through(random: np.random.Generator, cells: int, size: int, section: int) -> Field:
    """Smooth noise that changes gradually with depth."""
    total = np.zeros((size, size), np.float32)
    for wave in range(_WAVES):
        one, other = noise(random, cells, size), noise(random, cells, size)
        phase = 2 * np.pi * section / DEPTH * (0.25 + 0.25 * wave)
        total += one * np.float32(np.cos(phase)) + other * np.float32(np.sin(phase))
    return total / np.float32(np.sqrt(_WAVES))


def _stains(
    habit: _Habit, patient: int, block: int, section: int, size: int, seed: int
) -> tuple[Field, Field]:
    """Amount of hematoxylin and eosin at each pixel."""
    random = stream(seed, patient, 7, block)
    x = np.linspace(-1, 1, size, dtype=np.float32)[None, :]
    wide, high = random.uniform(0.6, 0.85, 2)
    outline = 1 - np.hypot(x / np.float32(wide), x.T / np.float32(high))
    # The outline changes in steps of three sections: it varies more slowly than the texture.
    mask = soft(outline + 0.16 * _through(random, 4, size, section // 3), 0.03)
    glands = _through(random, habit.glands, size, section)
    strands = _through(random, habit.strands, size, section)
    region = _through(random, 5, size, section)
    lumen = soft(glands - np.float32(habit.lumen + 0.3 * region), 0.15)
    stroma = soft(strands + 0.4 * region, 0.6)
    solid = mask * (1 - lumen)
    dense = solid * (0.25 + 0.75 * (1 - stroma)) * (0.6 + 0.8 * soft(glands, 0.5))
    cells = _nuclei(habit, dense, random, section)
    fibres = noise(stream(seed, patient, 8, block, section), size // 4, size) * np.float32(0.05)
    eosin = solid * (0.17 + 0.26 * stroma + fibres) * habit.eosin
    hematoxylin = solid * (0.09 + 0.13 * (1 - stroma)) * habit.hematoxylin + cells * habit.hematoxylin
    return hematoxylin.astype(np.float32), np.clip(eosin, 0, None).astype(np.float32)


def _nuclei(habit: _Habit, density: Field, random: np.random.Generator, section: int) -> Field:
    """Nuclei that each extend over a few sections, so that consecutive sections share most of them."""
    size = density.shape[0]
    count = int(60000 * habit.nuclei)
    places = random.uniform(-1.2, 1.2, (count, 2))
    depth = random.uniform(0, DEPTH, count)
    luck = random.random(count)
    # Distance on a circle: depth is periodic, so that every section has equally many nuclei.
    seen = np.abs((depth - section + DEPTH / 2) % DEPTH - DEPTH / 2) < DEPTH / 12
    places, luck = places[seen], luck[seen]
    at = np.clip(((places + 1.2) / 2.4 * size).astype(int), 0, size - 1)
    kept = luck < density[at[:, 1], at[:, 0]]
    drawn = blur(splat(places[kept], np.full(int(kept.sum()), 1.0), size))
    cells: Field = np.tanh(drawn * np.float32(3.2 * habit.nucleus * (size / 512) ** 2 * 2)) * np.float32(0.75)
    return cells


def _laid(glass: Field, random: np.random.Generator, size: int, *, rescan: bool) -> Field:
    """Place a section on its slide, or the slide in another scanner."""
    turn = random.normal(0, 0.035)
    scale = 1.2 * np.exp(random.normal(0, 0.02 if rescan else 0.01))
    shift = random.normal(0, 0.02, 2)
    line = np.linspace(-1, 1, size, dtype=np.float32) * np.float32(scale)
    across, down = line[None, :] + np.float32(shift[0]), line[:, None] + np.float32(shift[1])
    cos, sin = np.float32(np.cos(turn)), np.float32(np.sin(turn))
    return sample_canvas(glass, cos * across + sin * down, cos * down - sin * across)


def _scanned(seen: Field, by: Scanner, random: np.random.Generator) -> NDArray[np.uint8]:
    picture = seen + np.float32(by.blur) * (blur(seen) - seen) if by.blur else seen
    picture = np.clip(picture, 0, 1) ** np.array(by.gamma, np.float32) * np.array(by.gain, np.float32)
    picture = picture + random.standard_normal((*seen.shape[:2], 1), np.float32) * np.float32(by.noise)
    return np.clip(np.rint(picture * 255), 0, 255).astype(np.uint8)
