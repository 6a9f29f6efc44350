"""Protocols of models, whatever network implements them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray, Modality
    from numpy.typing import NDArray


class Encoder(Protocol):
    """A model that embeds images."""

    @property
    def digest(self) -> str:
        """SHA-256 of the content of the model folder."""
        ...

    @property
    def modality(self) -> Modality:
        """Modality of the model; images of another one are refused."""
        ...

    @property
    def dimension(self) -> int:
        """Length of an embedding."""
        ...

    def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
        """Embed images, shape (len(pictures), dimension); equal images have equal embeddings."""
        ...


class Retrieval(Encoder, Protocol):
    """A retrieval model: the Euclidean distance of embeddings is small for images of one patient."""


class Classification(Encoder, Protocol):
    """A classification model: embeddings, near for images of similar class probabilities, and these."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        ...

    def probabilities(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Compute the probability of each class, shape (n, classes)."""
        ...


class Verification(Encoder, Protocol):
    """A verification model: embeddings are scored in pairs."""

    def score(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score in [0, 1] for each row of ``one`` with the same row of ``other``; 1 is the same patient.

        Parameters
        ----------
        one, other : array of float32, shape (n, dimension)
            Embeddings of the model.
        """
        ...

    def raw(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score each row in the order of `score`, unbounded; 0 is even odds.

        A score in [0, 1] saturates: most pairs of low resolution are within rounding of 1.
        """
        ...


@runtime_checkable
class RawMatching(Protocol):
    """A verification model that also tells how alike two images are before any normalization."""

    def likeness(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        """Raw match of each row of ``one`` with the same row of ``other``; higher is more similar."""
        ...


@runtime_checkable
class CopyVerification(Protocol):
    """A verification model that may have learned from altered copies of images."""

    @property
    def finds_altered(self) -> bool:
        """Whether it learned from noised and blurred copies, and needs no blurred images."""
        ...
