"""Gradient inversion on small networks: the class, the image, and what protections leave of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from medsanitize.generators.phantoms.chest import chest_phantom
from medsanitize.generators.quality.ssim import ssim
from medsanitize.verifiers.reid.inversion.gradient_matching import class_of, prior_of, reconstruct
from medsanitize.verifiers.reid.inversion.training_step import (
    CLIP,
    AttackedClassifier,
    Batch,
    clipped_gradient,
    private_gradient,
)
from medsanitize.verifiers.reid.training.densenet_classifier import DenseRecipe
from medsanitize.verifiers.reid.training.keyed_noise import NoiseKey
from medsanitize.verifiers.reid.training.privacy_accounting import (
    PrivacyBudget,
    PrivacyPlan,
    SampledGaussian,
)

pytestmark = pytest.mark.verify

SIZE = 32
RECIPE = DenseRecipe("test", depths=(1, 1, 1, 1), growth=4)
PLAN = PrivacyPlan(PrivacyBudget(8.0, 1e-5), SampledGaussian(0.1, 1.0), CLIP, 20, 10)


@pytest.fixture(scope="module")
def classifier() -> AttackedClassifier:
    return AttackedClassifier(RECIPE, 4)


def batch(*patients: int) -> Batch:
    made = np.stack([chest_phantom(one, 0, size=SIZE) for one in patients]).astype(np.float32)
    return Batch(torch.from_numpy(made)[:, None], torch.tensor([one % 4 for one in patients]))


def length(gradient: tuple[torch.Tensor, ...]) -> float:
    return float(torch.cat([one.flatten() for one in gradient]).norm())


@pytest.mark.parametrize("wanted", range(4))
def test_the_class_of_a_single_image_is_read_from_the_last_layer(
    classifier: AttackedClassifier, wanted: int
) -> None:
    shown = batch(wanted)
    assert class_of(classifier.gradient(shown)) == wanted
    assert class_of(clipped_gradient(classifier, shown)) == wanted


def test_the_mean_over_sites_is_the_gradient_of_their_joined_batch(classifier: AttackedClassifier) -> None:
    parts = [classifier.gradient(one) for one in (batch(0, 1), batch(2, 3))]
    whole = classifier.gradient(batch(0, 1, 2, 3))
    assert all(torch.allclose((a + b) / 2, c, atol=1e-5) for a, b, c in zip(*parts, whole, strict=True))


def test_clipping_bounds_each_patient_and_keeps_the_direction(classifier: AttackedClassifier) -> None:
    shown = batch(0)
    plain, clipped = classifier.gradient(shown), clipped_gradient(classifier, shown)
    assert length(plain) > CLIP
    assert length(clipped) == pytest.approx(CLIP, rel=1e-4)
    scale = CLIP / length(plain)
    assert all(torch.allclose(a * scale, b, atol=1e-5) for a, b in zip(plain, clipped, strict=True))


def test_noise_is_that_of_the_plan(classifier: AttackedClassifier) -> None:
    shown, key = batch(0, 1), NoiseKey(bytes(32))
    noise = torch.cat(
        [
            (sent - clear).flatten()
            for sent, clear in zip(
                private_gradient(classifier, shown, PLAN, key, 0),
                clipped_gradient(classifier, shown),
                strict=True,
            )
        ]
    )
    # Expected patients in a step: 2, so that both are means over two.
    assert float(noise.std()) == pytest.approx(PLAN.mechanism.noise * CLIP / 2, rel=0.05)
    assert all(one.grad is None for one in classifier.parameters)


def test_an_image_is_reconstructed_and_noise_prevents_it() -> None:
    """A network as wide as that of the paper, with one layer in a block."""
    wide = AttackedClassifier(DenseRecipe("test", depths=(1, 1, 1, 1), growth=32), 4)
    shown = batch(1)
    prior = prior_of(batch(*range(10, 130)).images[:, 0].numpy())
    truth = shown.images[0, 0].numpy()
    guess = ssim(prior.mean.numpy(), truth)
    found = {}
    for name, sent, iterations in (
        ("plain", wide.gradient(shown), 160),
        ("private", private_gradient(wide, shown, PLAN, NoiseKey(bytes(32)), 0), 20),
    ):
        made = reconstruct(wide, sent, shown.classes, prior, iterations, lambda: None)
        found[name] = ssim(made[0].numpy(), truth)
        assert (made.shape, bool((made >= 0).all()), bool((made <= 1).all())) == ((1, SIZE, SIZE), True, True)
    assert found["plain"] > guess + 0.05
    assert found["private"] < guess
