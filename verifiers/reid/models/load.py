"""Opening model folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.models.config import ModelConfig, ModelKind, read_config
from medsanitize.verifiers.reid.models.copy_matching import SIMILARITIES, CopyMatching
from medsanitize.verifiers.reid.models.model_folder import (
    CALIBRATION,
    CONFIG,
    GRAPH,
    TRAINING,
    WEIGHTS,
    ModelFiles,
    read_folder,
)
from medsanitize.verifiers.reid.models.onnx_model import (
    GraphClassification,
    GraphRetrieval,
    GraphVerification,
)
from medsanitize.verifiers.reid.models.onnx_session import open_session
from medsanitize.verifiers.reid.models.protocols import Classification, Retrieval, Verification
from medsanitize.verifiers.reid.models.region_matching import Matching
from medsanitize.verifiers.reid.models.scoring import BIAS, WEIGHT, Scoring

# Tensors of the linear layer that maps embeddings to classes.
CLASS_WEIGHT, CLASS_BIAS = "classes.weight", "classes.bias"

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def open_retrieval(folder: Path, *, threads: int = 1) -> Retrieval:
    """Open a retrieval model from its folder, verifying the digest of every file.

    Parameters
    ----------
    folder : Path
        Output of ``medsanitize train retrieval``.
    threads : int
        Threads of the ONNX session; 1 for a pipeline that runs a worker per core.

    Raises
    ------
    UsageError
        If the folder holds no model, or one of another kind.
    IntegrityError
        If a file was changed, is missing or was added, or cannot be understood.
    """
    files = read_folder(folder)
    config = config_of(files, ModelKind.RETRIEVAL)
    # The verified bytes, not the file, which may have changed since.
    session = open_session(files.content[GRAPH], threads)
    return GraphRetrieval(files.digest, config.modality, config.dimension, config.preprocessing, session)


def open_verification(folder: Path, *, threads: int = 1) -> Verification:
    """Open a verification model; parameters and errors as in `open_retrieval`."""
    files = read_folder(folder)
    config = config_of(files, ModelKind.VERIFICATION)
    return GraphVerification(
        files.digest,
        config.modality,
        config.dimension,
        config.preprocessing,
        open_session(files.content[GRAPH], threads),
        config.scoring,
        _score_weights(files.content[WEIGHTS], config),
        matching_of(config),
    )


def open_classification(folder: Path, *, threads: int = 1) -> Classification:
    """Open a classification model; parameters and errors as in `open_retrieval`."""
    files = read_folder(folder)
    config = config_of(files, ModelKind.CLASSIFICATION)
    weight, bias = class_weights(files.content[WEIGHTS], config)
    return GraphClassification(
        files.digest,
        config.modality,
        config.dimension,
        config.preprocessing,
        open_session(files.content[GRAPH], threads),
        config.classes,
        weight,
        bias,
    )


def class_weights(data: bytes, config: ModelConfig) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return weight and bias of the layer that maps embeddings to classes, with checked shapes."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    count = len(config.classes)
    try:
        weights = load(data)
        shapes = (weights[CLASS_WEIGHT].shape, weights[CLASS_BIAS].shape)
        if count >= 2 and shapes == ((count, config.dimension), (count,)):
            return weights[CLASS_WEIGHT], weights[CLASS_BIAS]
    except (SafetensorError, KeyError):
        pass
    raise IntegrityError("The model has no weights for its classes", "Fetch or train it again")


def matching_of(config: ModelConfig) -> Matching | CopyMatching | None:
    """Return the region or copy matching of a verification model; None if it scores pairs in another way.

    Raises
    ------
    IntegrityError
        If the network makes other embeddings than the matching needs.
    """
    names = {Scoring.MATCH: ("kept", "grid", "reach"), Scoring.COPY: ("kept", "fine", "grid")}.get(
        config.scoring
    )
    if names is None:
        return None
    try:
        # The cells of several groups are joined.
        facts = [int(sum(one) if isinstance(one := config.network[name], list) else one) for name in names]
    except (KeyError, TypeError, ValueError):
        facts = [0, 0, 0]
    kind = Matching if config.scoring is Scoring.MATCH else CopyMatching
    matching = kind(*facts)
    if min(facts) < 1 or matching.dimension != config.dimension:
        raise IntegrityError("The model's embeddings do not fit its matching", "Fetch or train it again")
    return matching


def _score_weights(data: bytes, config: ModelConfig) -> dict[str, NDArray[np.float32]]:
    """Weights of the score, with the size that its kind needs."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    lengths = {
        Scoring.SIGMOID_DIFFERENCE: (config.dimension, 1),
        Scoring.DISTANCE: (1, 1),
        Scoring.MATCH: (1, 1),
        Scoring.COPY: (SIMILARITIES, SIMILARITIES),
    }
    try:
        weights = load(data)
        if (weights[WEIGHT].size, weights[BIAS].size) == lengths.get(config.scoring):
            return {name: weights[name] for name in (WEIGHT, BIAS)}
    except (SafetensorError, KeyError):
        pass
    raise IntegrityError("The model has no weights for the score of a pair", "Fetch or train it again")


def stored_calibration(folder: Path) -> bytes | None:
    """Return the bytes of the model's calibration.json, with verified digest; None without one.

    Raises
    ------
    UsageError, IntegrityError
        As `open_retrieval`.
    """
    return read_folder(folder).content.get(CALIBRATION)


def config_of(files: ModelFiles, kind: ModelKind) -> ModelConfig:
    """Return the configuration of a model of this kind; a UsageError for another kind."""
    config = read_config(files.content[CONFIG])
    if config.kind is not kind:
        raise UsageError(
            f"The folder contains a {config.kind} model; a {kind} model is required",
            f"Pass a folder written by train {kind}",
        )
    return config


def trained_on(folder: Path) -> str:
    """Return the digest of the training images of a model; empty if its folder does not state it.

    Raises
    ------
    UsageError
        If the folder holds no model.
    IntegrityError
        If the folder was changed.
    """
    try:
        return str(json.loads(read_folder(folder).content.get(TRAINING, b"{}")).get("images", ""))
    except (ValueError, AttributeError):
        raise IntegrityError(
            "training.json of a model is damaged", "Fetch or train the model again"
        ) from None
