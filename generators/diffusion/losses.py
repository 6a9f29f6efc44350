"""Losses of the autoencoder in addition to the pixel loss: perceptual, adversarial, and KL divergence."""

from __future__ import annotations

import torch
from medsanitize.verifiers.reid.models.networks.lite import Lite0
from medsanitize.verifiers.reid.models.pretrained import DEVIATION, MEAN, imagenet_weights
from torch import Tensor, nn
from torch.nn import functional as F

# Feature maps at 1/2 to 1/16 of the image size.
_GROUPS = (0, 1, 2, 4)


class PerceptualLoss(nn.Module):
    """Distance of EfficientNet-Lite0 features (after LPIPS, Zhang et al. 2018, unweighted).

    The image size must be a multiple of 32.

    Parameters
    ----------
    features
        The network with its weights.
    """

    def __init__(self, features: Lite0) -> None:
        super().__init__()
        self.features = features.eval().requires_grad_(False)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Mean distance over a batch of images ``(n, 1 or 3, side, side)`` in [-1, 1]."""
        maps = zip(self._maps(one), self._maps(other), strict=True)
        return torch.stack([(mine - yours).square().sum(1).mean() for mine, yours in maps]).sum()

    def _maps(self, images: Tensor) -> list[Tensor]:
        # The packaged network has the same mean and deviation for all channels.
        seen = ((images.expand(-1, 3, -1, -1) + 1) / 2 - MEAN[0]) / DEVIATION[0]
        maps, after = self.features.stem(seen), []
        for group in self.features.groups[: _GROUPS[-1] + 1]:
            maps = group(maps)
            after.append(maps)
        return [F.normalize(after[group], dim=1) for group in _GROUPS]


def packaged_perceptual() -> PerceptualLoss:
    """Build the loss with the packaged weights; nothing is downloaded.

    Raises
    ------
    EnvironmentFailure, IntegrityError
        If the weights are not installed, or their digest differs.
    """
    features = Lite0()
    features.load_state_dict(imagenet_weights())
    return PerceptualLoss(features)


class Discriminator(nn.Module):
    """Patch discriminator of real and reconstructed images (Isola et al. 2017)."""

    def __init__(self, channels: int = 64, levels: int = 3) -> None:
        super().__init__()
        # No normalization after the first layer, as in the reference architecture (Isola et al. 2017).
        steps: list[nn.Module] = [nn.Conv2d(1, channels, 4, 2, 1), nn.LeakyReLU(0.2)]
        for level in range(1, levels):
            inner, outer = channels << (level - 1), channels << level
            steps += [nn.Conv2d(inner, outer, 4, 2, 1), nn.GroupNorm(8, outer), nn.LeakyReLU(0.2)]
        self.steps = nn.Sequential(*steps, nn.Conv2d(channels << (levels - 1), 1, 3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return one logit per patch; above 0 is real."""
        patches: Tensor = self.steps(images)
        return patches


def hinge(real: Tensor, made: Tensor) -> Tensor:
    """Hinge loss of the discriminator (Lim and Ye 2017)."""
    return (F.relu(1 - real).mean() + F.relu(1 + made).mean()) / 2


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Mean KL divergence of a diagonal from the standard normal distribution (Kingma and Welling 2014)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean()
