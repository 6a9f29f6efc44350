"""Models that run an ONNX graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medsanitize.verifiers.reid.models.copy_matching import CopyMatching
from medsanitize.verifiers.reid.models.onnx_session import check_modality, embed
from medsanitize.verifiers.reid.models.preprocess import Preprocessing
from medsanitize.verifiers.reid.models.region_matching import Matching
from medsanitize.verifiers.reid.models.scoring import Scoring, pair_scores, raw_scores

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray, Modality
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class GraphRetrieval:
    """Retrieval model: the Euclidean distance of embeddings is small for images of one patient."""

    digest: str
    modality: Modality
    dimension: int
    preprocessing: Preprocessing
    session: Any

    def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
        """Embed images, shape (n, dimension).

        Raises
        ------
        UsageError
            If an image is of another modality.
        """
        check_modality(pictures, self.modality)
        return embed(self.session, pictures, self.preprocessing, self.dimension)


@dataclass(frozen=True, slots=True)
class GraphVerification:
    """Verification model: embeddings are scored in pairs.

    Attributes
    ----------
    scoring, weights
        How pairs are scored, with weights by name.
    matching
        Layout of the embeddings for region or copy matching; None for other scores.
    """

    digest: str
    modality: Modality
    dimension: int
    preprocessing: Preprocessing
    session: Any
    scoring: Scoring
    weights: Mapping[str, NDArray[np.float32]]
    matching: Matching | CopyMatching | None = None

    @property
    def finds_altered(self) -> bool:
        """Whether it learned from altered copies of images."""
        return self.scoring is Scoring.COPY

    def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
        """Embed images, shape (n, dimension).

        Raises
        ------
        UsageError
            If an image is of another modality.
        """
        check_modality(pictures, self.modality)
        return embed(self.session, pictures, self.preprocessing, self.dimension)

    def score(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score in [0, 1] for each row of ``one`` with the same row of ``other``; 1 is the same patient."""
        return pair_scores(self.scoring, self.weights, one, other, self.matching)

    def raw(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score as `score` does, before the sigmoid: unbounded; 0 is a score of 0.5."""
        return raw_scores(self.scoring, self.weights, one, other, self.matching)

    def likeness(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Raw match of the same rows, without cohort and sigmoid; higher is more similar."""
        if isinstance(self.matching, Matching):
            return self.matching.likeness(one, other)
        return self.raw(one, other)


@dataclass(frozen=True, slots=True)
class GraphClassification:
    """Classification model: embeddings, and the linear layer that maps them to classes.

    Attributes
    ----------
    classes
        Names of the classes.
    weight, bias
        Shapes (classes, dimension) and (classes,).
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
        """Embed images, shape (n, dimension).

        Raises
        ------
        UsageError
            If an image is of another modality.
        """
        check_modality(pictures, self.modality)
        return embed(self.session, pictures, self.preprocessing, self.dimension)

    def probabilities(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Compute the probability of each class, shape (n, classes)."""
        import numpy as np

        logits = vectors @ self.weight.T + self.bias
        # The largest is subtracted, so that the exponential cannot overflow.
        shares = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(shares / shares.sum(1, keepdims=True), np.float32)
