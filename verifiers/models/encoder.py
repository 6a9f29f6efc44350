"""The models that the rest of the room uses: ONNX graphs behind the protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medsanitize.verifiers.models.preprocess import Preprocessing
from medsanitize.verifiers.models.session import check_modality, embed

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.pictures.picture import Modality, Picture
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class GraphRetrieval:
    """Vectors whose Euclidean distance is small for images of one patient."""

    digest: str
    modality: Modality
    dimension: int
    preprocessing: Preprocessing
    session: Any

    def embed(self, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        """Vectors of pictures, ``(n, dimension)``; pictures of another modality are a UsageError."""
        check_modality(pictures, self.modality)
        return embed(self.session, pictures, self.preprocessing, self.dimension)


@dataclass(frozen=True, slots=True)
class GraphVerification:
    """Vectors scored in pairs: a weighted sum of ``|sigmoid(z1) - sigmoid(z2)|`` through a sigmoid.

    Attributes
    ----------
    weight, bias
        Of the last layer, ``(dimension,)`` and one number.
    """

    digest: str
    modality: Modality
    dimension: int
    preprocessing: Preprocessing
    session: Any
    weight: NDArray[np.float32]
    bias: float

    def embed(self, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        """Vectors of pictures, ``(n, dimension)``; pictures of another modality are a UsageError."""
        check_modality(pictures, self.modality)
        return embed(self.session, pictures, self.preprocessing, self.dimension)

    def score(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score in [0, 1] for each row of ``one`` with the same row of ``other``."""
        import numpy as np

        apart = np.abs(_sigmoid(one) - _sigmoid(other))
        return np.asarray(_sigmoid(apart @ self.weight + np.float32(self.bias)), np.float32)


def _sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / (1 + exp(-x)) without overflow."""
    import numpy as np

    return np.asarray(0.5 * (1 + np.tanh(0.5 * values)), np.float32)
