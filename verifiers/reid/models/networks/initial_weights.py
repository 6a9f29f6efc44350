"""Initial weights of a backbone: a local file, or random. Nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

import torch
from medsanitize.errors import IntegrityError, UsageError
from torch import Tensor, nn

RANDOM = "random"
_CLASSIFIER = ("fc.", "classifier.", "head.")


def check_start(weights: str | None, recipe: str, network: str) -> None:
    """Check that initial weights were given, which every recipe but ``tiny`` needs.

    Parameters
    ----------
    weights : str or None
        Initial weights as given by the user.
    recipe : str
        Name of the recipe.
    network : str
        Name of the network, for the message.

    Raises
    ------
    UsageError
        If they are missing.
    """
    if weights is None and recipe != "tiny":
        raise UsageError(
            f"The recipe starts from ImageNet weights of a {network}, but --weights is not set",
            "Pass --weights with a .safetensors file, or random",
        )


def start_from(backbone: nn.Module, weights: str) -> None:
    """Load the initial weights of a backbone.

    Parameters
    ----------
    backbone : nn.Module
        The network without classifier; a classifier in the file is ignored.
    weights : str
        Path of a ``.safetensors`` file, or ``random``.

    Raises
    ------
    UsageError
        If the file does not exist, or its format could execute code.
    IntegrityError
        If it is damaged or of another network.
    """
    if weights == RANDOM:
        return
    stored = _read(_local(weights))
    kept = {name: value for name, value in stored.items() if not name.startswith(_CLASSIFIER)}
    ours = backbone.state_dict()
    # Batch counters are not used, and some files omit them.
    for name in ours:
        if name.endswith("num_batches_tracked"):
            kept[name] = torch.zeros_like(ours[name])
    if set(kept) != set(ours) or any(kept[name].shape != ours[name].shape for name in ours):
        raise IntegrityError(
            "The initial weights are for another network",
            "Use weights of the recipe's network with torchvision's layer names",
        )
    backbone.load_state_dict(kept)


def _local(weights: str) -> Path:
    path = Path(weights)
    if path.suffix != ".safetensors":
        raise UsageError(
            "Initial weights must be in a .safetensors file: other formats can run code when loaded",
            "Convert them, or download the model's model.safetensors and pass its path",
        )
    if not path.is_file():
        raise UsageError("The weights file does not exist", "Pass the path of a .safetensors file")
    return path


def _read(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError):
        raise IntegrityError("The weights file cannot be read", "Fetch it again") from None
