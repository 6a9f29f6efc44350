"""Random augmentation of training images, in torch on the device of the images."""

from __future__ import annotations

import math

import torch
from medsanitize.verifiers.reid.training.recipes import Augmentation
from torch import Tensor
from torch.nn import functional as F


def augment(images: Tensor, how: Augmentation, draw: torch.Generator) -> Tensor:
    """Shift, scale, rotate and re-expose each image at random.

    Parameters
    ----------
    images : Tensor, shape (n, c, s, s)
        Values in [0, 1].
    how : Augmentation
        Largest changes.
    draw : torch.Generator
        Generator on the CPU, so that one seed gives the same changes on every device.

    Returns
    -------
    Tensor, shape (n, c, s, s)
        Values in [0, 1].
    """
    if how == Augmentation():
        return images

    def uniform(limit: float) -> Tensor:
        return (torch.rand(len(images), generator=draw) * 2 - 1).mul(limit)

    turn, size = uniform(math.radians(how.degrees)), 1 + uniform(how.scale)
    # Twice the shift: affine_grid counts an image from -1 to 1.
    across, down = uniform(2 * how.shift), uniform(2 * how.shift)
    cosine, sine = torch.cos(turn) / size, torch.sin(turn) / size
    affine = torch.stack(
        [torch.stack([cosine, -sine, across], 1), torch.stack([sine, cosine, down], 1)], 1
    ).to(images.device)
    grid = F.affine_grid(affine, list(images.shape), align_corners=False)
    # Zeros: black, like the background of a radiograph.
    moved = F.grid_sample(images, grid, padding_mode="zeros", align_corners=False)
    gain, lift = (
        one.reshape(-1, 1, 1, 1).to(images.device)
        for one in (1 + uniform(how.contrast), uniform(how.brightness))
    )
    middle = moved.mean((1, 2, 3), keepdim=True)
    return ((moved - middle) * gain + middle + lift).clamp(0, 1)
