"""Build the networks of a generator from plain data and tensors, without unpickling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DModel
from medsanitize.errors import IntegrityError
from medsanitize.generators.diffusion.augment import AMOUNTS
from medsanitize.generators.diffusion.config import GeneratorConfig
from medsanitize.generators.diffusion.patch_autoencoder import PatchAutoencoder
from medsanitize.generators.diffusion.recipes import Prediction, Recipe
from torch import Tensor, nn

# GroupNorm groups must divide the channels of every recipe.
GROUPS = 8
Autoencoder: TypeAlias = AutoencoderKL | PatchAutoencoder


@dataclass(frozen=True, slots=True)
class Networks:
    """Autoencoder, denoiser and noise schedule."""

    autoencoder: Autoencoder
    denoiser: UNet2DModel
    schedule: DDIMScheduler


def autoencoder_facts(recipe: Recipe) -> dict[str, Any]:
    """Configuration of a recipe's autoencoder: grayscale, no attention."""
    how = recipe.autoencoder
    if how.patch:
        return {
            "patch": how.patch,
            "latent_channels": how.latents,
            "channels": how.channels[0],
            "layers": how.layers,
        }
    levels = len(how.channels)
    return {
        "in_channels": 1,
        "out_channels": 1,
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "block_out_channels": list(how.channels),
        "layers_per_block": how.layers,
        "latent_channels": how.latents,
        "norm_num_groups": GROUPS,
        "sample_size": recipe.size,
        "mid_block_add_attention": False,
    }


def denoiser_facts(recipe: Recipe, classes: int) -> dict[str, Any]:
    """Configuration of a recipe's UNet2DModel; the last class embedding means "no class"."""
    how, latents = recipe.denoiser, recipe.autoencoder.latents
    down = ["AttnDownBlock2D" if attends else "DownBlock2D" for attends in how.attention]
    up = ["AttnUpBlock2D" if attends else "UpBlock2D" for attends in reversed(how.attention)]
    return {
        "sample_size": recipe.latent,
        # The amounts of the augmentation are further channels, constant over the image.
        "in_channels": latents + (AMOUNTS if how.augmentation else 0),
        "out_channels": latents,
        "down_block_types": down,
        "up_block_types": up,
        "block_out_channels": list(how.channels),
        "layers_per_block": how.layers,
        "attention_head_dim": how.heads,
        "norm_num_groups": GROUPS,
        "dropout": how.dropout,
        "num_class_embeds": classes + 1 if classes else None,
    }


def schedule_facts(recipe: Recipe) -> dict[str, Any]:
    """Configuration of a recipe's DDIMScheduler."""
    how = recipe.denoiser
    return {
        "num_train_timesteps": 1000,
        "beta_start": how.beta_start,
        "beta_end": how.beta_end,
        "beta_schedule": "scaled_linear",
        "clip_sample": False,
        "prediction_type": "epsilon" if how.prediction is Prediction.NOISE else "v_prediction",
        "rescale_betas_zero_snr": how.prediction is Prediction.ZERO_SNR,
        # Sampling must start at the last timestep, or zero-SNR training has no effect (Lin et al. 2024).
        "timestep_spacing": "trailing",
    }


def build_model(facts: Mapping[str, Any], kind: type[nn.Module]) -> Any:
    """Build a diffusers model from its configuration, on the default device.

    Raises
    ------
    IntegrityError
        If diffusers cannot build the architecture.
    """
    # Names with an underscore are metadata of diffusers, such as its version.
    own = {name: value for name, value in facts.items() if not name.startswith("_")}
    try:
        return kind.from_config(own)  # type: ignore[attr-defined]
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, RuntimeError):
        raise IntegrityError(
            "diffusers cannot build the architecture in a configuration",
            "Train or fetch the model again",
        ) from None


def load_network(facts: Mapping[str, Any], kind: type[nn.Module], weights: Mapping[str, Tensor]) -> Any:
    """Build a model and load its weights, frozen and in evaluation mode.

    Raises
    ------
    IntegrityError
        If names or shapes of the weights differ from the configuration.
    """
    # The meta device allocates nothing: a hostile configuration cannot exhaust memory before the check.
    with torch.device("meta"):
        model = build_model(facts, kind)
    expected = {name: value.shape for name, value in model.state_dict().items()}
    if {name: value.shape for name, value in weights.items()} != expected:
        raise IntegrityError(
            "The weights do not match the architecture in the configuration",
            "Use weights and configuration of the same model; train or fetch it again",
        )
    model.load_state_dict({name: value.float() for name, value in weights.items()}, assign=True)
    return model.eval().requires_grad_(False)


def networks_of(
    config: GeneratorConfig, autoencoder: Mapping[str, Tensor], denoiser: Mapping[str, Tensor]
) -> Networks:
    """Build all networks of a generator for inference.

    Raises
    ------
    IntegrityError
        As ``load_network``, or if denoiser and autoencoder have different latents.
    """
    encoder = load_network(config.autoencoder, autoencoder_kind(config.autoencoder), autoencoder)
    unet = load_network(config.denoiser, UNet2DModel, denoiser)
    latents, told = encoder.config.latent_channels, unet.config.in_channels - unet.config.out_channels
    if unet.config.out_channels != latents or told not in (0, AMOUNTS):
        raise IntegrityError(
            "The denoiser and the autoencoder differ in their number of latent channels",
            "Use networks of the same model",
        )
    return Networks(encoder, unet, scheduler(config.schedule))


def scheduler(facts: Mapping[str, Any]) -> DDIMScheduler:
    """Build the noise schedule; raises as ``build_model``."""
    schedule: DDIMScheduler = build_model(facts, DDIMScheduler)
    return schedule


def prediction_of(facts: Mapping[str, Any]) -> Prediction:
    """Prediction type of a schedule such as ``schedule_facts`` makes; raises as ``build_model``."""
    config = scheduler(facts).config
    if config.prediction_type == "epsilon":
        return Prediction.NOISE
    return Prediction.ZERO_SNR if config.rescale_betas_zero_snr else Prediction.VELOCITY


def autoencoder_kind(facts: Mapping[str, Any]) -> type[nn.Module]:
    """Class of the autoencoder with this configuration."""
    kind: type[nn.Module] = PatchAutoencoder if "patch" in facts else AutoencoderKL
    return kind


def latent_shape(autoencoder: Autoencoder, count: int, side: int) -> tuple[int, int, int, int]:
    """Shape of the latents of ``count`` images of ``side`` x ``side`` pixels."""
    facts = autoencoder.config
    patch = getattr(facts, "patch", None)
    small = side // patch if patch else side >> (len(facts.block_out_channels) - 1)
    return count, facts.latent_channels, small, small


def is_told(denoiser: UNet2DModel) -> bool:
    """Whether a denoiser takes the amounts of the augmentation."""
    return bool(denoiser.config.in_channels > denoiser.config.out_channels)


def with_amounts(denoiser: UNet2DModel, latents: Tensor, amounts: Tensor | None = None) -> Tensor:
    """Append the amounts of the augmentation, if the denoiser takes them; None is no augmentation."""
    if not is_told(denoiser):
        return latents
    if amounts is None:
        amounts = latents.new_zeros((len(latents), AMOUNTS))
    maps = amounts.to(latents)[:, :, None, None].expand(-1, -1, *latents.shape[2:])
    return torch.cat([latents, maps], 1)


def scale_of(autoencoder: Autoencoder) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation that normalize latents, each ``(1, channels or 1, 1, 1)``."""
    facts = autoencoder.config
    mean, deviation = getattr(facts, "latents_mean", None), getattr(facts, "latents_std", None)
    if mean is not None and deviation is not None:
        return torch.tensor(mean).view(1, -1, 1, 1), torch.tensor(deviation).view(1, -1, 1, 1)
    # A foreign configuration may have one factor for all channels instead.
    shift, factor = getattr(facts, "shift_factor", None) or 0.0, getattr(facts, "scaling_factor", None) or 1.0
    return torch.tensor(shift).view(1, 1, 1, 1), torch.tensor(1 / factor).view(1, 1, 1, 1)
