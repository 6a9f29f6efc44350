"""What a classifier of recipe ``frozen`` adds to the packaged features: a learned map and classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.config import ModelConfig, ModelKind
from medsanitize.verifiers.reid.models.load import class_weights, config_of
from medsanitize.verifiers.reid.models.model_folder import WEIGHTS, read_folder
from medsanitize.verifiers.reid.models.pretrained import default_config, packaged_digest, packaged_weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAP, _SHIFT = "projection.weight", "projection.bias"
_PREFIX: Final = "features."


@dataclass(frozen=True, slots=True, repr=False)
class PackagedHead:
    """The learned part of a classifier on packaged features.

    The embedding is ``features @ map.T + shift``, divided by its length; classes are a linear layer of it.

    Attributes
    ----------
    digest
        Digest of the model.
    modality
        Kind of its images.
    features
        Digest of the packaged model that computes the features.
    classes
        Names of the classes.
    map, shift
        Shapes (dimension, features) and (dimension,).
    weight, bias
        Shapes (classes, dimension) and (classes,).
    """

    digest: str
    modality: Modality
    features: str
    classes: tuple[str, ...]
    map: NDArray[np.float32]
    shift: NDArray[np.float32]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]


def open_packaged_head(folder: Path) -> PackagedHead:
    """Open the learned part of a classifier, verifying the digest of every file.

    Raises
    ------
    UsageError
        The folder holds no classifier, or one whose features are not the packaged ones.
    IntegrityError
        A file was changed, is missing or was added, or cannot be understood.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    files = read_folder(folder)
    config = config_of(files, ModelKind.CLASSIFICATION)
    weight, bias = class_weights(files.content[WEIGHTS], config)
    try:
        weights = load(files.content[WEIGHTS])
    except SafetensorError:
        raise IntegrityError("The weights of the model cannot be read", "Fetch or train it again") from None
    if not _is_packaged(config, weights):
        raise UsageError(
            "The features of this classifier are not the packaged ones, so that no other party has them",
            "Name a classifier of train classifier --recipe frozen",
        )
    lengths = config.dimension, default_config(config.modality).dimension
    if weights[_MAP].shape != lengths or weights[_SHIFT].shape != lengths[:1]:
        raise IntegrityError("The map of the model has another size than it states", "Train it again")
    return PackagedHead(
        files.digest,
        config.modality,
        packaged_digest(config.modality),
        config.classes,
        weights[_MAP],
        weights[_SHIFT],
        weight,
        bias,
    )


def _is_packaged(config: ModelConfig, weights: dict[str, Any]) -> bool:
    """Whether preprocessing, network and weights of the features are those of the packaged model."""
    import numpy as np

    packaged = default_config(config.modality)
    wanted = {**packaged.network, "name": "lite0-projected", "dimension": config.dimension}
    if config.preprocessing != packaged.preprocessing or config.network != wanted:
        return False
    expected = {f"{_PREFIX}{name}": value for name, value in packaged_weights(config.modality).items()}
    found = {name for name in weights if name.startswith(_PREFIX)}
    return found == set(expected) and all(
        np.array_equal(weights[name], value.numpy()) for name, value in expected.items()
    )
