"""A decoder of embeddings into images, trained on images of other people.

After the appendix of Federated GestaltMatcher (Ünal et al.): a linear layer to maps of 7 x 7 and transposed
convolutions, here three, to 56 x 56 pixels. The network learns what an image differs by from the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

SIZE = 56
# Principal directions of the attacker's embeddings that the network reads.
_DIRECTIONS = 256
_FIRST, _MAPS = 7, (256, 64, 32, 16)
_BATCH, _RATE = 16, 1e-3


@dataclass(frozen=True, slots=True, repr=False)
class Decoder:
    """A trained decoder.

    Attributes
    ----------
    mean, directions
        Mean of the attacker's embeddings, and their principal directions by their deviations.
    network
        Maps coordinates in these directions to what an image differs by from ``image``.
    image
        Mean of the attacker's images.
    """

    mean: NDArray[np.float64]
    directions: NDArray[np.float64]
    network: nn.Module
    image: NDArray[np.float32]

    def decode(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Reconstruct images, ``(n, 56, 56)`` in [0, 1], from embeddings."""
        with torch.no_grad():
            made = self.network(_coordinates(vectors, self.mean, self.directions))[:, 0].numpy()
        return np.asarray(np.clip(self.image + made, 0, 1), np.float32)


def train_decoder(
    vectors: NDArray[np.float32],
    squares: NDArray[np.float32],
    epochs: int,
    seed: int,
    done: Callable[[int], None],
) -> Decoder:
    """Train a decoder.

    Parameters
    ----------
    vectors : array of float32, shape (n, dimension)
        Embeddings of the attacker's images.
    squares : array of float32, shape (n, 56, 56)
        These images, in [0, 1].
    epochs : int
        How often each image is seen.
    seed : int
        Seed of weights and order.
    done : callable
        Called with 1 after each epoch; may raise to cancel.
    """
    mean = vectors.mean(axis=0, dtype=np.float64)
    _, deviations, axes = np.linalg.svd(vectors - mean, full_matrices=False)
    kept = min(_DIRECTIONS, int((deviations > 1e-6 * deviations[0]).sum()))
    # Scaled as a whole: directions of small variance are mostly noise, and stay small.
    directions = axes[:kept] * (np.sqrt(len(vectors)) / deviations[0])
    torch.manual_seed(seed)
    network = _network(kept)
    image = squares.mean(axis=0)
    inputs = _coordinates(vectors, mean, directions)
    wanted = torch.from_numpy(squares - image)[:, None]
    optimizer = torch.optim.Adam(network.parameters(), lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    draw = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(inputs), generator=draw), _BATCH):
            loss = F.l1_loss(network(inputs[rows]), wanted[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        schedule.step()
        done(1)
    return Decoder(mean, directions, network.eval(), image)


def _network(inputs: int) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Linear(inputs, _MAPS[0] * _FIRST**2),
        nn.Unflatten(1, (_MAPS[0], _FIRST, _FIRST)),
        nn.GroupNorm(8, _MAPS[0]),
        nn.SiLU(),
    ]
    for before, after in pairwise(_MAPS):
        layers += [nn.ConvTranspose2d(before, after, 4, 2, 1), nn.GroupNorm(8, after), nn.SiLU()]
    return nn.Sequential(*layers, nn.Conv2d(_MAPS[-1], 1, 3, padding=1))


def _coordinates(
    vectors: NDArray[np.float32], mean: NDArray[np.float64], directions: NDArray[np.float64]
) -> Tensor:
    return torch.from_numpy(np.asarray((vectors - mean) @ directions.T, np.float32))
