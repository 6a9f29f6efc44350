"""Weights to start from: a file, or a name at a model hub."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch
from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from torch import Tensor, nn

RANDOM = "random"
_CLASSIFIER = ("fc.", "classifier.", "head.")


def check_start(weights: str | None, recipe: str, network: str) -> None:
    """Raise UsageError if a recipe, unless it is the tiny one, was given no weights to start from."""
    if weights is None and recipe != "tiny":
        raise UsageError(
            f"The recipe starts from ImageNet weights of a {network}, and none were given",
            "Give --weights with a .safetensors file, a hub's owner/name, or random",
        )


def start_from(backbone: nn.Module, weights: str) -> None:
    """Load a backbone's weights.

    Parameters
    ----------
    backbone
        The network without classifier; a classifier among the weights is left out.
    weights
        Path of a ``.safetensors`` file; or ``owner/name`` of a hub, whose ``model.safetensors`` is taken
        (needs ``huggingface_hub``, and no network when it lies in its cache); or ``random``.

    Raises
    ------
    UsageError
        If there is no such file, or it is in a format that could run code.
    IntegrityError
        If it is damaged or holds another network.
    EnvironmentFailure
        If the hub cannot be asked.
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
    """The file, fetched first when a hub's name was given."""
    path = Path(weights)
    if path.suffix == ".safetensors":
        if path.is_file():
            return path
        raise UsageError("The file of weights is not there", "Give the path of a .safetensors file")
    if path.suffix or weights.count("/") != 1 or path.exists():
        raise UsageError(
            "Weights are taken from .safetensors files alone: other formats can run code when they are read",
            "Convert them, or give owner/name of a model hub",
        )
    if find_spec("huggingface_hub") is None:
        raise EnvironmentFailure(
            "Weights by a hub's name need huggingface_hub, which is not installed",
            "Install it, or download model.safetensors yourself and give its path",
        )
    return _from_hub(weights)


def _from_hub(name: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(name, "model.safetensors"))
    except (OSError, ValueError):
        raise EnvironmentFailure(
            "The hub could not be asked for the weights, and they are not in its cache",
            "Download model.safetensors on a machine with a network and give its path",
        ) from None


def _read(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError):
        raise IntegrityError("The file of weights cannot be read", "Fetch it again") from None
