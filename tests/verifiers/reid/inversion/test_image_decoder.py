"""Decoding of embeddings, and the search of reconstructions."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.verifiers.reid.inversion.image_decoder import SIZE, train_decoder
from medsanitize.verifiers.reid.inversion.reidentified import reidentified
from numpy.typing import NDArray

pytestmark = pytest.mark.verify


def spots(count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Images with a bright spot, and embeddings that contain its place in other words."""
    draw = np.random.default_rng(seed)
    places = draw.uniform(0.25, 0.75, (count, 2, 1, 1))
    grid = (np.arange(SIZE) + 0.5) / SIZE
    far = (grid[:, None] - places[:, 0]) ** 2 + (grid - places[:, 1]) ** 2
    flat = places.reshape(count, 2)
    mixed = np.concatenate([flat, np.sin(4 * flat), np.cos(3 * flat)], axis=1)
    vectors = mixed @ np.random.default_rng(5).standard_normal((6, 40))
    return vectors.astype(np.float32), np.exp(-far / 0.02).astype(np.float32)


def test_embeddings_of_unseen_images_are_decoded() -> None:
    decoder = train_decoder(*spots(48, 0), 16, 0, lambda _: None)
    vectors, images = spots(12, 1)
    made = decoder.decode(vectors)
    assert (made.shape, float(made.min()) >= 0, float(made.max()) <= 1) == ((12, SIZE, SIZE), True, True)
    guess = np.abs(images - decoder.image).mean()
    assert np.abs(images - made).mean() < guess / 2


def test_the_nearest_image_decides_who_is_found() -> None:
    gallery = np.eye(4, dtype=np.float32)
    probes = np.array([[2, 0, 0, 0], [0, 0.1, 0, 0], [0, 0, 1, 3]], np.float32)
    found = reidentified(probes, np.array([7, 8, 9]), gallery, np.array([7, 8, 9, 5]))
    assert (found.images, found.found, found.share) == (3, 2, pytest.approx(2 / 3))
    assert found.lower < 2 / 3 < found.upper
