"""What the rest of the room asks of a model, whatever network is behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray, Modality
    from numpy.typing import NDArray


class Encoder(Protocol):
    """Turns pictures into vectors."""

    @property
    def digest(self) -> str:
        """SHA-256 of the model folder's content: which model it was."""
        ...

    @property
    def modality(self) -> Modality:
        """What it was made for; pictures of another modality are refused."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
        """Vectors, ``(len(pictures), dimension)``; the same picture always gives the same one."""
        ...


class Retrieval(Encoder, Protocol):
    """Vectors whose Euclidean distance is small for images of one patient."""


class Classification(Encoder, Protocol):
    """Vectors that are near for images that a classifier takes for alike, and what it takes them for."""

    @property
    def classes(self) -> tuple[str, ...]:
        """What the classes are called."""
        ...

    def probabilities(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of each class, ``(n, classes)``; rows sum to 1."""
        ...


class Verification(Encoder, Protocol):
    """Vectors that are scored in pairs."""

    def score(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score in [0, 1] for each row of ``one`` with the same row of ``other``; 1 is the same patient."""
        ...
