"""What a recipe asks of a device: weights and memory, counted on tensors without content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from diffusers import AutoencoderKL, UNet2DModel
from medsanitize.generators.latent.losses import Perceptual
from medsanitize.generators.latent.networks import autoencoder_facts, build, denoiser_facts
from medsanitize.generators.latent.recipes import LATENT_CHANNELS, Recipe
from medsanitize.verifiers.models.networks.lite import Lite0
from torch import Tensor, nn

# Weight, gradient and two moments of Adam in float32; and the moving average.
_LEARNED, _AVERAGED = 16, 4


@dataclass(frozen=True, slots=True)
class Footprint:
    """Of one network of a recipe, on one device.

    Attributes
    ----------
    weights
        How many.
    state_bytes
        Of weights, gradients, optimizer and moving average.
    activation_bytes
        Kept for the way back, of a whole batch: an upper estimate, as each is counted that autograd saves.
    """

    weights: int
    state_bytes: int
    activation_bytes: int

    @property
    def bytes(self) -> int:
        """Of a training step."""
        return self.state_bytes + self.activation_bytes


def footprints(recipe: Recipe, classes: int = 2, devices: int = 1) -> tuple[Footprint, Footprint]:
    """Autoencoder and denoiser of a recipe; shapes are compared on the way, nothing is computed."""
    half = recipe.precision != "no"
    with torch.device("meta"):
        encoder: AutoencoderKL = build(autoencoder_facts(recipe), AutoencoderKL)
        unet: UNet2DModel = build(denoiser_facts(recipe, classes), UNet2DModel)
        images = torch.empty(recipe.autoencoder.batch // devices, 1, recipe.size, recipe.size)
        count = recipe.denoiser.batch // devices
        latents = torch.empty(count, LATENT_CHANNELS, recipe.latent, recipe.latent)
        numbers = torch.zeros(count, dtype=torch.int64)
        features = Perceptual(Lite0())

        def trip() -> Tensor:
            again: Tensor = encoder(images).sample
            # Kept for the way back too; the network is nobody's to learn.
            kept.append(features(again, images))
            return again

        kept: list[Tensor] = []
        first = _measured(encoder, trip, images.shape, half, 0)
        second = _measured(
            unet, lambda: unet(latents, numbers, numbers).sample, latents.shape, half, _AVERAGED
        )
    return first, second


def _measured(
    network: nn.Module, forward: Callable[[], Tensor], shape: torch.Size, half: bool, averaged: int
) -> Footprint:
    saved: dict[int, int] = {}
    held: list[Any] = []
    own = {id(one) for one in network.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if id(tensor) not in own and storage._cdata not in saved:
            # Held here, so that no other storage gets its number.
            held.append(storage)
            narrow = half and tensor.is_floating_point()
            saved[storage._cdata] = storage.nbytes() // (2 if narrow else 1)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    if result.shape != shape:
        raise ValueError("a recipe's network does not give back what it takes")
    weights = sum(one.numel() for one in network.parameters())
    return Footprint(weights, weights * (_LEARNED + averaged), sum(saved.values()))
