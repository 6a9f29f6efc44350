"""Preprocess images of all splits alike and embed them with both models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.diffusion.preprocess import preprocess_image, to_image_array
from medsanitize.verifiers.reid.alterations.intensity import gaussian_blur
from medsanitize.verifiers.reid.models.protocols import CopyVerification

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.progress import Cancellation, Progress
    from medsanitize.verifiers.reid.images.image import ImageArray
    from medsanitize.verifiers.reid.models.protocols import Encoder, Retrieval, Verification
    from numpy.typing import NDArray

AT_ONCE: Final = 64
# Standard deviation of the blur as a share of the side: 1.5 pixels of 128.
SOFT: Final = 1.5 / 128


@dataclass(frozen=True, slots=True, repr=False)
class PairedEmbeddings:
    """Embeddings of images.

    Attributes
    ----------
    first
        By the retrieval model.
    second, soft
        By the verification model: of the images as they are, and blurred. Noise and lost detail hide a copy
        from an image as it is, but hardly change a blurred one. None if the model learned from noised and
        blurred copies: blurred, strangers are more alike, and it finds no more copies.
    """

    first: NDArray[np.float32]
    second: NDArray[np.float32]
    soft: NDArray[np.float32] | None

    def __len__(self) -> int:
        return len(self.first)

    def part(self, rows: NDArray[np.int64]) -> PairedEmbeddings:
        """Select rows."""
        soft = None if self.soft is None else self.soft[rows]
        return PairedEmbeddings(self.first[rows], self.second[rows], soft)


@dataclass(frozen=True, slots=True, repr=False)
class Verifiers:
    """The retrieval and verification models, with progress and cancellation."""

    retrieval: Retrieval
    verification: Verification
    progress: Progress
    cancellation: Cancellation

    def see(self, squares: NDArray[np.uint8], stage: str) -> PairedEmbeddings:
        """Embed preprocessed images, ``(n, size, size)``, with both models."""
        self.progress.stage(stage, len(squares))
        first, second, soft = [], [], []
        blurs = not (isinstance(model := self.verification, CopyVerification) and model.finds_altered)
        for start in range(0, len(squares), AT_ONCE):
            self.cancellation.check()
            part = squares[start : start + AT_ONCE]
            pictures = [to_image_array(one) for one in part]
            first.append(self.retrieval.embed(pictures))
            second.append(self.verification.embed(pictures))
            if blurs:
                blurred = gaussian_blur(part, SOFT * part.shape[-1])
                soft.append(self.verification.embed([to_image_array(one) for one in blurred]))
            self.progress.advance(len(pictures))
        return PairedEmbeddings(
            _joined(first, self.retrieval),
            _joined(second, self.verification),
            _joined(soft, self.verification) if blurs else None,
        )


def joined(one: PairedEmbeddings, other: PairedEmbeddings) -> PairedEmbeddings:
    """Return the embeddings of two splits as one."""
    import numpy as np

    soft = None if one.soft is None or other.soft is None else np.concatenate([one.soft, other.soft])
    return PairedEmbeddings(
        np.concatenate([one.first, other.first]), np.concatenate([one.second, other.second]), soft
    )


def _joined(parts: Sequence[NDArray[np.float32]], model: Encoder) -> NDArray[np.float32]:
    import numpy as np

    # concatenate() rejects an empty list: a split may have no images.
    empty = np.empty((0, model.dimension), np.float32)
    return np.ascontiguousarray(np.concatenate([empty, *parts]), np.float32)


def preprocess_images(
    pictures: Sequence[ImageArray],
    size: int,
    stage: str,
    progress: Progress,
    cancellation: Cancellation,
    rows: NDArray[np.int64] | None = None,
) -> NDArray[np.uint8]:
    """Preprocess pictures, or the given rows of them, to ``(n, size, size)``.

    Pictures are read one at a time, so that only the preprocessed images are in memory.
    """
    import numpy as np

    chosen = range(len(pictures)) if rows is None else rows.tolist()
    progress.stage(stage, len(chosen))
    # Allocated once: a list of images would need twice the memory when it is stacked.
    squares = np.empty((len(chosen), size, size), np.uint8)
    for place, row in enumerate(chosen):
        cancellation.check()
        squares[place] = preprocess_image(pictures[row], size)
        progress.advance(1)
    return squares
