"""Random augmentation that keeps a radiograph plausible."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

# Degrees, share of the width, of the size, and of the contrast. Positive controls use the same values.
TURN, SHIFT, SCALE, CONTRAST = 4.0, 0.04, 0.06, 0.1
# Numbers that describe one augmentation, each in [-1, 1]; all zero is the image itself.
AMOUNTS = 6


def augment_batch(images: Tensor, draw: torch.Generator) -> Tensor:
    """Rotate, shift, scale and change contrast at random; shape ``(n, 1, side, side)``, in [-1, 1]."""
    return augment(images, random_amounts(len(images), draw))


def random_amounts(count: int, draw: torch.Generator) -> Tensor:
    """Draw the amounts of ``count`` augmentations, ``(count, AMOUNTS)``."""
    return torch.rand((count, AMOUNTS), generator=draw) * 2 - 1


def augment(images: Tensor, amounts: Tensor) -> Tensor:
    """Augment images by the given amounts; beyond 1 exceeds the ranges above."""
    # Never mirrored: laterality is anatomy (heart, markers).
    angle = amounts[:, 0] * math.radians(TURN)
    scale = 1 + amounts[:, 1] * SCALE
    cosine, sine = torch.cos(angle) * scale, torch.sin(angle) * scale
    # affine_grid() coordinates span [-1, 1], so a share of the width is twice that share.
    rows = [
        torch.stack([cosine, -sine, amounts[:, 2] * SHIFT * 2], 1),
        torch.stack([sine, cosine, amounts[:, 3] * SHIFT * 2], 1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    moved = F.grid_sample(images, grid.to(images), padding_mode="border", align_corners=False)
    contrast = (1 + amounts[:, 4] * CONTRAST).view(-1, 1, 1, 1).to(images)
    shift = (amounts[:, 5] * CONTRAST).view(-1, 1, 1, 1).to(images)
    return (moved * contrast + shift).clamp(-1, 1)
