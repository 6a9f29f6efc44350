"""What a recipe hands back: everything a model folder needs but its papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from medsanitize.verifiers.models.preprocess import Preprocessing
from medsanitize.verifiers.models.scoring import Scoring
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Learned:
    """A trained network.

    Attributes
    ----------
    network
        Facts from which ``networks.build.build_network`` makes it.
    weights
        Its state by name.
    dimension
        Length of its vectors.
    preprocessing
        What is done to a picture first.
    scoring
        How a pair is scored; ``Scoring.NONE`` for retrieval.
    score
        Weights of that score by name.
    log
        One line an epoch: ``epoch``, ``loss`` and measures on the validation part by name.
    """

    network: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    dimension: int
    preprocessing: Preprocessing
    scoring: Scoring = Scoring.NONE
    score: Mapping[str, Tensor] = field(default_factory=dict)
    log: tuple[Mapping[str, float], ...] = ()
