"""Heads with varied faces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from medsanitize.generators.phantoms.cohorts import write_heads
from medsanitize.generators.phantoms.heads import DIMENSIONS, Visit, head_of, skin_of
from medsanitize.sanitize.faces.series import assess_series
from medsanitize.sanitize.faces.slice_geometry import Plane
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import read_labels

SIDE, PIXEL, GAP = 64, 4.0, 5.0
PLANES = [
    Plane((-126.0, -130.0, -170.0 + GAP * k), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (PIXEL, PIXEL), SIDE, SIDE)
    for k in range(55)
]


def points_of(plane: Plane) -> np.ndarray:
    line = np.arange(SIDE) * PIXEL
    x, y = np.meshgrid(plane.position[0] + line, plane.position[1] + line)
    return np.stack([x, y, np.full_like(x, plane.position[2])], axis=-1).astype(np.float32)


def test_the_same_numbers_give_the_same_head_and_scan() -> None:
    points = points_of(PLANES[30])
    assert head_of(3, seed=1) == head_of(3, seed=1) != head_of(4, seed=1)
    assert np.array_equal(Visit(head_of(3), 1).values(points), Visit(head_of(3), 1).values(points))


def test_the_dimensions_of_many_heads_have_the_stated_means() -> None:
    drawn = np.array([head_of(patient).nose_length for patient in range(800)])
    men, women = (mean for mean, _ in DIMENSIONS["nose_length"])
    assert abs(drawn.mean() - (men + women) / 2) < 0.6


def test_the_nose_is_the_foremost_part_of_a_face() -> None:
    head = head_of(5)
    y = np.linspace(-140, 0, 141, dtype=np.float32)
    front = {}
    for z in (-20.0, -20.0 - head.nose_length + 10, head.chin + 12):
        line = np.stack([np.zeros_like(y), y, np.full_like(y, z)], axis=-1)
        front[z] = y[skin_of(head, line).argmax()]
    assert min(front, key=lambda z: front[z]) == -20.0 - head.nose_length + 10


def test_the_face_of_a_phantom_is_found_and_cut() -> None:
    visit = Visit(head_of(1))
    found = assess_series(
        PLANES, lambda k: visit.values(points_of(PLANES[k])), "MR", elsewhere=False, cutting=True
    )
    assert found.verdict == "possible"
    assert found.cuts


def test_slices_of_heads_are_written_with_their_kind_and_series(tmp_path: Path) -> None:
    labels = read_labels(write_heads(tmp_path / "heads", range(2), size=48), tmp_path / "heads")
    assert labels.kinds == (Modality.MR_HEAD,) * 4
    assert labels.series == ("0", "1", "0", "1")
