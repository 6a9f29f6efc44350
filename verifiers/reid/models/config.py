"""What a model is, as plain data: config.json."""

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
    """What a model answers."""

    RETRIEVAL = "retrieval"
    VERIFICATION = "verification"
    CLASSIFICATION = "classification"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What a model is.

    Attributes
    ----------
    kind, modality
        What it answers and for which pictures.
    network
        How ``networks.build`` makes the network that the weights fit: its name and its arguments.
    dimension
        Length of a vector.
    preprocessing
        What is done to a picture first.
    scoring
        How a pair is scored.
    deviation
        Largest difference seen between the ONNX graph and torch when the model was saved.
    classes
        Of a classification model, what its classes are called, in the order of its answers.
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
        """Canonical JSON; what a model does not have is not named."""
        facts = {"schema": SCHEMA, **asdict(self)}
        if not self.classes:
            del facts["classes"]
        return (json.dumps(facts, indent=1, sort_keys=True) + "\n").encode()


def read_config(data: bytes) -> ModelConfig:
    """From the bytes of config.json.

    Raises
    ------
    IntegrityError
        If they are of another schema version, or not a configuration.
    """
    try:
        facts = json.loads(data)
        if facts["schema"] != SCHEMA:
            raise IntegrityError(
                f"The model folder is not of schema version {SCHEMA}", "Use the version that wrote it"
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
            "config.json of the model cannot be understood", "Train or fetch the model again"
        ) from None
