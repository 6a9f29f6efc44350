"""Grounds without text: parts of real images, and simulated tissue, rulers, wires, curves and patterns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
Mask = NDArray[np.bool_]


# Part of the samples of real images that show a place that a network took for text.
_HARD = 0.4
# Chance from which it did, and how far (pixels) such a place may be from the middle of a sample.
_TAKEN, _OFF = 0.3, 60


@dataclass(frozen=True, slots=True)
class Ground:
    """A ground: stored values, the pixels whose text, if any, is unknown, and places taken for text."""

    values: Values
    unknown: Mask
    hard: tuple[tuple[int, int], ...] = ()


def with_hard_places(image: Ground, chances: Values, cell: int) -> Ground:
    """Note where a network takes a ground for text, by its text map of cells of ``cell`` pixels."""
    found = np.argwhere(chances >= _TAKEN) * cell
    inside = np.minimum(found, np.array(image.values.shape) - 1)
    places = inside[~image.unknown[inside[:, 0], inside[:, 1]]]
    return Ground(image.values, image.unknown, tuple((int(y), int(x)) for y, x in places))


def load_images(folder: Path) -> list[Ground]:
    """Load the images that `prepare` wrote."""
    found = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as stored:
            found.append(Ground(stored["values"].astype(np.float32), stored["unknown"] > 0))
    return found


def part_of_image(rng: np.random.Generator, images: list[Ground], side: int) -> Ground:
    """A random part of a random image, at a random scale, mirrored or turned."""
    hard = [image for image in images if image.hard] if rng.random() < _HARD else []
    chosen = hard or images
    image = chosen[rng.integers(len(chosen))]
    scale, method = float(np.exp(rng.uniform(np.log(0.4), np.log(4)))), int(rng.integers(3))
    if rng.random() < 0.2:  # enlarged without interpolation
        scale, method = float(rng.integers(2, 9)), cv2.INTER_NEAREST
    need = int(np.ceil(side / scale))
    values, unknown = _part(rng, image, need, at_hard_place=bool(hard))
    method = cv2.INTER_AREA if scale < 1 else (cv2.INTER_NEAREST, cv2.INTER_LINEAR, cv2.INTER_CUBIC)[method]
    shown = np.asarray(cv2.resize(values, (side, side), interpolation=method), np.float32)
    hidden = cv2.resize(unknown.astype(np.uint8), (side, side), interpolation=cv2.INTER_NEAREST)
    if rng.random() < 0.15:
        shown = coarsened(rng, shown)
    turns, mirror = int(rng.integers(4)), int(rng.choice([-1, 1]))
    return Ground(
        np.ascontiguousarray(np.rot90(shown, turns)[:, ::mirror]),
        np.ascontiguousarray(np.rot90(hidden > 0, turns)[:, ::mirror]),
    )


def _part(rng: np.random.Generator, image: Ground, need: int, *, at_hard_place: bool) -> tuple[Values, Mask]:
    """A square part of an image; a smaller image is framed by one value, or repeated as in a mosaic."""
    values, unknown = image.values, image.unknown
    rows, columns = values.shape
    if min(rows, columns) < need:
        below, right = max(0, need - rows), max(0, need - columns)
        ends = [(int(rng.integers(one + 1)), one) for one in (below, right)]
        around = [(first, one - first) for first, one in ends]
        if rng.random() < 0.5:
            values, unknown = np.pad(values, around, "wrap"), np.pad(unknown, around, "wrap")
        else:
            ground = float(rng.choice([values.min(), values.max(), np.median(values)]))
            values = np.pad(values, around, constant_values=ground)
            unknown = np.pad(unknown, around)
        rows, columns = values.shape
    top, left = int(rng.integers(rows - need + 1)), int(rng.integers(columns - need + 1))
    if at_hard_place and values is image.values:
        y, x = image.hard[rng.integers(len(image.hard))]
        off = rng.integers(-_OFF, _OFF + 1, size=2)
        top = int(np.clip(y - need // 2 + off[0], 0, rows - need))
        left = int(np.clip(x - need // 2 + off[1], 0, columns - need))
    part = np.s_[top : top + need, left : left + need]
    return values[part], unknown[part]


def simulated(rng: np.random.Generator, side: int) -> Ground:
    """A simulated ground of 8 bits."""
    kinds: tuple[Callable[[np.random.Generator, int], Values], ...] = (
        *(_flat, _flat, _flat, _clouds, _speckle, _waves, _blobs, _noise),
    )
    values = kinds[rng.integers(len(kinds))](rng, side)
    return Ground(np.clip(values, 0, 255).astype(np.float32), np.zeros((side, side), bool))


def _flat(rng: np.random.Generator, side: int) -> Values:
    values = np.full((side, side), float(rng.integers(256)), np.float32)
    if rng.random() < 0.4:  # areas of other values, as of menus and sectors
        for _ in range(int(rng.integers(1, 4))):
            x, y, x1, y1 = rng.integers(side, size=4).tolist()
            cv2.rectangle(values, (x, y), (x1, y1), float(rng.integers(256)), -1)
    return values


def _clouds(rng: np.random.Generator, side: int) -> Values:
    values = np.zeros((side, side), np.float32)
    for sigma in (2, 6, 16, 48):
        noise = cv2.GaussianBlur(rng.normal(size=(side, side)).astype(np.float32), (0, 0), sigma)
        values += noise / noise.std() * sigma ** float(rng.uniform(0.2, 1.2))
    values = (values - values.min()) / np.ptp(values)
    return np.asarray(values * float(rng.uniform(20, 255)) + rng.normal(0, rng.uniform(0, 6), values.shape))


def _speckle(rng: np.random.Generator, side: int) -> Values:
    grain = cv2.GaussianBlur(rng.rayleigh(1, (side, side)).astype(np.float32), (0, 0), rng.uniform(0.6, 2.5))
    return np.asarray(grain * _clouds(rng, side) * 0.8, np.float32)


def _waves(rng: np.random.Generator, side: int) -> Values:
    y, x = np.mgrid[:side, :side].astype(np.float32)
    angle, period = rng.uniform(0, np.pi), rng.uniform(3, 40)
    wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period)
    if rng.random() < 0.5:
        wave = np.sign(wave)
    return np.asarray(128 + wave * rng.uniform(5, 120), np.float32)


def _blobs(rng: np.random.Generator, side: int) -> Values:
    """Spots of the size of letters with sharp edges, as highlights and calcifications."""
    noise = cv2.GaussianBlur(rng.normal(size=(side, side)).astype(np.float32), (0, 0), rng.uniform(1.5, 9))
    spots = noise > np.quantile(noise, rng.uniform(0.5, 0.98))
    ground = _clouds(rng, side) if rng.random() < 0.5 else np.full((side, side), 60, np.float32)
    return np.asarray(np.where(spots, float(rng.integers(256)), ground), np.float32)


def _noise(rng: np.random.Generator, side: int) -> Values:
    """Noise of a few stored values, as the air around a patient, or coarse and strong."""
    if rng.random() < 0.6:
        return np.round(rng.rayleigh(rng.uniform(0.2, 3), (side, side))).astype(np.float32)
    size = int(rng.integers(1, 8))
    few = -(-side // size)
    noise = rng.integers(0, int(rng.integers(2, 256)), (few, few)).astype(np.float32)
    return np.kron(noise, np.ones((size, size), np.float32))[:side, :side]


def coarsened(rng: np.random.Generator, values: Values) -> Values:
    """Reduce an image to few gray values, as masks and posterized pictures have, or to its edges."""
    low, span = float(values.min()), max(float(np.ptp(values)), 1.0)
    if rng.random() < 0.2:
        edges = np.abs(cv2.Laplacian(values, cv2.CV_32F)) + np.abs(cv2.Sobel(values, cv2.CV_32F, 1, 0))
        return np.asarray(np.minimum(edges, np.quantile(edges, 0.99)), np.float32)
    levels = int(rng.integers(2, 12))
    return np.asarray(np.round((values - low) / span * (levels - 1)) * (255 / (levels - 1)), np.float32)


def draw_distractors(rng: np.random.Generator, values: Values) -> None:
    """Draw what is no text and has strokes of one value: rulers, curves, wires, markers, grids."""
    span = max(float(np.ptp(values)), 30.0)
    for _ in range(int(rng.integers(1, 4))):
        ink = float(values.mean() + rng.choice([-1, 1]) * rng.uniform(0.15, 1) * span)
        ink = float(np.clip(ink, values.min() - 0.5 * span, values.max() + 0.5 * span))
        _DISTRACTORS[rng.integers(len(_DISTRACTORS))](rng, values, ink)


def _ruler(rng: np.random.Generator, values: Values, ink: float) -> None:
    side, step = len(values), int(rng.integers(4, 24))
    at, short, long = int(rng.integers(side)), int(rng.integers(2, 8)), int(rng.integers(4, 16))
    upright, first = bool(rng.integers(2)), int(rng.integers(side // 2))
    thick, period = int(rng.integers(1, 3)), int(rng.choice([2, 5, 10]))
    for number, along in enumerate(range(first, side, step)):
        length = long if number % period == 0 else short
        ends = ((at, along), (at + length, along)) if upright else ((along, at), (along, at + length))
        cv2.line(values, *ends, ink, thick)
    if rng.random() < 0.6:
        ends = ((at, first), (at, side)) if upright else ((first, at), (side, at))
        cv2.line(values, *ends, ink, thick)


def _curve(rng: np.random.Generator, values: Values, ink: float) -> None:
    side, points = len(values), int(rng.integers(3, 9))
    x = np.linspace(0, side, 200) if rng.random() < 0.5 else np.cumsum(rng.normal(0, 6, 200)) + side / 2
    knots = rng.uniform(0, side, points)
    y = np.interp(np.linspace(0, points - 1, 200), np.arange(points), knots)
    if rng.random() < 0.5:
        y = cv2.GaussianBlur(y.astype(np.float32)[None], (0, 0), 8)[0]
    if rng.random() < 0.3:  # a trace as of an ECG
        y = y * 0.1 + side / 2 + 40 * (rng.random(200) < 0.06) * rng.normal(size=200)
    line = np.stack([x, y], 1).astype(np.int32)
    cv2.polylines(
        values, [line], False, ink, int(rng.integers(1, 6)), (cv2.LINE_8, cv2.LINE_AA)[rng.integers(2)]
    )


def _traces(rng: np.random.Generator, values: Values, ink: float) -> None:
    """Curves of a heart beat or of breath below each other, as an ECG is drawn."""
    side, count = len(values), int(rng.integers(1, 5))
    period, height = float(rng.uniform(20, 120)), float(rng.uniform(4, 40))
    x = np.arange(int(rng.integers(0, side // 3)), side)
    waves = [(rng.uniform(-1, 1), rng.uniform(0, 1), rng.uniform(0.01, 0.12)) for _ in range(5)]
    thick, kind = int(rng.integers(1, 3)), (cv2.LINE_8, cv2.LINE_AA)[rng.integers(2)]
    for base in rng.integers(side, size=count).tolist():
        phase = (x / period + rng.random()) % 1
        y = sum(size * np.exp(-(((phase - at) / wide) ** 2)) for size, at, wide in waves)
        y = base - height * y + rng.normal(0, rng.uniform(0, 1), len(x))
        cv2.polylines(values, [np.stack([x, y], 1).astype(np.int32)], False, ink, thick, kind)


def _bars(rng: np.random.Generator, values: Values, ink: float) -> None:
    """Groups of parallel bars of several widths, as test patterns have them."""
    side, (top, left) = len(values), rng.integers(len(values) * 3 // 4, size=2).tolist()
    for width in sorted(rng.integers(1, 9, size=int(rng.integers(1, 5))).tolist(), reverse=True):
        length, count = int(rng.integers(6, 60)), int(rng.integers(2, 9))
        for at in range(left, min(left + 2 * width * count, side), 2 * width):
            values[top : top + length, at : at + width] = ink
        left += 2 * width * count + int(rng.integers(4, 20))
    if rng.random() < 0.5:
        values[:] = values.T.copy()


def _shapes(rng: np.random.Generator, values: Values, ink: float) -> None:
    side = len(values)
    for _ in range(int(rng.integers(1, 6))):
        x, y, x1, y1 = rng.integers(side, size=4).tolist()
        thick = int(rng.integers(1, 5))
        kind = rng.integers(6)
        if kind == 0:
            cv2.circle(values, (x, y), int(rng.integers(2, 60)), ink, thick)
        elif kind == 1:
            cv2.rectangle(values, (x, y), (x1, y1), ink, thick)
        elif kind == 2:
            cv2.arrowedLine(values, (x, y), (x1, y1), ink, thick)
        elif kind == 3:
            cv2.line(values, (x, y), (x1, y1), ink, thick)
        elif kind == 4:
            cv2.drawMarker(values, (x, y), ink, int(rng.integers(6)), int(rng.integers(5, 30)), thick)
        else:
            cv2.ellipse(values, (x, y), (x1 // 4 + 1, y1 // 4 + 1), float(y), 0.0, float(x), ink, thick)


def _dots(rng: np.random.Generator, values: Values, ink: float) -> None:
    side, count = len(values), int(rng.integers(3, 60))
    if rng.random() < 0.5:  # a dotted or dashed line
        x, y, angle, step = *rng.uniform(0, side, 2), rng.uniform(0, np.pi), rng.uniform(4, 14)
        steps = np.arange(count) * step
        centers = np.stack([x + steps * np.cos(angle), y + steps * np.sin(angle)], 1)
    else:
        centers = rng.uniform(0, side, (count, 2))
    size = int(rng.integers(1, 4))
    for x, y in centers.astype(int).tolist():
        cv2.circle(values, (x, y), size, ink, -1)


def _grid(rng: np.random.Generator, values: Values, ink: float) -> None:
    side, step, thick = len(values), int(rng.integers(6, 50)), int(rng.integers(1, 3))
    top, left, bottom, right = *rng.integers(side // 2, size=2), *rng.integers(side // 2, side, size=2)
    for at in range(int(top), int(bottom), step):
        cv2.line(values, (int(left), at), (int(right), at), ink, thick)
    for at in range(int(left), int(right), step):
        cv2.line(values, (at, int(top)), (at, int(bottom)), ink, thick)


def _patches(rng: np.random.Generator, values: Values, ink: float) -> None:
    """Spots of strong values over tissue, as color Doppler, and boards of squares."""
    side = len(values)
    spots = _blobs(rng, side)
    chosen = spots == spots.max() if rng.random() < 0.5 else spots == spots.min()
    strength = rng.random(values.shape) if rng.random() < 0.5 else np.ones(values.shape)
    if rng.random() < 0.3:
        y, x = np.mgrid[:side, :side] // int(rng.integers(2, 20))
        strength = (x + y) % 2
    top, left = rng.integers(side // 2, size=2).tolist()
    part = np.s_[top : top + side // 2, left : left + side // 2]
    here = chosen[part]
    values[part][here] = (ink * strength[part] + values[part] * (1 - strength[part]))[here]


def _wedge(rng: np.random.Generator, values: Values, ink: float) -> None:
    """A gray scale beside the image, in steps or continuous."""
    side = len(values)
    x, y = rng.integers(side - 30, size=2).tolist()
    width, height, steps = int(rng.integers(6, 30)), int(rng.integers(30, side)), int(rng.integers(3, 64))
    bar = np.repeat(np.linspace(float(values.min()), ink, steps), -(-height // steps))[:height]
    part = values[y : y + height, x : x + width]
    part[:] = bar[: len(part), None]


def _bones(rng: np.random.Generator, values: Values, ink: float) -> None:
    """Blobs and short soft strokes, as trabeculae and vessels."""
    side = len(values)
    layer = np.zeros_like(values)
    for _ in range(int(rng.integers(5, 80))):
        x, y = rng.integers(side, size=2).tolist()
        angle, length = rng.uniform(0, np.pi), rng.uniform(3, 40)
        end = (int(x + length * np.cos(angle)), int(y + length * np.sin(angle)))
        cv2.line(layer, (x, y), end, float(rng.uniform(0.3, 1)), int(rng.integers(1, 5)))
    soft = np.asarray(cv2.GaussianBlur(layer, (0, 0), rng.uniform(0.8, 2.5)), np.float32)
    values += soft * (ink - float(values.mean()))


_DISTRACTORS: tuple[Callable[[np.random.Generator, Any, float], None], ...] = (
    *(_ruler, _ruler, _curve, _curve, _traces, _shapes, _shapes, _dots, _grid, _wedge, _bars, _bones),
    *(_patches, _patches),
)
