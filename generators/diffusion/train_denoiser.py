"""Second training stage: the class-conditional denoiser of latents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from diffusers import UNet2DModel
from diffusers.training_utils import EMAModel
from medsanitize.generators.diffusion.accelerator import AcceleratorHandle
from medsanitize.generators.diffusion.augment import AMOUNTS
from medsanitize.generators.diffusion.config import GeneratorConfig
from medsanitize.generators.diffusion.contact_sheet import COLUMNS, ROWS
from medsanitize.generators.diffusion.dataset import GeneratorDataset
from medsanitize.generators.diffusion.latent_cache import Latents
from medsanitize.generators.diffusion.networks import Networks, with_amounts
from medsanitize.generators.diffusion.recipes import Denoising, Recipe
from medsanitize.generators.diffusion.sample import LatentGenerator
from medsanitize.verifiers.reid.training.checkpoint import group, grouped, load_optimizer, optimizer_tensors
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

# Held-out latents evaluated at a checkpoint, each at this many timesteps.
_VALIDATION_LATENTS, _TIMESTEPS = 32, 4


class DenoiserStage:
    """Implements ``training_loop.TrainingStage``."""

    name, number = "denoiser", 1

    def __init__(
        self,
        networks: Networks,
        config: GeneratorConfig,
        recipe: Recipe,
        material: GeneratorDataset,
        latents: Latents,
        machine: AcceleratorHandle,
    ) -> None:
        self._how: Denoising = recipe.denoiser
        self.steps, self.batch = self._how.steps, self._how.batch
        self._patient = recipe.patience > 0
        self._networks, self._config = networks, config
        self._material, self._latents, self._machine = material, latents, machine
        self._mean = torch.from_numpy(latents.mean).float().view(1, -1, 1, 1)
        self._deviation = torch.from_numpy(latents.deviation).float().view(1, -1, 1, 1)
        self.network: UNet2DModel = machine.placed(networks.denoiser)
        self._joined = machine.joined(self.network)
        self._optimizer = torch.optim.AdamW(self.network.parameters(), lr=self._how.rate)
        self._average = EMAModel(self.network.parameters(), decay=self._how.average)
        self._best: dict[str, Tensor] = {}

    def chosen(self, step: int, random: np.random.Generator) -> list[int]:  # noqa: ARG002
        """Select training latents: copies of images."""
        return [int(one) for one in random.integers(0, math.prod(self._latents.fit.shape[:2]), self.batch)]

    def step(self, step: int, places: Sequence[int], draw: torch.Generator) -> Mapping[str, Tensor]:
        """Train on one batch and return its loss."""
        batch, share = self._noised(places, draw), self._machine.share(places)
        self._set_rate(step)
        self.network.train()
        with self._machine.accelerator.autocast():
            loss = self._loss(self._joined, *(one[share].to(self._machine.device) for one in batch))
        self._optimizer.zero_grad()
        self._machine.accelerator.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._optimizer.step()
        self._average.step(self.network.parameters())
        return {"loss": loss}

    def _noised(self, places: Sequence[int], draw: torch.Generator) -> tuple[Tensor, ...]:
        """Draw the arguments of the loss: latents, noise, timesteps, labels and augmentation amounts."""
        images, copies = np.divmod(np.array(places), self._latents.fit.shape[1])
        latents = self._normalized(self._latents.fit[images, copies])
        amounts = torch.from_numpy(self._latents.amounts[images, copies])
        labels = torch.from_numpy(self._material.classes[self._material.fit[images]])
        # Omitted labels train the "no class" embedding that guidance needs.
        labels[torch.rand(len(labels), generator=draw) < self._how.dropped] = len(self._config.classes)
        noise = torch.randn(latents.shape, generator=draw)
        steps = torch.randint(
            0, self._networks.schedule.config.num_train_timesteps, (len(labels),), generator=draw
        )
        return latents, noise, steps, labels, amounts

    def held(self) -> float | None:
        """Loss of the averaged weights on held-out latents, at fixed noise."""
        count = min(_VALIDATION_LATENTS, len(self._latents.held))
        latents = self._normalized(self._latents.held[:count]).repeat(_TIMESTEPS, 1, 1, 1)
        labels = torch.from_numpy(self._material.classes[self._material.held[:count]]).repeat(_TIMESTEPS)
        # The same noise at every checkpoint: otherwise its variation would hide that of the loss.
        draw = torch.Generator().manual_seed(0)
        noise = torch.randn(latents.shape, generator=draw)
        most = self._networks.schedule.config.num_train_timesteps
        # Midpoints of equal intervals of the schedule, instead of random timesteps.
        steps = (torch.arange(len(labels)) * most + most // 2) // len(labels)
        amounts = torch.zeros((len(labels), AMOUNTS))
        sums = 0.0
        with self._averaged(), torch.no_grad():
            for start in range(0, len(labels), self.batch):
                part = slice(start, start + self.batch)
                given = [
                    one[part].to(self._machine.device) for one in (latents, noise, steps, labels, amounts)
                ]
                sums += float(self._loss(self.network, *given)) * len(given[0])
        return sums / len(labels)

    def keep(self) -> None:
        """Store the averaged weights as the best."""
        if self._patient:
            with self._averaged():
                self._best = {
                    name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()
                }

    def end(self) -> None:
        """Load the best averaged weights, if stored, else the last ones."""
        if self._best:
            self.network.load_state_dict(self._best)
        else:
            self._average.copy_to(self.network.parameters())
        self.network.eval().requires_grad_(False)

    def tensors(self) -> dict[str, Tensor]:
        """State of networks, optimizer and average, including the frozen autoencoder."""
        average = {str(number): value for number, value in enumerate(self._average.shadow_params)}
        average["steps"] = torch.tensor(self._average.optimization_step)
        return grouped(
            autoencoder=self._networks.autoencoder.state_dict(),
            denoiser=self.network.state_dict(),
            optimizer=optimizer_tensors(self._optimizer),
            average=average,
            best=self._best,
        )

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state returned by ``tensors``."""
        self.network.load_state_dict(group(tensors, "denoiser"))
        load_optimizer(self._optimizer, group(tensors, "optimizer"))
        average = group(tensors, "average")
        self._average.optimization_step = int(average.pop("steps"))
        for number, value in average.items():
            self._average.shadow_params[int(number)].copy_(value)
        self._best = group(tensors, "best")

    def images(self) -> NDArray[np.uint8]:
        """Samples, one row per class."""
        rows = min(max(1, len(self._config.classes)), ROWS)
        with self._averaged():
            made = LatentGenerator("", self._config, self._networks, self._machine.device).sample(
                [row for row in range(rows) for _ in range(COLUMNS)], list(range(rows * COLUMNS))
            )
        return made.reshape(rows, COLUMNS, *made.shape[1:])

    def _loss(
        self,
        network: torch.nn.Module,
        latents: Tensor,
        noise: Tensor,
        steps: Tensor,
        labels: Tensor,
        amounts: Tensor,
    ) -> Tensor:
        schedule = self._networks.schedule
        noisy = schedule.add_noise(latents, noise, steps)
        target = noise
        if schedule.config.prediction_type == "v_prediction":
            target = schedule.get_velocity(latents, noise, steps)
        seen = with_amounts(self.network, noisy, amounts)
        guess = network(seen, steps, labels if self._config.classes else None).sample
        each = F.mse_loss(guess.float(), target.float(), reduction="none").mean((1, 2, 3))
        return (each * self._weights(steps)).mean()

    def _weights(self, steps: Tensor) -> Tensor:
        """Weight of each timestep: min-SNR for the kind of prediction (Hang et al. 2023), or 1."""
        if not self._how.min_snr:
            return torch.ones(len(steps), device=steps.device)
        schedule = self._networks.schedule
        kept = schedule.alphas_cumprod.to(steps.device)[steps]
        # Velocity errors weigh as image errors do if divided by SNR + 1, noise errors if divided by SNR.
        ratio = kept / (1 - kept)
        velocity = schedule.config.prediction_type == "v_prediction"
        whole = ratio + 1 if velocity else ratio.clamp_min(1e-8)
        weights: Tensor = ratio.clamp(max=self._how.min_snr) / whole
        return weights

    def _normalized(self, latents: NDArray[np.float16]) -> Tensor:
        values = torch.from_numpy(np.array(latents, np.float32))
        return (values - self._mean) / self._deviation

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Use the averaged weights within the context."""
        self.network.eval()
        # The optimizer continues from the weights that are restored afterwards.
        self._average.store(self.network.parameters())
        self._average.copy_to(self.network.parameters())
        try:
            yield
        finally:
            self._average.restore(self.network.parameters())

    def _set_rate(self, step: int) -> None:
        # Warm-up: the first gradients of Adam have no reliable variance estimate.
        rise = min(1.0, (step + 1) / self._how.warmup)
        fall = (1 + math.cos(math.pi * step / self.steps)) / 2 if self._how.cosine else 1.0
        for parameters in self._optimizer.param_groups:
            parameters["lr"] = self._how.rate * rise * fall
