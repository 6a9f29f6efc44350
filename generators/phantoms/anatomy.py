"""Anatomy of a chest phantom: what stays the same between visits of a patient.

Coordinates: x from -1 (the patient's right) to 1, y from -1 (neck) to 1 (abdomen). Values are attenuation;
dense tissue is larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from medsanitize.generators.phantoms.random_fields import (
    Field,
    blur,
    bump,
    grid,
    noise,
    soft,
    splat,
    stream,
)

_RIBS = 12


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Layers of a chest, each ``(size, size)``.

    ``still`` is everything but lungs and heart; ``lung`` the air along the ray, in [0, 1]; ``heart`` the
    heart; ``inside`` the inner area of the chest, where findings can be, in [0, 1].
    """

    still: Field
    lung: Field
    heart: Field
    inside: Field


# Layers depend on the patient only, and cohorts write all visits of a patient in sequence.
@lru_cache(maxsize=32)
def anatomy(patient: int, size: int, seed: int) -> Anatomy:
    """Build the chest of a patient."""
    random = stream(seed, patient, 1)
    x, y = grid(size)
    chest = _Chest.drawn(random)
    inside, lung = chest.lungs(x, y)
    heart = chest.heart(x, y)
    bones = chest.spine(x, y, random) + chest.ribs(x, y, random) * soft(0.9 - np.abs(x), 0.1)
    bones += chest.clavicles(x, y, random) + chest.scapulae(x, y, random)
    vessels = _vessels(random, size, chest)
    texture = noise(random, 60, size) * 0.35 + noise(random, 25, size) * 0.4 + noise(random, 9, size) * 0.4
    lung = lung * (1 - 0.06 * texture) * (1 - 0.6 * heart)
    still = chest.body(x, y, random) + bones + chest.mediastinum(x, y)
    # Noise and marks are individual as well: they are what identifies a patient.
    still += inside * (vessels * 0.36) + noise(random, 7, size) * 0.08 + _marks(random, size)
    return Anatomy(still.astype(np.float32), lung.astype(np.float32), heart, inside)


@dataclass(frozen=True, slots=True)
class _Chest:
    """Measures of a chest, in canvas units."""

    width: float
    apex: float
    middle: float
    right_dome: float
    left_dome: float
    dome_curve: float
    central: float
    knob: float
    knob_y: float
    heart_x: float
    heart_y: float
    heart_wide: float
    heart_high: float
    heart_tilt: float
    bend: float
    thick: float
    breasts: float

    @classmethod
    def drawn(cls, random: np.random.Generator) -> _Chest:
        """Sample measures around the means of a population."""

        def about(mean: float, spread: float) -> float:
            # Clipped: an extreme value would give an impossible shape.
            return float(mean + spread * np.clip(random.standard_normal(), -2, 2))

        right = about(0.48, 0.10)
        return cls(
            width=about(0.76, 0.07),
            apex=about(-0.79, 0.065),
            middle=about(0.2, 0.12),
            right_dome=right,
            left_dome=right + about(0.06, 0.05),
            dome_curve=about(1.1, 0.45),
            central=about(0.125, 0.028),
            knob=about(0.055, 0.035),
            knob_y=about(-0.36, 0.07),
            heart_x=about(0.13, 0.05),
            heart_y=about(0.30, 0.06),
            heart_wide=about(0.34, 0.07),
            heart_high=about(0.29, 0.055),
            heart_tilt=about(0.5, 0.3),
            bend=about(0.0, 0.045),
            thick=about(1.0, 0.16),
            breasts=max(about(0.03, 0.1), 0.0),
        )

    def body(self, x: Field, y: Field, random: np.random.Generator) -> Field:
        """Trunk, shoulders and neck, with fat and breasts."""
        shoulders = 0.42 + 0.75 * soft(y + 0.78 + 0.05 * random.standard_normal(), 0.12)
        half = np.minimum(shoulders, self.width + 0.34 + 0.06 * y)
        depth = np.sqrt(np.clip(1 - (x / half) ** 2, 0, 1))
        belly = soft(y - 0.55, 0.25) * 0.25
        breast = sum(
            bump((x - side * (0.42 + 0.04 * random.standard_normal())) / 0.22) * bump((y - 0.28) / 0.2)
            for side in (-1, 1)
        )
        total: Field = self.thick * depth * (0.95 + belly) + self.breasts * breast * 1.6
        return total

    def _outer(self, y: Field) -> Field:
        """Half the inner width of the chest at each height."""
        up = np.clip((self.middle - y) / (self.middle - self.apex), 0, None)
        down = np.clip(y - self.middle, 0, None)
        half: Field = self.width * np.sqrt(np.clip(1 - up**2.4, 0, 1)) - 0.06 * down * down
        return half

    def lungs(self, x: Field, y: Field) -> tuple[Field, Field]:
        """Area of both lungs, and the air in them."""
        outer = self._outer(y)
        area = np.zeros(np.broadcast_shapes(x.shape, y.shape), np.float32)
        air = area.copy()
        for side, level in ((-1, self.right_dome), (1, self.left_dome)):
            across = x * side
            inner = self.central + (self.knob * bump((y - self.knob_y) / 0.09) if side > 0 else 0)
            dome = level + self.dome_curve * (across - 0.34) ** 2
            here = soft(across - inner, 0.025) * soft(outer - across, 0.03) * soft(dome - y, 0.025)
            half = np.maximum((outer - inner) / 2, 0.02)
            depth = np.sqrt(np.clip(1 - ((across - inner - half) / (half * 1.25)) ** 2, 0, 1))
            area += here
            air += here * depth
        return area, air

    def heart(self, x: Field, y: Field) -> Field:
        """Shadow of the heart, in [0, 1]."""
        cos, sin = np.cos(self.heart_tilt), np.sin(self.heart_tilt)
        dx, dy = x - self.heart_x, y - self.heart_y
        along = (cos * dx + sin * dy) / (self.heart_wide * 1.12)
        across = (-sin * dx + cos * dy) / (self.heart_high * 0.92)
        shadow: Field = soft(1 - along * along - across * across, 0.16)
        return shadow

    def mediastinum(self, x: Field, y: Field) -> Field:
        """Great vessels, trachea, and the liver below the right dome."""
        middle = self.bend * np.sin(2.2 * y)
        great = 0.22 * soft(self.central + 0.02 - np.abs(x - middle), 0.03) * soft(y + 0.75, 0.2)
        windpipe = -0.16 * bump((x - middle - 0.01) / 0.035) * soft(-0.12 - y, 0.05)
        knob = 0.2 * bump((x - self.central - self.knob * 0.3) / 0.07) * bump((y - self.knob_y) / 0.075)
        liver = 0.22 * soft(y - self.right_dome, 0.05) * soft(0.1 - x, 0.2)
        return great + windpipe + knob + liver

    def spine(self, x: Field, y: Field, random: np.random.Generator) -> Field:
        """Vertebrae, discs and pedicles."""
        middle = self.bend * np.sin(2.2 * y + 0.4) + 0.01 * random.standard_normal()
        half = 0.07 + 0.012 * y + 0.006 * random.standard_normal()
        phase = 2 * np.pi * (y + 0.012 * np.sin(9 * y)) / (0.155 + 0.008 * random.standard_normal())
        phase = phase + random.uniform(0, 2 * np.pi)
        column = soft(half - np.abs(x - middle), 0.012)
        discs = 0.75 + 0.25 * soft(np.cos(phase) + 0.75, 0.2)
        pedicles = sum(bump((x - middle - side * half * 0.62) / 0.014) for side in (-1, 1))
        return 0.18 * column * discs + 0.09 * pedicles * soft(np.cos(phase) - 0.55, 0.15)

    def ribs(self, x: Field, y: Field, random: np.random.Generator) -> Field:
        """Twelve pairs of ribs with individual position and thickness; fainter in front."""
        total = np.zeros(np.broadcast_shapes(x.shape, y.shape), np.float32)
        spacing = 0.15 + 0.013 * random.standard_normal()
        slope, curve = 0.02 + 0.1 * random.standard_normal(), 0.48 + 0.14 * random.standard_normal()
        front = 0.52 + 0.15 * random.standard_normal()
        strength, fainter = np.exp(0.3 * random.standard_normal(2)) * [0.16, 0.075]
        for side in (-1, 1):
            mask = soft(x * side - 0.05, 0.02)
            across = np.abs(x)
            tilt = slope + 0.02 * random.standard_normal()
            bow = curve + 0.04 * random.standard_normal()
            back = y - tilt * across - bow * across**2
            total += strength * mask * _bands(back, -1.0, spacing, random)
            ahead = y + front * across - 0.14 * across**3 - 0.25
            visible = soft(across - 0.22 - 0.03 * random.standard_normal(), 0.06)
            total += fainter * mask * visible * _bands(ahead, -0.85, spacing * 1.06, random)
        return total * soft(self.width + 0.07 - np.abs(x), 0.02) * soft(0.85 - y, 0.2)

    def clavicles(self, x: Field, y: Field, random: np.random.Generator) -> Field:
        """Two S-shaped clavicles."""
        total = np.zeros(np.broadcast_shapes(x.shape, y.shape), np.float32)
        strength = 0.2 * np.exp(0.25 * random.standard_normal())
        level = self.apex + 0.17 + 0.05 * random.standard_normal()
        for side in (-1, 1):
            across = x * side
            tilt = -0.16 + 0.11 * random.standard_normal()
            line = level + tilt * across + 0.03 * np.sin(6.5 * across + 0.5 * random.standard_normal())
            half = 0.026 + 0.004 * random.standard_normal()
            ends = soft(across - 0.07, 0.015) * soft(0.85 - across, 0.03)
            total += strength * ends * _cortex((y - line) / half)
        return total

    def scapulae(self, x: Field, y: Field, random: np.random.Generator) -> Field:
        """Scapulae at the outer upper border."""
        total = np.zeros(np.broadcast_shapes(x.shape, y.shape), np.float32)
        for side in (-1, 1):
            border = 0.66 + 0.07 * random.standard_normal() + 0.16 * (y + 0.2)
            blade = soft(x * side - border, 0.015) * soft(0.12 + 0.1 * random.standard_normal() - y, 0.04)
            edge = bump((x * side - border) / 0.018) * soft(0.1 - y, 0.04)
            total += (0.1 * blade + 0.07 * edge) * soft(y + 0.72, 0.05)
        return total


def _bands(at: Field, first: float, spacing: float, random: np.random.Generator) -> Field:
    """Bones every ``spacing``, with individual position and thickness."""
    steps = np.arange(_RIBS + 2) * spacing + first
    places = np.sort(steps + 0.016 * random.standard_normal(_RIBS + 2))
    thick = 0.036 + 0.004 * random.standard_normal() + 0.005 * random.standard_normal(_RIBS + 2)
    number = np.interp(at, places, np.arange(_RIBS + 2)).astype(np.float32)
    nearest = np.rint(number).astype(np.int32)
    half = np.maximum(thick, 0.02).astype(np.float32)
    away: Field = (at - places.astype(np.float32)[nearest]) / half[nearest]
    return _cortex(away)


def _cortex(distance: Field) -> Field:
    """Profile across a bone: 1 inside, brighter at the cortex, 0 beyond a distance of 1."""
    away = np.abs(distance)
    return soft(1 - away, 0.22) * (0.7 + 0.5 * bump((away - 0.8) / 0.25))


def _marks(random: np.random.Generator, size: int) -> Field:
    """Individual marks: calcified spots, in some patients sternal wires or a pacemaker."""
    x, y = grid(size)
    spots = random.poisson(5)
    places = random.uniform((-0.6, -0.7), (0.6, 0.5), (spots, 2))
    total = np.zeros((size, size), np.float32)
    for (across, down), radius in zip(places, random.uniform(0.012, 0.03, spots), strict=True):
        total += 0.28 * soft(1 - np.hypot(x - across, y - down) / radius, 0.4)
    if random.random() < 0.12:
        for level in random.uniform(-0.02, 0.02, 5) + np.linspace(-0.45, 0.2, 5):
            away = np.hypot((x - 0.01) / 0.05, (y - level) / 0.022)
            total += 0.3 * bump((away - 1) / 0.18)
    if random.random() < 0.08:
        box = np.maximum(np.abs(x - random.uniform(0.42, 0.52)) / 0.11, np.abs(y + 0.5) / 0.1)
        total += 0.55 * soft(1 - box, 0.1)
    return total


def _vessels(random: np.random.Generator, size: int, chest: _Chest) -> Field:
    """Vascular trees that branch from both hila."""
    points, weights = [], []
    for side in (-1, 1):
        hilum = np.array([side * (chest.central + 0.05), 0.02 + 0.05 * random.standard_normal()])
        starts = np.repeat(hilum[None], 9, axis=0)
        angles = np.linspace(-1.35, 1.45, 9) + 0.22 * random.standard_normal(9)
        for level, (length, weight) in enumerate(((0.3, 1.0), (0.26, 0.6), (0.2, 0.35))):
            steps = 26 - 6 * level
            turns = np.cumsum(0.16 * random.standard_normal((len(starts), steps)), axis=1) + angles[:, None]
            each = length / steps * (0.75 + 0.5 * random.random((len(starts), 1)))
            way = np.stack([side * np.cos(turns), np.sin(turns)], axis=-1) * each[..., None]
            path = starts[:, None] + np.cumsum(way, axis=1)
            fade = weight * np.linspace(1, 0.55, steps)
            points.append(path.reshape(-1, 2))
            weights.append(np.repeat(fade[None], len(starts), axis=0).reshape(-1))
            chosen = random.integers(steps // 3, steps, (len(starts), 2))
            rows = np.arange(len(starts))[:, None]
            starts = path[rows, chosen].reshape(-1, 2)
            spread = np.array([-0.55, 0.55]) + 0.2 * random.standard_normal((len(rows), 2))
            angles = (turns[rows, chosen] + spread).reshape(-1)
    drawn = splat(np.concatenate(points), np.concatenate(weights), size)
    # Scaled by the area of a pixel, so that vessels look alike at every size.
    drawn = blur(drawn, 1 + size // 200) * np.float32((size / 256) ** 2 * 0.9)
    tree: Field = np.tanh(drawn * 1.2)
    return tree
