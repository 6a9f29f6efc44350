"""Writing a trained network as a model folder, after comparing its ONNX graph with torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.errors import MedsanitizeError
from medsanitize.verifiers.reid.models.config import ModelConfig
from medsanitize.verifiers.reid.models.model_folder import CONFIG, GRAPH, TRAINING, WEIGHTS, write_folder
from medsanitize.verifiers.reid.models.onnx_session import BATCH, open_session

if TYPE_CHECKING:
    from torch import Tensor

# Relative to the length of an embedding: several times what float32 sums in another order differ by.
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """A network with its weights and its verified ONNX graph.

    Attributes
    ----------
    config
        Configuration, with the measured ``deviation``.
    weights
        State of the network by name.
    graph
        ONNX graph.
    """

    config: ModelConfig
    weights: Mapping[str, Tensor]
    graph: bytes


@dataclass(frozen=True, slots=True)
class ModelDocuments:
    """Provenance and documents of a model.

    Attributes
    ----------
    training
        Provenance as JSON types: recipe, counts and digests; no file name and no patient.
    documents
        Further files of the folder by name: calibration, card, log, curves.
    """

    training: Mapping[str, Any]
    documents: Mapping[str, bytes] = field(default_factory=dict)


def export(config: ModelConfig, weights: Mapping[str, Tensor]) -> ExportedModel:
    """Export a network to ONNX and compare it with torch on random images.

    Parameters
    ----------
    config : ModelConfig
        Configuration of the model.
    weights : mapping of str to Tensor
        State of the network by name.

    Raises
    ------
    MedsanitizeError
        If ONNX Runtime and torch differ by more than the tolerance.
    """
    import numpy as np
    import torch
    from medsanitize.verifiers.reid.models.networks.build import build_network
    from medsanitize.verifiers.reid.models.onnx_export import to_onnx

    network = build_network(config.network).eval()
    network.load_state_dict({name: tensor.detach().cpu() for name, tensor in weights.items()})
    size = config.preprocessing.size
    graph = to_onnx(network, size)
    images = torch.randn(BATCH, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = network(images).numpy()
    (found,) = open_session(graph, 1).run(["vectors"], {"images": images.numpy()})
    lengths = np.maximum(np.linalg.norm(expected, axis=1), 1e-12)
    deviation = float((np.linalg.norm(found - expected, axis=1) / lengths).max())
    # Negated, so that NaN is refused as well.
    if not deviation <= TOLERANCE:
        raise MedsanitizeError(
            f"Embeddings by ONNX Runtime and by torch differ by {deviation:.1e} of their length",
            "Report this as a bug; the model was not written",
        )
    return ExportedModel(replace(config, deviation=deviation), weights, graph)


def save_model(
    folder: Path, exported: ExportedModel, score: Mapping[str, Tensor], papers: ModelDocuments
) -> str:
    """Write a model folder and return the digest of the model.

    Parameters
    ----------
    folder : Path
        The model folder.
    exported : ExportedModel
        The verified network.
    score : mapping of str to Tensor
        Weights of the score of a pair by name; empty for a retrieval model.
    papers : ModelDocuments
        Provenance and documents.

    Raises
    ------
    UsageError
        If the folder already holds a model.
    """
    from safetensors.torch import save

    weights = {**exported.weights, **score}
    content = {
        CONFIG: exported.config.to_bytes(),
        GRAPH: exported.graph,
        WEIGHTS: save({name: weights[name].detach().cpu().contiguous() for name in sorted(weights)}),
        TRAINING: (json.dumps(papers.training, indent=1, sort_keys=True) + "\n").encode(),
        **papers.documents,
    }
    return write_folder(folder, content)
