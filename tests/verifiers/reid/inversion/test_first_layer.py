"""A linear first layer gives its images away: one exactly, several up to what mixes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytestmark = pytest.mark.verify
SIZE = 32


@pytest.fixture(scope="module")
def people() -> NDArray[np.float32]:
    from medsanitize.generators.phantoms.chest import chest_phantom

    return np.stack([chest_phantom(number, 0, size=SIZE, seed=3) for number in range(8)]).astype(np.float32)


def sent(images: NDArray[np.float32]) -> Any:
    import torch
    from medsanitize.verifiers.reid.inversion.first_layer import Perceptron, PerceptronRecipe
    from medsanitize.verifiers.reid.inversion.training_step import Batch

    network = Perceptron(PerceptronRecipe(), SIZE, 3)
    classes = torch.arange(len(images)) % 3
    return network.gradient(Batch(torch.from_numpy(images)[:, None], classes))


def reconstructed(gradient: Any, count: int) -> NDArray[np.float32]:
    from medsanitize.verifiers.reid.inversion.first_layer import unmixed

    return unmixed(gradient, SIZE, count, lambda: None)


def test_a_single_image_is_read_off(people: NDArray[np.float32]) -> None:
    made = reconstructed(sent(people[:1]), 1)
    np.testing.assert_allclose(made, people[:1], atol=1e-4)


def test_a_batch_of_independent_images_is_unmixed() -> None:
    from medsanitize.generators.quality.reconstructions import matched

    draw = np.random.default_rng(0)
    images = (draw.random((4, SIZE, SIZE)) ** 8).astype(np.float32)
    assert (matched(images, reconstructed(sent(images), 4))[1] > 0.9).all()


def test_noise_hides_the_image(people: NDArray[np.float32]) -> None:
    import torch

    draw = torch.Generator().manual_seed(0)
    gradient = sent(people[:1])
    length = torch.cat([one.flatten() for one in gradient]).norm()
    noisy = [one + length * torch.randn(one.shape, generator=draw) for one in gradient]
    made = reconstructed(noisy, 1)
    assert np.corrcoef(made.ravel(), people[0].ravel())[0, 1] < 0.2


def test_images_that_span_fewer_directions_are_repeated(people: NDArray[np.float32]) -> None:
    twice = np.concatenate([people[:1], people[:1]])
    assert reconstructed(sent(twice), 2).shape == (2, SIZE, SIZE)
