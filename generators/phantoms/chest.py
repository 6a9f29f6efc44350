"""Chest phantoms: the anatomy of a patient in varying pose, exposure and state.

They do not simulate physics or disease. They reproduce what makes re-identification possible and hard:
constant bones and vessels, and everything else variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from medsanitize.generators.phantoms.anatomy import Anatomy, anatomy
from medsanitize.generators.phantoms.habitus import individual_anatomy
from medsanitize.generators.phantoms.random_fields import (
    Field,
    blur,
    bump,
    noise,
    sample_canvas,
    soft,
    splat,
    stream,
)
from numpy.typing import NDArray

FINDINGS = ("none", "opacity", "effusion", "nodule", "cardiomegaly")
# Probability of each finding at a visit.
_CHANCES = (0.5, 0.2, 0.1, 0.1, 0.1)


@dataclass(frozen=True, slots=True)
class Visit:
    """What varies between visits.

    ``view`` is PA or AP, ``finding`` one of FINDINGS, ``days`` since the first visit, ``devices`` the number
    of visible lines and leads. The rest is pose (lengths in canvas units, angles in radians) and exposure.
    """

    view: str
    finding: str
    days: int
    devices: int
    shift: tuple[float, float]
    scale: float
    angle: float
    turn: float
    inspiration: float
    low: float
    high: float
    gamma: float
    grain: float
    blur: float


@lru_cache(maxsize=1024)
def chest_visit(patient: int, visit: int, *, seed: int = 0) -> Visit:
    """Parameters of visit number ``visit`` (from 0) of a patient."""
    random = stream(seed, patient, 2, visit)

    def about(mean: float, spread: float) -> float:
        return float(mean + spread * np.clip(random.standard_normal(), -1.7, 1.7))

    # Days accumulate from visit to visit; the cache keeps the recursion linear.
    earlier = chest_visit(patient, visit - 1, seed=seed).days if visit else 0
    # Bedside images are AP, with devices, less inspiration and larger variation of the pose.
    bedside = random.random() < 0.2
    finding = str(random.choice(FINDINGS, p=_CHANCES))
    return Visit(
        view="AP" if bedside else "PA",
        finding=finding,
        days=earlier + (int(random.lognormal(4.2, 1.4)) + 1 if visit else 0),
        devices=int(random.integers(0, 3)) if bedside else int(random.random() < 0.05),
        shift=(about(0, 0.025), about(0, 0.03)),
        scale=(1.04 if bedside else 1.0) * (1 + about(0, 0.025)),
        angle=about(0, 0.025 if bedside else 0.018),
        turn=about(0, 0.028),
        inspiration=about(-0.03 if bedside else 0.0, 0.035),
        low=float(random.uniform(0.05, 0.11)),
        high=float(random.uniform(1.47, 1.63)),
        gamma=float(np.exp(about(0, 0.09))),
        grain=float(random.uniform(0.004, 0.009)),
        blur=float(random.uniform(0, 0.3)),
    )


def chest_phantom(
    patient: int, visit: int, *, size: int = 256, seed: int = 0, varied: bool = False
) -> NDArray[np.float32]:
    """Generate a chest radiograph.

    Parameters
    ----------
    patient, visit : int
        Numbers from 0. Bones and vessels of a patient are the same at each visit.
    size : int
        Rows and columns.
    seed : int
        Selects the population.
    varied : bool
        Whether build and soft tissue differ between patients as well; see `individual_anatomy`.

    Returns
    -------
    array of float32, shape (size, size)
        In [0, 1], dense tissue is bright. Deterministic.
    """
    state = chest_visit(patient, visit, seed=seed)
    random = stream(seed, patient, 3, visit)
    chest = (individual_anatomy if varied else anatomy)(patient, size, seed)
    attenuation = chest.still + chest.heart * 0.12 - chest.lung * 0.8
    attenuation += _disease(state.finding, chest, random, size)
    if state.devices:
        attenuation = attenuation + _devices(state.devices, random, size)
    x, y = _posed(state, size)
    seen = sample_canvas(attenuation, x, y)
    seen = seen + np.float32(state.blur) * (blur(seen) - seen)
    return _exposed(seen, state, random)


def _posed(state: Visit, size: int) -> tuple[Field, Field]:
    """Canvas coordinates of each pixel after shift, scale, rotation, turn of the trunk and inspiration."""
    line = np.linspace(-1, 1, size, dtype=np.float32) / np.float32(state.scale)
    across, down = line[None, :], line[:, None]
    cos, sin = np.float32(np.cos(state.angle)), np.float32(np.sin(state.angle))
    x = cos * across + sin * down - np.float32(state.shift[0])
    y = -sin * across + cos * down - np.float32(state.shift[1])
    # Inspiration moves the bases more than the apices; a turn shifts the midline sideways.
    y = y - np.float32(state.inspiration) * soft(y, 0.7) * 1.6
    x = x + np.float32(state.turn) * bump(x / 0.45)
    return x, y


def _disease(finding: str, chest: Anatomy, random: np.random.Generator, size: int) -> Field:
    line = np.linspace(-1.2, 1.2, size, dtype=np.float32)
    x, y = line[None, :], line[:, None]
    side = -1.0 if random.random() < 0.5 else 1.0
    if finding == "opacity":
        place = side * random.uniform(0.28, 0.55), random.uniform(-0.4, 0.4)
        cloud = bump((x - place[0]) / random.uniform(0.1, 0.26)) * bump(
            (y - place[1]) / random.uniform(0.1, 0.3)
        )
        patchy: Field = np.clip(0.75 + 0.4 * noise(random, 14, size), 0, None)
        return chest.inside * cloud * patchy * np.float32(random.uniform(0.12, 0.38))
    if finding == "effusion":
        level = random.uniform(0.15, 0.5) - 0.18 * np.abs(x)
        return chest.inside * soft(y - level, 0.07) * soft(x * side, 0.02) * np.float32(0.42)
    if finding == "nodule":
        place = side * random.uniform(0.25, 0.55), random.uniform(-0.5, 0.35)
        away = np.hypot(x - place[0], y - place[1]) / random.uniform(0.025, 0.06)
        return chest.inside * soft(1 - away, 0.35) * np.float32(0.22)
    if finding == "cardiomegaly":
        return chest.inside * bump((x - 0.3) / 0.17) * bump((y - 0.36) / 0.2) * np.float32(0.38)
    return np.zeros((), np.float32)


def _devices(count: int, random: np.random.Generator, size: int) -> Field:
    """Leads and catheters: thin, dense, smooth lines, some with an electrode."""
    lines = np.zeros((size, size), np.float32)
    t = np.linspace(0, 1, 3 * size)[:, None]
    for _ in range(count):
        ends = random.uniform(-0.9, 0.9, (4, 2)) * [0.8, 0.9]
        curve = (1 - t) ** 3 * ends[0] + 3 * (1 - t) ** 2 * t * ends[1]
        curve = curve + 3 * (1 - t) * t**2 * ends[2] + t**3 * ends[3]
        lines += splat(curve, np.full(len(curve), 0.17), size)
        if random.random() < 0.5:
            disc = ends[3] + 0.022 * _DISC
            lines += splat(disc, np.full(len(disc), 0.35 * (size / 256) ** 2), size)
    drawn: Field = np.clip(blur(lines), 0, 0.7)
    return drawn


_ANGLES = np.linspace(0, 40 * np.pi, 220)
_DISC = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1) * np.sqrt(np.linspace(0, 1, 220))[:, None]


def _exposed(seen: Field, state: Visit, random: np.random.Generator) -> Field:
    """Apply tone curve, scatter, noise and, in some images, the border of the collimator."""
    size = seen.shape[0]
    tone = np.clip((seen - np.float32(state.low)) / np.float32(state.high - state.low), 0, 1)
    tone = tone ** np.float32(state.gamma)
    shading = 1 + np.float32(0.015) * noise(random, 2, size)
    grain = random.standard_normal((size, size), np.float32) * np.float32(state.grain)
    picture = tone * shading + grain * (np.float32(0.4) + tone)
    if random.random() < 0.1:
        edges = (random.random(4) * 0.02 * size).astype(int)
        picture[: edges[0]], picture[:, : edges[1]] = 0, 0
        picture[size - edges[2] :], picture[:, size - edges[3] :] = 0, 0
    result: Field = np.clip(picture, 0, 1).astype(np.float32)
    return result
