"""The models that the rest of the room uses: ONNX graphs behind the protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medsanitize.verifiers.reid.models.onnx_session import check_modality, embed
from medsanitize.verifiers.reid.models.preprocess import Preprocessing
from medsanitize.verifiers.reid.models.region_matching import Matching
from medsanitize.verifiers.reid.models.scoring import Scoring, pair_scores

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray, Modality
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class GraphRetrieval:
    """Vectors whose Euclidean distance is small for images of one patient."""

    digest: str
    modality: Modality
    dimension: int
    preprocessing: Preprocessing
    session: Any

    def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
        """Vectors of pictures, ``(n, dimension)``; pictures of another modality are a UsageError."""
        check_modality(pictures, self.modality)
        return embed(self.session, pictures, self.preprocessing, self.dimension)


@dataclass(frozen=True, slots=True)
class GraphVerification:
    """Vectors that are scored in pairs.

    Attributes
    ----------
    scoring, weights
        How, and with which weights by name.
    matching
        What the vectors hold where they are matched place by place.
    """

    digest: str
    modality: Modality
    dimension: int
    preprocessing: Preprocessing
    session: Any
    scoring: Scoring
    weights: Mapping[str, NDArray[np.float32]]
    matching: Matching | None = None

    def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
        """Vectors of pictures, ``(n, dimension)``; pictures of another modality are a UsageError."""
        check_modality(pictures, self.modality)
        return embed(self.session, pictures, self.preprocessing, self.dimension)

    def score(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score in [0, 1] for each row of ``one`` with the same row of ``other``."""
        return pair_scores(self.scoring, self.weights, one, other, self.matching)


@dataclass(frozen=True, slots=True)
class GraphClassification:
    """Vectors, and the linear layer that makes classes of them.

    Attributes
    ----------
    classes
        What they are called.
    weight, bias
        ``(classes, dimension)`` and ``(classes,)``.
    """

    digest: str
    modality: Modality
    dimension: int
    preprocessing: Preprocessing
    session: Any
    classes: tuple[str, ...]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
        """Vectors of pictures, ``(n, dimension)``; pictures of another modality are a UsageError."""
        check_modality(pictures, self.modality)
        return embed(self.session, pictures, self.preprocessing, self.dimension)

    def probabilities(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of each class, ``(n, classes)``; rows sum to 1."""
        import numpy as np

        logits = vectors @ self.weight.T + self.bias
        shares = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(shares / shares.sum(1, keepdims=True), np.float32)
