"""Open the folder of a generator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.generators.diffusion.config import GeneratorConfig, read_config
from medsanitize.generators.diffusion.model_folder import (
    AUTOENCODER,
    DENOISER,
    FILES,
    INDEX,
    pickled,
    read_pipeline,
    tensors_of,
)
from medsanitize.generators.diffusion.networks import Networks, networks_of
from medsanitize.generators.diffusion.sample import LatentGenerator
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.model_folder import CONFIG, TRAINING, read_folder

# DDIM steps for foreign pipelines, whose configuration does not state any.
_STEPS = 50


def open_latent_generator(folder: Path, device: str) -> LatentGenerator:
    """See ``generator.open_generator``."""
    place = _device(device)
    digest, config, networks = parts_of(folder)
    for network in (networks.autoencoder, networks.denoiser):
        network.to(place)
    return LatentGenerator(digest, config, networks, place)


def parts_of(folder: Path) -> tuple[str, GeneratorConfig, Networks]:
    """Digest, configuration and networks of a folder, on the CPU.

    Raises
    ------
    UsageError, IntegrityError
        As ``generator.open_generator``.
    """
    if (folder / INDEX).is_file():
        digest, facts, weights = read_pipeline(folder)
        config = _foreign(facts)
        return digest, config, networks_of(config, weights["vae"], weights["unet"])
    if folder.is_file():
        raise (
            pickled()
            if folder.suffix != ".safetensors"
            else UsageError(
                "A weights file is not a generator",
                "Pass a folder written by train generator or diffusers",
            )
        )
    files = read_folder(folder, FILES)
    config = read_config(files.content[CONFIG])
    tensors = (tensors_of(files.content[name]) for name in (AUTOENCODER, DENOISER))
    return files.digest, config, networks_of(config, *tensors)


def papers(folder: Path) -> Mapping[str, Any]:
    """See ``generator.training_of``."""
    if (folder / INDEX).is_file():
        # Read for its checks only: a damaged pipeline must fail here too.
        read_pipeline(folder)
        return {}
    content = read_folder(folder, FILES).content
    try:
        facts = json.loads(content.get(TRAINING, b"{}"))
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        raise IntegrityError("training.json of the generator is damaged", "Train or fetch the model again")
    return facts


def _foreign(facts: Mapping[str, dict[str, Any]]) -> GeneratorConfig:
    """Configuration of a diffusers pipeline; class names are the numbers."""
    encoder, unet = facts["vae"], facts["unet"]
    try:
        levels = len(encoder["block_out_channels"])
        # sample_size is that of the latents; each level but the last halves the image.
        side = int(unet["sample_size"]) << (levels - 1)
        classes = tuple(str(number) for number in range(unet.get("num_class_embeds") or 0))
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            "The pipeline does not state its image size", "Save it with its diffusers configuration files"
        ) from None
    return GeneratorConfig(Modality.RADIOGRAPH, side, classes, encoder, unet, facts["scheduler"], _STEPS, 1.0)


def _device(device: str) -> torch.device:
    try:
        place = torch.device(device)
        if place.type == "cuda":
            # A device name can be valid without a usable GPU: allocate once to find out.
            torch.zeros(1, device=place)
    except (RuntimeError, AssertionError):
        raise UsageError(
            "torch cannot use that device on this machine", "Use cpu, or cuda on a machine with a GPU"
        ) from None
    return place
