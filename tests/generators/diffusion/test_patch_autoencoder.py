"""The autoencoder of patches: exact where the components suffice, smooth where they do not."""

from __future__ import annotations

import pytest
import torch
from medsanitize.generators.diffusion.networks import (
    autoencoder_facts,
    autoencoder_kind,
    build_model,
    latent_shape,
    load_network,
)
from medsanitize.generators.diffusion.patch_autoencoder import PatchAutoencoder
from medsanitize.generators.diffusion.recipes import RECIPES
from torch import Tensor

pytestmark = pytest.mark.generate


def images(count: int = 6) -> Tensor:
    return torch.rand((count, 1, 32, 32), generator=torch.Generator().manual_seed(0)) * 2 - 1


def fitted(components: int) -> PatchAutoencoder:
    autoencoder = PatchAutoencoder(patch=8, latent_channels=components, channels=8, layers=1)
    autoencoder.fit([images()[:4], images()[4:]])
    return autoencoder.eval()


def again(autoencoder: PatchAutoencoder) -> Tensor:
    with torch.no_grad():
        return torch.as_tensor(autoencoder.decode(autoencoder.encode(images()).latent_dist.mode()).sample)


def test_all_components_reconstruct_exactly() -> None:
    assert torch.allclose(again(fitted(64)), images(), atol=1e-4)


def test_more_components_reconstruct_better() -> None:
    errors = [float((again(fitted(count)) - images()).square().mean()) for count in (4, 16, 48)]
    assert errors == sorted(errors, reverse=True)


def test_the_components_do_not_depend_on_the_batches() -> None:
    one, other = fitted(8), PatchAutoencoder(patch=8, latent_channels=8, channels=8, layers=1)
    other.fit([image[None] for image in images()])
    assert torch.allclose(one.basis, other.basis, atol=1e-4)


def test_the_recipe_at_128_pixels_loads_from_its_configuration_and_weights() -> None:
    recipe = RECIPES["cpu-128"]
    facts = autoencoder_facts(recipe)
    built = build_model(facts, autoencoder_kind(facts))
    loaded = load_network(facts, autoencoder_kind(facts), built.state_dict())
    assert isinstance(loaded, PatchAutoencoder)
    assert latent_shape(loaded, 2, recipe.size) == (2, 16, recipe.latent, recipe.latent)
