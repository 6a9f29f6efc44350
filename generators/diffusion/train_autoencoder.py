"""First training stage: the autoencoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from medsanitize.generators.diffusion.accelerator import AcceleratorHandle
from medsanitize.generators.diffusion.augment import augment_batch
from medsanitize.generators.diffusion.contact_sheet import COLUMNS
from medsanitize.generators.diffusion.dataset import GeneratorDataset
from medsanitize.generators.diffusion.losses import Discriminator, divergence, hinge, packaged_perceptual
from medsanitize.generators.diffusion.networks import Autoencoder, latent_shape
from medsanitize.generators.diffusion.recipes import Autoencoding, Recipe
from medsanitize.generators.diffusion.sample import to_pixels, to_range
from medsanitize.verifiers.reid.training.checkpoint import group, grouped, load_optimizer, optimizer_tensors
from numpy.typing import NDArray
from torch import Tensor, nn

# Held-out images evaluated at a checkpoint.
_VALIDATION_IMAGES = 64


class RoundTrip(nn.Module):
    """Encode and decode in one ``forward``, which distributed data parallel requires."""

    def __init__(self, autoencoder: Autoencoder) -> None:
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, images: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the reconstruction, and mean and log variance of the latents."""
        seen = images.expand(-1, self.autoencoder.config.in_channels, -1, -1)
        there = self.autoencoder.encode(seen).latent_dist
        # Reparameterization with noise drawn outside, which is the same for any number of processes.
        latents = there.mean + there.std * noise
        return self.autoencoder.decode(latents).sample, there.mean, there.logvar


class AutoencoderStage:
    """Implements ``training_loop.TrainingStage``."""

    name, number = "autoencoder", 0

    def __init__(
        self,
        autoencoder: Autoencoder,
        recipe: Recipe,
        material: GeneratorDataset,
        machine: AcceleratorHandle,
    ) -> None:
        self._how: Autoencoding = recipe.autoencoder
        self.steps, self.batch = self._how.steps, self._how.batch
        self._patient = recipe.patience > 0
        self._material, self._machine = material, machine
        self.network: Autoencoder = machine.placed(autoencoder)
        self._trip = machine.joined(RoundTrip(self.network))
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=self._how.rate)
        self._perceptual = machine.placed(packaged_perceptual())
        self._best: dict[str, Tensor] = {}
        self._judge: nn.Module | None = None
        if self._how.adversarial:
            self._judge = machine.placed(Discriminator())
            self._joined_judge = machine.joined(self._judge)
            self._judge_optimizer = torch.optim.Adam(
                self._judge.parameters(), lr=self._how.rate, betas=(0.5, 0.9)
            )

    def chosen(self, step: int, random: np.random.Generator) -> list[int]:  # noqa: ARG002
        """Select training images."""
        return [int(one) for one in random.integers(0, len(self._material.fit), self.batch)]

    def step(self, step: int, places: Sequence[int], draw: torch.Generator) -> Mapping[str, Tensor]:
        """Train on one batch and return its losses."""
        chosen = self._material.squares[self._material.fit[places]]
        share = self._machine.share(places)
        # Augmented before the split, so that the numbers drawn do not depend on the number of processes.
        images = augment_batch(to_range(chosen), draw)[share].to(self._machine.device)
        noise = torch.randn(self._latent_shape(len(places)), generator=draw)[share].to(images.device)
        self._set_rate(step)
        self.network.train()
        with self._machine.accelerator.autocast():
            again, mean, log_variance = self._trip(images, noise)
        losses = self._losses(images, again.float(), mean.float(), log_variance.float())
        total = (
            losses["pixels"] + self._how.perceptual * losses["features"] + self._how.kl * losses["divergence"]
        )
        fooling = self._judge is not None and step >= self._how.adversarial_from
        if fooling and self._judge is not None:
            # The generator's loss must not leave gradients in the discriminator.
            self._judge.requires_grad_(False)
            losses["fooling"] = -self._judge(again.float().mean(1, keepdim=True)).mean()
            total = total + self._how.adversarial * losses["fooling"]
            self._judge.requires_grad_(True)
        self._optimizer.zero_grad()
        self._machine.accelerator.backward(total)
        # Clipped: a single unusual image must not ruin the weights.
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._optimizer.step()
        if fooling:
            losses["judging"] = self._teach_judge(images, again.detach().float().mean(1, keepdim=True))
        return losses

    def held(self) -> float:
        """Loss on held-out images, without noise."""
        places = self._material.held[:_VALIDATION_IMAGES]
        self.network.eval()
        sums = 0.0
        with torch.no_grad():
            for start in range(0, len(places), self.batch):
                part = places[start : start + self.batch]
                images = to_range(self._material.squares[part]).to(self._machine.device)
                # Zero noise decodes the mode, so that the loss of two checkpoints is comparable.
                noise = torch.zeros(self._latent_shape(len(part)), device=images.device)
                again, mean, log_variance = RoundTrip(self.network)(images, noise)
                losses = self._losses(images, again, mean, log_variance)
                sums += float(losses["pixels"] + self._how.perceptual * losses["features"]) * len(part)
        return sums / len(places)

    def keep(self) -> None:
        """Store the current weights as the best."""
        # Without early stopping the last weights are the result.
        if self._patient:
            self._best = {
                name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()
            }

    def end(self) -> None:
        """Load the best weights, if stored, and freeze the network."""
        if self._best:
            self.network.load_state_dict(self._best)
        self.network.eval().requires_grad_(False)

    def tensors(self) -> dict[str, Tensor]:
        """State of networks and optimizers."""
        judge: dict[str, Any] = {}
        if self._judge is not None:
            judge = {
                "judge": self._judge.state_dict(),
                "judge_optimizer": optimizer_tensors(self._judge_optimizer),
            }
        return grouped(
            autoencoder=self.network.state_dict(),
            optimizer=optimizer_tensors(self._optimizer),
            best=self._best,
            **judge,
        )

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state returned by ``tensors``."""
        self.network.load_state_dict(group(tensors, "autoencoder"))
        load_optimizer(self._optimizer, group(tensors, "optimizer"))
        self._best = group(tensors, "best")
        if self._judge is not None:
            self._judge.load_state_dict(group(tensors, "judge"))
            load_optimizer(self._judge_optimizer, group(tensors, "judge_optimizer"))

    def images(self) -> NDArray[np.uint8]:
        """Held-out images above their reconstructions; contains PHI."""
        places = self._material.held[:COLUMNS]
        originals = np.asarray(self._material.squares[places])
        images = to_range(originals).to(self._machine.device)
        self.network.eval()
        with torch.no_grad():
            noise = torch.zeros(self._latent_shape(len(places)), device=images.device)
            again, _, _ = RoundTrip(self.network)(images, noise)
        return np.stack([originals, to_pixels(again).cpu().numpy()])

    def _losses(self, images: Tensor, again: Tensor, mean: Tensor, log_variance: Tensor) -> dict[str, Tensor]:
        seen = images.expand(-1, again.shape[1], -1, -1)
        return {
            "pixels": (again - seen).abs().mean(),
            "features": self._perceptual(again, seen),
            "divergence": divergence(mean, log_variance),
        }

    def _teach_judge(self, real: Tensor, made: Tensor) -> Tensor:
        loss = hinge(self._joined_judge(real), self._joined_judge(made))
        self._judge_optimizer.zero_grad()
        self._machine.accelerator.backward(loss)
        self._judge_optimizer.step()
        return loss

    def _latent_shape(self, count: int) -> tuple[int, int, int, int]:
        return latent_shape(self.network, count, self._material.squares.shape[1])

    def _set_rate(self, step: int) -> None:
        """Halve the learning rate for the last 20 %, again for the last 10 % and for the last 5 %."""
        left = 1 - step / self.steps
        share = 0.125 if left < 0.05 else 0.25 if left < 0.1 else 0.5 if left < 0.2 else 1.0
        for parameters in self._optimizer.param_groups:
            parameters["lr"] = self._how.rate * share
