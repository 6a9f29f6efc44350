"""Sampling with deterministic DDIM: class and seed alone determine an image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from medsanitize.errors import UsageError
from medsanitize.generators.diffusion.config import GeneratorConfig
from medsanitize.generators.diffusion.networks import Networks, scale_of, with_amounts
from medsanitize.verifiers.reid.images.image import Modality
from numpy.typing import NDArray
from torch import Tensor

# Constant batch size, padded if necessary: kernels sum in an order that depends on it, and an image must
# not depend on the images it is sampled with.
BATCH = 8
LOSS_STEPS = 8
"""Timesteps at which `LatentGenerator.losses` asks the denoiser, spread over the less noisy half."""


@dataclass(frozen=True, slots=True)
class LatentGenerator:
    """A generator for inference; implements ``generator.Generator``."""

    digest: str
    config: GeneratorConfig
    networks: Networks
    device: torch.device

    @property
    def modality(self) -> Modality:
        """Modality of the images."""
        return self.config.modality

    @property
    def size(self) -> int:
        """Width and height of an image in pixels."""
        return self.config.size

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in order of their numbers."""
        return self.config.classes

    @property
    def privacy(self) -> Mapping[str, Any] | None:
        """Statement of differential privacy; None for a model without."""
        return self.config.privacy

    def sample(self, classes: Sequence[int], seeds: Sequence[int]) -> NDArray[np.uint8]:
        """Sample images, ``(n, size, size)``."""
        self._check(classes, seeds)
        steps = self._steps()

        def draw(part: slice) -> Tensor:
            noise = _filled(self._noise(seeds[part]))
            return self._decoded(self._denoised(noise, classes[part], steps))

        return self._all(draw, len(seeds))

    def reconstruct(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Encode and decode images with the autoencoder, ``(n, size, size)``."""
        self._check_images(images)
        return self._all(lambda part: self._decoded(self._encoded(_filled(images[part]))), len(images))

    def vary(
        self, images: NDArray[np.uint8], classes: Sequence[int], strength: float, seeds: Sequence[int]
    ) -> NDArray[np.uint8]:
        """Image-to-image, ``(n, size, size)``."""
        self._check_images(images)
        self._check(classes, seeds)
        if len(images) != len(seeds):
            raise UsageError("The numbers of seeds and images differ", "Pass one seed per image")
        if not 0 < strength <= 1:
            raise UsageError("The strength is outside (0, 1]", "Use 1 for new images, 0.1 for new detail")
        steps = self._steps()
        ahead = steps[len(steps) - max(1, round(strength * len(steps))) :]

        def draw(part: slice) -> Tensor:
            latents, noise = self._encoded(_filled(images[part])), _filled(self._noise(seeds[part]))
            noisy = self.networks.schedule.add_noise(latents, noise.to(self.device), ahead[:1])
            return self._decoded(self._denoised(noisy, classes[part], ahead))

        return self._all(draw, len(seeds))

    def losses(self, images: NDArray[np.uint8], classes: Sequence[int]) -> NDArray[np.float64]:
        """Compute denoising losses with the same noise for each image, ``(n, LOSS_STEPS)``.

        The membership attack reads them: an image that was memorized is denoised better.
        """
        self._check_images(images)
        self._check(classes, range(len(images)))
        most = int(self.networks.schedule.config.num_train_timesteps)
        found = np.empty((len(images), LOSS_STEPS))
        with torch.inference_mode():
            for part in _parts(len(images)):
                latents, labels = self._encoded(_filled(images[part])), self._labels(classes[part])
                for place in range(LOSS_STEPS):
                    step = torch.full((BATCH,), (2 * place + 1) * most // (4 * LOSS_STEPS))
                    each = self._loss(latents, step.to(self.device), labels, place)
                    found[part, place] = each.cpu().double().numpy()[: part.stop - part.start]
        return found

    def _loss(self, latents: Tensor, step: Tensor, labels: Tensor | None, seed: int) -> Tensor:
        schedule = self.networks.schedule
        noise = self._noise([seed]).to(self.device).expand_as(latents)
        noisy = schedule.add_noise(latents, noise, step)
        guess = guided_prediction(self.networks.denoiser, noisy, step, labels, 1.0)
        is_velocity = schedule.config.prediction_type == "v_prediction"
        target = schedule.get_velocity(latents, noise, step) if is_velocity else noise
        return (guess - target).square().mean((1, 2, 3))

    def _all(self, draw: Callable[[slice], Tensor], count: int) -> NDArray[np.uint8]:
        """Compute batch by batch; on a CPU batches run in parallel, each in one thread."""
        images = np.empty((count, self.size, self.size), np.uint8)

        def put(part: slice) -> None:
            with torch.inference_mode():
                images[part] = draw(part).cpu().numpy()[: part.stop - part.start]

        before = torch.get_num_threads()
        threads = before if self.device.type == "cpu" else 1
        # One torch thread per batch: the order of sums, and so the bytes, depends on the number of threads.
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(put, _parts(count)):
                pass
        # set_num_threads() in a worker also changes the default of later threads.
        torch.set_num_threads(before)
        return images

    def _steps(self) -> Tensor:
        """Timesteps, the noisiest first."""
        self.networks.schedule.set_timesteps(self.config.steps)
        return torch.as_tensor(self.networks.schedule.timesteps)

    def _noise(self, seeds: Sequence[int]) -> Tensor:
        facts = self.networks.denoiser.config
        side = (facts.sample_size,) * 2 if isinstance(facts.sample_size, int) else tuple(facts.sample_size)
        shape = (facts.out_channels, *side)
        # CPU generators, one per image: CUDA generators give other numbers, and images must not share a
        # stream.
        return torch.stack(
            [torch.randn(shape, generator=torch.Generator().manual_seed(int(seed))) for seed in seeds]
        )

    def _denoised(self, latents: Tensor, classes: Sequence[int], steps: Tensor) -> Tensor:
        """Denoise latents step by step."""
        latents = latents.to(self.device)
        labels = self._labels(classes)
        for step in steps:
            guess = guided_prediction(self.networks.denoiser, latents, step, labels, self.config.guidance)
            latents = self.networks.schedule.step(guess, int(step), latents).prev_sample
        return latents

    def _labels(self, classes: Sequence[int]) -> Tensor | None:
        if not self.classes:
            return None
        labels: Tensor = _filled(torch.tensor([int(one) for one in classes]))
        return labels.to(self.device)

    def _encoded(self, images: NDArray[np.uint8]) -> Tensor:
        """Normalized latents: the mode of the encoder's distribution."""
        encoder = self.networks.autoencoder
        pixels = to_range(images).to(self.device).expand(-1, encoder.config.in_channels, -1, -1)
        mean, deviation = scale_of(encoder)
        latents: Tensor = encoder.encode(pixels).latent_dist.mode()
        return (latents - mean.to(self.device)) / deviation.to(self.device)

    def _decoded(self, latents: Tensor) -> Tensor:
        mean, deviation = scale_of(self.networks.autoencoder)
        scaled = latents * deviation.to(self.device) + mean.to(self.device)
        return to_pixels(self.networks.autoencoder.decode(scaled).sample)

    def _check(self, classes: Sequence[int], seeds: Sequence[int]) -> None:
        if len(classes) != len(seeds):
            raise UsageError(
                "The numbers of classes and seeds differ", "Pass one class and one seed per image"
            )
        if any(not 0 <= one < max(1, len(self.classes)) for one in classes):
            raise UsageError(
                "The generator has no class with that number",
                f"It has {len(self.classes)} classes, numbered from 0; use 0 for a generator without classes",
            )
        if any(not 0 <= one < 2**63 for one in seeds):
            raise UsageError("A seed is outside its range", "Use numbers from 0 to 2 ** 63 - 1")

    def _check_images(self, images: NDArray[np.uint8]) -> None:
        if images.shape[1:] != (self.size, self.size) or images.dtype != np.uint8:
            raise UsageError(
                f"The images are not {self.size} x {self.size} pixels",
                "Preprocess them with generators.diffusion.preprocess, to the size of the generator",
            )


def guided_prediction(
    denoiser: Any, latents: Tensor, step: Tensor, labels: Tensor | None, guidance: float
) -> Tensor:
    """Classifier-free guidance (Ho and Salimans 2022)."""
    if labels is None or guidance == 1:
        alone: Tensor = denoiser(with_amounts(denoiser, latents), step, labels).sample
        return alone
    # The last class embedding was trained with omitted labels and means "no class".
    none = torch.full_like(labels, denoiser.config.num_class_embeds - 1)
    seen = with_amounts(denoiser, latents)
    both = denoiser(torch.cat([seen, seen]), step, torch.cat([labels, none])).sample
    known, unknown = both.chunk(2)
    return torch.as_tensor(unknown + guidance * (known - unknown))


def to_range(images: NDArray[np.uint8]) -> Tensor:
    """Scale bytes ``(n, side, side)`` to ``(n, 1, side, side)`` in [-1, 1]."""
    return torch.from_numpy(np.array(images, np.float32))[:, None] / 127.5 - 1


def to_pixels(decoded: Tensor) -> Tensor:
    """Scale autoencoder output ``(n, channels, side, side)`` to bytes ``(n, side, side)``."""
    return ((decoded.float().mean(1) + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, BATCH):
        yield slice(start, min(start + BATCH, count))


def _filled(values: Any) -> Any:
    """Pad to the constant batch size; callers cut the padding off."""
    missing = BATCH - len(values)
    if not missing:
        return values
    if isinstance(values, Tensor):
        return torch.cat([values, torch.zeros((missing, *values.shape[1:]), dtype=values.dtype)])
    return np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)])
