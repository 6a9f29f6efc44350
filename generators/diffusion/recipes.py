"""Training recipes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from medsanitize.errors import UsageError


class Prediction(StrEnum):
    """What the denoiser predicts."""

    NOISE = "noise"
    """The noise that was added (Ho et al. 2020)."""
    VELOCITY = "velocity"
    """A mixture of noise and image (Salimans and Ho 2022)."""
    ZERO_SNR = "zero-snr"
    """As velocity, with pure noise at the last step (Lin et al. 2024): allows very bright and dark images."""


@dataclass(frozen=True, slots=True)
class Autoencoding:
    """Autoencoder and its training.

    Attributes
    ----------
    channels
        Per level; latents are ``2 ** (levels - 1)`` times smaller than the image. With ``patch``, the one
        entry is the width of the refinement.
    layers
        Residual blocks per level.
    batch, steps, rate
        Images per step over all devices, maximum number of steps, learning rate of Adam.
    perceptual, kl, adversarial
        Weights of the losses relative to the mean absolute error.
    adversarial_from
        Step at which adversarial training starts.
    latents
        Channels of the latents. Of a convolutional autoencoder 8, after Medfusion (Müller-Franzes et al.
        2023) and Campos et al. 2024: fewer cause artifacts.
    patch
        0 for a convolutional autoencoder; otherwise the patches of a `PatchAutoencoder`, in pixels.
    """

    channels: tuple[int, ...]
    layers: int
    batch: int
    steps: int
    rate: float
    perceptual: float = 0.2
    kl: float = 1e-4
    adversarial: float = 0.0
    adversarial_from: int = 0
    latents: int = 8
    patch: int = 0


@dataclass(frozen=True, slots=True)
class Denoising:
    """Denoiser and its training.

    Attributes
    ----------
    channels, attention
        Per level: channels, and whether it has self-attention.
    layers, heads
        Residual blocks per level, channels per attention head.
    batch, steps, rate, warmup
        As for the autoencoder; the learning rate rises linearly over ``warmup`` steps.
    cosine
        Whether the learning rate decays to zero along a cosine; otherwise it is constant.
    copies
        Cached latents per image: one of the image itself, the others of augmented versions.
    dropout, dropped
        Dropout of activations, and share of omitted class labels, which guidance needs.
    average
        Decay of the moving average of the weights; the averaged weights are the result.
    prediction
        See `Prediction`.
    augmentation
        Strength of the augmentation, relative to ``augment.TURN`` and the like, if the denoiser is told its
        amounts, so that it can sample images without any (Karras et al. 2022); 0 does not tell, at
        strength 1.
    min_snr
        Limit of the weight of timesteps with little noise (Hang et al. 2023); 0 weights all alike.
    beta_start, beta_end
        Of the scaled linear schedule with 1,000 steps.
    """

    channels: tuple[int, ...]
    attention: tuple[bool, ...]
    layers: int
    heads: int
    batch: int
    steps: int
    rate: float
    warmup: int
    cosine: bool = True
    copies: int = 1
    dropout: float = 0.0
    dropped: float = 0.1
    average: float = 0.999
    prediction: Prediction = Prediction.NOISE
    augmentation: float = 0.0
    min_snr: float = 0.0
    beta_start: float = 0.002
    beta_end: float = 0.02


@dataclass(frozen=True, slots=True)
class Recipe:
    """All parameters of a training.

    Attributes
    ----------
    name
        Value of ``--recipe``.
    size
        Width and height of the images in pixels.
    autoencoder, denoiser
        The two stages.
    every
        Steps between checkpoints; an interrupted training loses at most that many.
    grids
        Checkpoints between contact sheets.
    patience
        Stop a stage after this many checkpoints without a better held-out loss; 0 for never.
    sampling_steps, guidance
        DDIM steps per image, and guidance scale; 1 is no guidance.
    precision
        Mixed precision on a GPU: ``no`` (float32) or ``bf16``.
    seed
        Seed of all random choices.
    """

    name: str
    size: int
    autoencoder: Autoencoding
    denoiser: Denoising
    every: int
    grids: int
    patience: int = 0
    sampling_steps: int = 50
    guidance: float = 1.5
    precision: str = "no"
    seed: int = 0

    @property
    def latent(self) -> int:
        """Width and height of the latents."""
        how = self.autoencoder
        return self.size // how.patch if how.patch else self.size >> (len(how.channels) - 1)


# With few steps, velocity prediction learns the anatomy; noise prediction learns textures first. Latents of
# `cpu-64` have an eighth as many values as the image and a strong KL weight: larger ones blur.
_CPU = Denoising(
    (64, 128, 128), (False, True, True), 1, 32, 16, 2200, 5e-4, 100, copies=24, dropout=0.05, average=0.995,
    prediction=Prediction.VELOCITY,
)  # fmt: skip
_MEDFUSION = Denoising((256, 256, 512, 1024), (False, False, True, True), 2, 64, 32, 1_000_000, 1e-4, 1000,
                       cosine=False, average=0.9999)  # fmt: skip
RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "tiny", 32, Autoencoding((8, 16, 16), 1, 8, 80, 2e-3),
            Denoising((16, 32), (False, True), 1, 16, 16, 200, 2e-3, 20, copies=2, average=0.98,
                      prediction=Prediction.VELOCITY),
            every=40, grids=3, sampling_steps=10, guidance=1.0,
        ),
        Recipe(
            "cpu-64", 64, Autoencoding((16, 32, 64, 64), 1, 8, 800, 1e-3, kl=1e-3),
            replace(_CPU, channels=(64, 128), attention=(True, True), batch=32, steps=2400), every=200,
            grids=2, sampling_steps=30,
        ),
        Recipe(
            "cpu-128", 128, Autoencoding((64,), 2, 8, 600, 1e-3, kl=0.0, latents=16, patch=8),
            replace(_CPU, batch=32, steps=8000, copies=16, average=0.998, augmentation=1.5, min_snr=5.0),
            every=200, grids=2, sampling_steps=30, guidance=1.0,
        ),
        # For phantoms, whose anatomy a small denoiser learns in minutes.
        Recipe(
            "demo-128", 128, Autoencoding((32,), 1, 8, 60, 1e-3, kl=0.0, latents=16, patch=8),
            replace(_CPU, channels=(64, 128), attention=(False, True), steps=800, copies=4, average=0.99,
                    augmentation=1.0, min_snr=5.0),
            every=200, grids=4, sampling_steps=15, guidance=1.0,
        ),
        Recipe(
            "gpu-256", 256, Autoencoding((64, 128, 256, 256), 2, 32, 100_000, 1e-4, 0.2, 1e-4, 0.05, 50_000),
            replace(_MEDFUSION, channels=(192, 192, 384, 768)), every=1000, grids=5, patience=30,
            guidance=2.0, precision="bf16",
        ),
        Recipe(
            "gpu-512", 512, Autoencoding((64, 128, 256, 512), 2, 16, 100_000, 1e-4, 0.2, 1e-4, 0.05, 50_000),
            _MEDFUSION, every=1000, grids=5, patience=30, guidance=2.0, precision="bf16",
        ),
    )
}  # fmt: skip


def recipe_for(name: str | None, prediction: Prediction | None = None) -> Recipe:
    """Look up a recipe; the default is gpu-256 with a GPU and cpu-128 without.

    Parameters
    ----------
    name
        Name of the recipe.
    prediction
        Replaces that of the recipe.

    Raises
    ------
    UsageError
        If there is no recipe of that name.
    """
    if name is None:
        # Imported on use: a recipe given by name needs no torch, whose import takes seconds.
        import torch

        name = "gpu-256" if torch.cuda.is_available() else "cpu-128"
    if name not in RECIPES:
        raise UsageError("The recipe is unknown", f"Use one of {', '.join(RECIPES)}")
    recipe = RECIPES[name]
    if prediction is None:
        return recipe
    return replace(recipe, denoiser=replace(recipe.denoiser, prediction=prediction))


def prediction_for(name: str | None) -> Prediction | None:
    """Look up a prediction type by name; None leaves it to the recipe.

    Raises
    ------
    UsageError
        If there is no prediction type of that name.
    """
    if name is None:
        return None
    if name not in {one.value for one in Prediction}:
        raise UsageError("The prediction type is unknown", f"Use one of {', '.join(Prediction)}")
    return Prediction(name)
