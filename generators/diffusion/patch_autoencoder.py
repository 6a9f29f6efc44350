"""An autoencoder in closed form: principal components of patches, and a small network that refines them.

On a few hundred radiographs, 16 components of patches of 8 x 8 pixels keep more of the image than a
convolutional autoencoder that two cores train in half an hour; they take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from diffusers.models.autoencoders.vae import DecoderOutput, DiagonalGaussianDistribution
from diffusers.models.modeling_outputs import AutoencoderKLOutput
from torch import Tensor, nn
from torch.nn import functional as F

# The refinement sees patches of 4 x 4 pixels as channels: convolutions at full size cost 16 times as much.
_PACKED = 4
_GROUPS = 8


class PatchAutoencoder(ModelMixin, ConfigMixin):  # type: ignore[misc]
    """Projects patches on their principal components, and back; ``fit`` computes these.

    Has the interface of diffusers' AutoencoderKL.

    Parameters
    ----------
    patch
        Width and height of a patch in pixels, a multiple of 4.
    latent_channels
        Components per patch.
    channels, layers
        Width and number of residual blocks of the refinement.
    noise
        Standard deviation of the latents' distribution, relative to that of the component: the refinement
        learns from latents as imprecise as those that a denoiser samples.
    in_channels
        Always 1.
    latents_mean, latents_std
        As in AutoencoderKL.
    """

    @register_to_config  # type: ignore[untyped-decorator]
    def __init__(
        self,
        patch: int = 8,
        latent_channels: int = 16,
        channels: int = 64,
        layers: int = 2,
        # register_to_config keeps these.
        noise: float = 0.2,  # noqa: ARG002
        in_channels: int = 1,  # noqa: ARG002
        latents_mean: tuple[float, ...] | None = None,  # noqa: ARG002
        latents_std: tuple[float, ...] | None = None,  # noqa: ARG002
    ) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(patch**2))
        self.register_buffer("basis", torch.zeros(latent_channels, patch**2))
        self.register_buffer("spread", torch.ones(latent_channels))
        self.enter = nn.Conv2d(_PACKED**2, channels, 3, 1, 1)
        self.blocks = nn.ModuleList(_Block(channels) for _ in range(layers))
        self.leave = nn.Conv2d(channels, _PACKED**2, 3, 1, 1)
        # Zero: before any training the refinement changes nothing.
        for parameter in self.leave.parameters():
            nn.init.zeros_(parameter)

    @torch.no_grad()
    def fit(self, batches: Iterable[Tensor]) -> None:
        """Compute the components of all patches of images ``(n, 1, side, side)`` in [-1, 1]."""
        patch = int(self.config.patch)
        count, first = 0, torch.zeros(patch**2, dtype=torch.float64)
        second = torch.zeros((patch**2, patch**2), dtype=torch.float64)
        for images in batches:
            rows = F.pixel_unshuffle(images.double(), patch).permute(0, 2, 3, 1).reshape(-1, patch**2)
            count += len(rows)
            first += rows.sum(0)
            second += rows.T @ rows
        center = first / count
        values, vectors = torch.linalg.eigh(second / count - torch.outer(center, center))
        kept = int(self.config.latent_channels)
        basis = vectors.flip(1)[:, :kept].T
        # Eigenvectors have no sign of their own: the largest entry is positive.
        largest = basis.gather(1, basis.abs().argmax(1, keepdim=True))
        self.center.copy_(center)
        self.basis.copy_(basis * largest.sign())
        self.spread.copy_(values.flip(0)[:kept].clamp_min(0).sqrt())

    def encode(self, images: Tensor) -> Any:
        """Distribution of the latents of images ``(n, 1, side, side)``."""
        rows = F.pixel_unshuffle(images, int(self.config.patch)) - self.center.view(1, -1, 1, 1)
        mean = F.conv2d(rows, self.basis[:, :, None, None])
        log_variance = 2 * torch.log(self.spread * float(self.config.noise) + 1e-8)
        both = torch.cat([mean, log_variance.view(1, -1, 1, 1).expand_as(mean)], 1)
        return AutoencoderKLOutput(latent_dist=DiagonalGaussianDistribution(both))

    def decode(self, latents: Tensor) -> Any:
        """Images of latents ``(n, latent_channels, side, side)``."""
        rows = F.conv2d(latents, self.basis.T[:, :, None, None]) + self.center.view(1, -1, 1, 1)
        linear = F.pixel_shuffle(rows, int(self.config.patch))
        inner = self.enter(F.pixel_unshuffle(linear, _PACKED))
        for block in self.blocks:
            inner = block(inner)
        return DecoderOutput(sample=linear + F.pixel_shuffle(self.leave(F.silu(inner)), _PACKED))


class _Block(nn.Module):
    """Residual block of two convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.steps = nn.Sequential(
            *(nn.GroupNorm(_GROUPS, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, 1, 1)),
            *(nn.GroupNorm(_GROUPS, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, 1, 1)),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Add the result of both convolutions."""
        return images + torch.as_tensor(self.steps(images))
