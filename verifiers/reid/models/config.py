"""Model configuration: config.json of a model folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from medsanitize.errors import IntegrityError
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.preprocess import Preprocessing
from medsanitize.verifiers.reid.models.scoring import Scoring

SCHEMA = 1


class ModelKind(StrEnum):
    """Task of a model."""

    RETRIEVAL = "retrieval"
    VERIFICATION = "verification"
    CLASSIFICATION = "classification"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Configuration of a model.

    Attributes
    ----------
    kind, modality
        Task of the model, and modality of its images.
    network
        Name and arguments for `medsanitize.verifiers.reid.models.networks.build.build_network`.
    dimension
        Length of an embedding.
    preprocessing
        Preprocessing of the images.
    scoring
        How two embeddings are scored.
    deviation
        Largest relative difference between the ONNX graph and torch when the model was saved.
    classes
        Class names of a classification model, in the order of its outputs.
    """

    kind: ModelKind
    modality: Modality
    network: dict[str, Any]
    dimension: int
    preprocessing: Preprocessing
    scoring: Scoring = Scoring.NONE
    deviation: float = 0.0
    classes: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Serialize as canonical JSON, without classes if there are none."""
        facts = {"schema": SCHEMA, **asdict(self)}
        if not self.classes:
            del facts["classes"]
        return (json.dumps(facts, indent=1, sort_keys=True) + "\n").encode()


def read_config(data: bytes) -> ModelConfig:
    """Parse the bytes of config.json.

    Raises
    ------
    IntegrityError
        If they have another schema version, or are no configuration.
    """
    try:
        facts = json.loads(data)
        if facts["schema"] != SCHEMA:
            raise IntegrityError(
                f"The model folder does not have schema version {SCHEMA}",
                "Use the version of medsanitize that wrote it",
            )
        return ModelConfig(
            kind=ModelKind(facts["kind"]),
            modality=Modality(facts["modality"]),
            network=dict(facts["network"]),
            dimension=int(facts["dimension"]),
            preprocessing=Preprocessing.from_json(facts["preprocessing"]),
            scoring=Scoring(facts["scoring"]),
            deviation=float(facts["deviation"]),
            classes=tuple(str(name) for name in facts.get("classes", ())),
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        raise IntegrityError(
            "config.json of the model is invalid", "Train or fetch the model again"
        ) from None
