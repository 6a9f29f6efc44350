"""Heads with varied faces, in MR: volumes to render and to deface, and slices.

The dimensions vary about as those of adults in head-and-face surveys do (such as Zhuang and Bradtmiller,
J Occup Environ Hyg 2005; 2:567-576), by sex, with a share of common size. Everything else is made up: the
shape between the dimensions, the folds of the brain, pose and contrast of a scan. A face recogniser tells the
faces apart; that is no statement about people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from medsanitize.generators.phantoms.random_fields import stream
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
# Center and half axes, mm.
Ellipsoid = tuple[Sequence[float], Sequence[float]]

# Mean and standard deviation in mm, approximate: men, women.
DIMENSIONS = {
    "length": ((197.3, 7.4), (187.5, 7.2)),
    "breadth": ((153.0, 6.0), (146.8, 5.6)),
    "face_breadth": ((143.5, 6.9), (135.1, 6.5)),
    "jaw_breadth": ((120.4, 10.4), (110.1, 8.9)),
    "face_length": ((122.7, 7.0), (113.4, 6.1)),
    "nose_length": ((52.0, 4.1), (48.2, 3.8)),
    "nose_protrusion": ((21.1, 2.7), (19.8, 2.7)),
    "nose_breadth": ((36.6, 4.1), (33.2, 3.9)),
    "mouth_breadth": ((51.1, 4.2), (48.0, 4.0)),
    "eye_distance": ((64.5, 3.6), (61.9, 3.5)),
}
# Correlation of any two dimensions of a person, by common size.
_COMMON = 0.3
# Height of the bridge of the nose below the center of the cranium, mm.
_SELLION = -20.0
_SKIN, _FAT, _BONE, _GRAY, _WHITE, _FLUID = 330.0, 620.0, 25.0, 300.0, 420.0, 90.0


@dataclass(frozen=True, slots=True)
class Head:
    """Dimensions of a head in mm, by the names of `DIMENSIONS`, and the seed of its brain."""

    patient: int
    seed: int
    length: float
    breadth: float
    face_breadth: float
    jaw_breadth: float
    face_length: float
    nose_length: float
    nose_protrusion: float
    nose_breadth: float
    mouth_breadth: float
    eye_distance: float

    @property
    def chin(self) -> float:
        """Height of the chin, mm."""
        return _SELLION - self.face_length


def head_of(patient: int, *, seed: int = 0) -> Head:
    """Draw the head of a patient; the same numbers give the same head."""
    random = stream(seed, patient, 21)
    sex, common = int(random.integers(2)), random.standard_normal()
    drawn = {}
    for name, both in DIMENSIONS.items():
        mean, deviation = both[sex]
        own = random.standard_normal()
        drawn[name] = mean + deviation * float(_COMMON**0.5 * common + (1 - _COMMON) ** 0.5 * own)
    return Head(patient, seed, **drawn)


def skin_of(head: Head, points: Values) -> Mask:
    """Whether points (LPS, mm; last axis x, y, z) are inside the skin; the nose points to negative y."""
    front = -head.length / 2
    nose, mouth = _SELLION - head.nose_length, _SELLION - head.nose_length - 0.33 * head.face_length / 2
    parts: list[Ellipsoid] = [
        ((0, 0, 0), (head.breadth / 2, head.length / 2, 90)),
        ((0, -30, _SELLION - 0.36 * head.face_length), (0.44 * head.face_breadth, 0.34 * head.length, 82)),
        ((0, front + 52, head.chin + 34), (0.42 * head.jaw_breadth, 46, 36)),
        ((0, front + 16, head.chin + 12), (24, 17, 15)),
        ((0, front + 1, _SELLION - 0.6 * head.nose_length), (7, 8 + 0.4 * head.nose_protrusion, 26)),
        ((0, front - 1, nose + 10), (11, head.nose_protrusion, 12)),
        ((0, front + 3, mouth), (head.mouth_breadth / 2, 8, 9)),
        ((0, front + 6, -9), (46, 8, 7)),
    ]
    for side in (-1, 1):
        parts += [
            ((side * 0.36 * head.nose_breadth, front + 2, nose + 6), (0.22 * head.nose_breadth, 11, 8)),
            ((side * 0.37 * head.face_breadth, front + 27, -45), (15, 14, 13)),
            ((side * (head.breadth / 2 + 3), 12, -35), (8, 18, 30)),
        ]
    inside = _any(points, parts) | _neck(points)
    for side in (-1, 1):
        eye = side * head.eye_distance / 2
        inside &= ~_within(points, (eye, front + 3, -26), (15, 12, 10))
        inside |= _within(points, (eye, front + 13, -26), (12, 11, 11))
    return inside


def _within(points: Values, center: Sequence[float], axes: Sequence[float]) -> Mask:
    scaled = (points - np.array(center, np.float32)) / np.array(axes, np.float32)
    return np.asarray(np.einsum("...i,...i->...", scaled, scaled) <= 1)


def _any(points: Values, parts: Sequence[Ellipsoid]) -> Mask:
    found = np.zeros(points.shape[:-1], bool)
    for center, axes in parts:
        found |= _within(points, center, axes)
    return found


def _neck(points: Values) -> Mask:
    round_ = (points[..., 0] / 55) ** 2 + ((points[..., 1] - 15) / 60) ** 2 <= 1
    return np.asarray(round_ & (points[..., 2] < -60) & (points[..., 2] > -330))


def tissue_of(head: Head, points: Values) -> Values:
    """MR values of points: skin and fat, bone, air, and a brain whose folds are the patient's own."""
    skin = skin_of(head, points)
    out = np.where(skin, np.float32(_SKIN), np.float32(0))
    half, deep = head.breadth / 2, head.length / 2
    out[skin & _within(points, (0, -28, -60), (0.35 * head.face_breadth, 0.3 * head.length, 70))] = _FAT
    out[_within(points, (0, 0, 0), (half - 7, deep - 8, 82))] = _BONE
    brain = _within(points, (0, 0, 0), (half - 14, deep - 15, 75))
    inner = points[brain]
    folds = _folds(head, inner)
    depth = np.linalg.norm(inner / np.array((half - 14, deep - 15, 75), np.float32), axis=-1)
    values = np.where(folds + 3.2 * (0.72 - depth) > 0, _WHITE, _GRAY)
    values = np.where((depth > 0.9) & (folds > 0.8), _FLUID, values)
    width = 5 + 4 * float(stream(head.seed, head.patient, 22).random())
    horns = _within(inner, (width + 4, -8, 8), (width, 32, 12)) | _within(
        inner, (-width - 4, -8, 8), (width, 32, 12)
    )
    out[brain] = np.where(horns, _FLUID, values)
    for air in (
        ((0, -0.37 * head.length, -58), (7, 26, 20)),
        ((30, -60, -60), (13, 15, 16)),
        ((-30, -60, -60), (13, 15, 16)),
        ((0, -12, -100), (10, 8, 42)),
    ):
        out[_within(points, *air) & skin] = 0
    return np.asarray(out, np.float32)


def _folds(head: Head, points: Values) -> Values:
    """Sum of waves 14 to 40 mm long, in directions and phases of the patient; standard deviation about 1."""
    random = stream(head.seed, head.patient, 23)
    count = 20
    ways = random.standard_normal((count, 3)).astype(np.float32)
    ways *= (2 * np.pi / random.uniform(14, 40, count) / np.linalg.norm(ways, axis=1)).astype(np.float32)[
        :, None
    ]
    phases = random.uniform(0, 2 * np.pi, count).astype(np.float32)
    return np.asarray(np.cos(points @ ways.T + phases).sum(axis=-1) * np.sqrt(2 / count), np.float32)


@dataclass(frozen=True, slots=True)
class Visit:
    """One scan of a head: its pose, gain, field inhomogeneity and noise."""

    head: Head
    number: int = 0

    def points(self, points: Values) -> Values:
        """Return scanner coordinates in the frame of the head."""
        random = stream(self.head.seed, self.head.patient, self.number, 24)
        yaw, pitch = np.radians(random.uniform(-4, 4, 2))
        moved = points - random.uniform(-4, 4, 3).astype(np.float32)
        turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
        nod = np.array([[1, 0, 0], [0, np.cos(pitch), -np.sin(pitch)], [0, np.sin(pitch), np.cos(pitch)]])
        return np.asarray(moved @ (turn @ nod).T.astype(np.float32), np.float32)

    def values(self, points: Values) -> Values:
        """MR values at scanner coordinates, not below 0."""
        random = stream(self.head.seed, self.head.patient, self.number, 25)
        gain, tilt = random.uniform(0.8, 1.25), random.uniform(-0.0015, 0.0015, 3)
        slope = 1 + points @ tilt.astype(np.float32)
        seen = tissue_of(self.head, self.points(points)) * np.float32(gain) * slope
        # Magnitude images have Rician noise: of two normal parts.
        parts = random.standard_normal((2, *seen.shape), np.float32) * np.float32(9)
        return np.asarray(np.hypot(seen + parts[0], parts[1]), np.float32)
