"""Cache of the latents of all images, computed once between the two training stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from medsanitize.generators.diffusion.accelerator import AcceleratorHandle
from medsanitize.generators.diffusion.augment import AMOUNTS, augment, random_amounts
from medsanitize.generators.diffusion.dataset import GeneratorDataset
from medsanitize.generators.diffusion.networks import Autoencoder
from medsanitize.generators.diffusion.sample import to_range
from medsanitize.progress import Cancellation, Progress
from numpy.typing import NDArray
from torch import Tensor

FILE = "latents.npy"
_BATCH = 16


@dataclass(frozen=True, slots=True)
class Latents:
    """Latents: the mode of the encoder's distribution for each image.

    Attributes
    ----------
    fit
        ``(training images, copies, channels, side, side)``, float16; copy 0 is the image without
        augmentation.
    held
        ``(held-out images, channels, side, side)``, float16.
    amounts
        Of each copy's augmentation, ``(training images, copies, AMOUNTS)``; those of copy 0 are zero.
    mean, deviation
        Per channel, over the training latents, ``(channels,)``, float64.
    """

    fit: NDArray[np.float16]
    held: NDArray[np.float16]
    amounts: NDArray[np.float32]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


def write_latents(
    autoencoder: Autoencoder,
    material: GeneratorDataset,
    copies: int,
    strength: float,
    seed: int,
    machine: AcceleratorHandle,
    folder: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> None:
    """Encode all images into a file of the folder; the file exists only if it is complete.

    Parameters
    ----------
    autoencoder
        The trained autoencoder.
    material
        The training data.
    copies
        Augmented versions per training image, the first without augmentation.
    strength, seed
        Strength and seed of the augmentation.
    machine, folder, progress, cancellation
        Device, folder of the unfinished training, progress and cancellation.
    """
    if (folder / FILE).exists():
        return
    places = [(place, copy) for place in material.fit for copy in range(copies)]
    places += [(place, 0) for place in material.held]
    progress.stage("encode images", len(places))
    # Renamed when complete: an interrupted run must not leave a file that looks whole.
    partial = folder / (FILE + ".part")
    kept: NDArray[np.float16] | None = None
    for start in range(0, len(places), _BATCH):
        cancellation.check()
        part = places[start : start + _BATCH]
        encoded = _encoded(autoencoder, _copies(material, part, strength, seed), machine.device)
        if kept is None:
            shape = (len(places), *encoded.shape[1:])
            kept = np.lib.format.open_memmap(partial, "w+", np.float16, shape)
        kept[start : start + len(part)] = encoded
        progress.advance(len(part))
    if isinstance(kept, np.memmap):
        kept.flush()
    partial.replace(folder / FILE)


def read_latents(
    material: GeneratorDataset, copies: int, strength: float, seed: int, folder: Path
) -> Latents:
    """Open the latents and compute their statistics."""
    stored = np.lib.format.open_memmap(folder / FILE, "r")
    count = len(material.fit) * copies
    fit = stored[:count].reshape(len(material.fit), copies, *stored.shape[1:])
    count_of, first, second = 0, np.zeros(stored.shape[1]), np.zeros(stored.shape[1])
    # Two running sums in blocks: the float64 copy of all latents may not fit into memory.
    for start in range(0, count, 1024):
        part = stored[start : min(start + 1024, count)].astype(np.float64)
        count_of += part[:, 0].size
        first += part.sum((0, 2, 3))
        second += np.square(part).sum((0, 2, 3))
    mean = first / count_of
    # The floor keeps a constant channel from a division by zero.
    deviation = np.sqrt(np.maximum(second / count_of - mean**2, 1e-8))
    every = [[_amounts(place, copy, strength, seed) for copy in range(copies)] for place in material.fit]
    amounts = torch.stack([torch.cat(row) for row in every]).numpy()
    return Latents(fit, stored[count:], amounts, mean, deviation)


def with_public_scale(
    latents: Latents, autoencoder: Autoencoder, squares: NDArray[np.uint8], machine: AcceleratorHandle
) -> Latents:
    """Replace the statistics by those of other images: a normalization is learned from its images, too."""
    encoded = _encoded(autoencoder, to_range(squares), machine.device).astype(np.float64)
    mean, deviation = encoded.mean((0, 2, 3)), encoded.std((0, 2, 3))
    return replace(latents, mean=mean, deviation=np.maximum(deviation, 1e-4))


def _copies(
    material: GeneratorDataset, places: list[tuple[np.intp, int]], strength: float, seed: int
) -> Tensor:
    """Images of one batch; copies other than the first are augmented."""

    def each() -> Iterator[Tensor]:
        for place, copy in places:
            image = to_range(np.asarray(material.squares[place])[None])
            yield augment(image, _amounts(place, copy, strength, seed)) if copy else image

    return torch.cat(list(each()))


def _amounts(place: np.intp, copy: int, strength: float, seed: int) -> Tensor:
    """Amounts of one copy's augmentation, ``(1, AMOUNTS)``."""
    if not copy:
        return torch.zeros((1, AMOUNTS))
    # A seed per copy, so that the result does not depend on the batches.
    key = np.random.SeedSequence((seed, int(place), copy)).generate_state(1)
    return random_amounts(1, torch.Generator().manual_seed(int(key[0]))) * strength


def _encoded(autoencoder: Autoencoder, images: Tensor, device: torch.device) -> NDArray[np.float16]:
    with torch.inference_mode():
        seen = images.to(device).expand(-1, autoencoder.config.in_channels, -1, -1)
        means: Tensor = autoencoder.encode(seen).latent_dist.mode()
    return means.cpu().numpy().astype(np.float16)
