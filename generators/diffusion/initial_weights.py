"""Initial networks of a training: random weights of a recipe, or those of a generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffusers import UNet2DModel
from medsanitize.errors import UsageError
from medsanitize.generators.diffusion.load import parts_of
from medsanitize.generators.diffusion.networks import (
    Autoencoder,
    autoencoder_facts,
    autoencoder_kind,
    build_model,
    denoiser_facts,
    schedule_facts,
    scheduler,
)
from medsanitize.generators.diffusion.recipes import Recipe


@dataclass(frozen=True, slots=True)
class InitialModel:
    """Networks to train, with their configurations.

    Attributes
    ----------
    size
        Width and height of the images in pixels.
    digest
        Digest of the pipeline they come from; empty for random weights.
    images_before
        Digests of the datasets that the pipeline learned from; None if unknown.
    frozen
        Whether the autoencoder is already trained.
    autoencoder, denoiser
        The networks.
    autoencoder_facts, denoiser_facts, schedule
        Configurations for diffusers.
    """

    size: int
    digest: str
    images_before: frozenset[str] | None
    frozen: bool
    autoencoder: Autoencoder
    denoiser: UNet2DModel
    autoencoder_facts: Mapping[str, Any]
    denoiser_facts: Mapping[str, Any]
    schedule: Mapping[str, Any]


def start_from_recipe(recipe: Recipe, classes: int) -> InitialModel:
    """Build the networks of a recipe with random weights, from the current state of the global PRNG."""
    encoder, unet = autoencoder_facts(recipe), denoiser_facts(recipe, classes)
    return InitialModel(
        recipe.size,
        "",
        frozenset(),
        False,
        build_model(encoder, autoencoder_kind(encoder)),
        build_model(unet, UNet2DModel),
        encoder,
        unet,
        schedule_facts(recipe),
    )


def start_from_pipeline(folder: Path, classes: int, images_before: frozenset[str] | None) -> InitialModel:
    """Take the networks of a generator or diffusers pipeline; the class embedding is trained from scratch.

    Parameters
    ----------
    folder
        Folder of the generator or pipeline.
    classes
        Number of classes of the new generator.
    images_before
        From ``generator.trained_on_dataset``.

    Raises
    ------
    UsageError, IntegrityError
        As ``generator.open_generator``; or if its schedule is for another kind of prediction.
    """
    digest, config, networks = parts_of(folder)
    if scheduler(config.schedule).config.prediction_type not in ("epsilon", "v_prediction"):
        raise UsageError("The pipeline predicts neither noise nor velocity", "Use another pipeline")
    # One embedding more than there are classes: the last means "no class", which guidance needs.
    unet = {**config.denoiser, "num_class_embeds": classes + 1 if classes else None}
    denoiser: UNet2DModel = build_model(unet, UNet2DModel)
    fresh = denoiser.state_dict()
    # Tensors of another shape, such as the class embedding, keep their random weights.
    known = {
        name: value
        for name, value in networks.denoiser.state_dict().items()
        if name in fresh and fresh[name].shape == value.shape
    }
    denoiser.load_state_dict({**fresh, **known})
    return InitialModel(
        config.size,
        digest,
        images_before,
        True,
        networks.autoencoder,
        denoiser,
        config.autoencoder,
        unet,
        config.schedule,
    )
