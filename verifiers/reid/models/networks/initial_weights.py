"""Weights to start from: a file, or random ones. Nothing is fetched."""

from __future__ import annotations

from pathlib import Path

import torch
from medsanitize.errors import IntegrityError, UsageError
from torch import Tensor, nn

RANDOM = "random"
_CLASSIFIER = ("fc.", "classifier.", "head.")


def check_start(weights: str | None, recipe: str, network: str) -> None:
    """Raise UsageError if a recipe, unless it is the tiny one, was given no weights to start from."""
    if weights is None and recipe != "tiny":
        raise UsageError(
            f"The recipe starts from ImageNet weights of a {network}, and none were given",
            "Give --weights with a .safetensors file, or random",
        )


def start_from(backbone: nn.Module, weights: str) -> None:
    """Load a backbone's weights.

    Parameters
    ----------
    backbone
        The network without classifier; a classifier among the weights is left out.
    weights
        Path of a ``.safetensors`` file, or ``random``.

    Raises
    ------
    UsageError
        If there is no such file, or it is in a format that could run code.
    IntegrityError
        If it is damaged or holds another network.
    """
    if weights == RANDOM:
        return
    stored = _read(_local(weights))
    kept = {name: value for name, value in stored.items() if not name.startswith(_CLASSIFIER)}
    ours = backbone.state_dict()
    # Counters of batches play no part, and some files leave them out.
    for name in ours:
        if name.endswith("num_batches_tracked"):
            kept[name] = torch.zeros_like(ours[name])
    if set(kept) != set(ours) or any(kept[name].shape != ours[name].shape for name in ours):
        raise IntegrityError(
            "The weights to start from are those of another network",
            "Give the weights of the network that the recipe names, by torchvision's names of its layers",
        )
    backbone.load_state_dict(kept)


def _local(weights: str) -> Path:
    path = Path(weights)
    if path.suffix != ".safetensors":
        raise UsageError(
            "Weights are taken from .safetensors files alone: other formats can run code when they are read",
            "Convert them; of a model on a hub, download model.safetensors and give its path",
        )
    if not path.is_file():
        raise UsageError("The file of weights is not there", "Give the path of a .safetensors file")
    return path


def _read(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError):
        raise IntegrityError("The file of weights cannot be read", "Fetch it again") from None
