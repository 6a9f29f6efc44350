"""What the verifiers see of images: preprocessed images of one size on every split, and their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.diffusion.preprocess import preprocess_image, to_image_array

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray
    from medsanitize.verifiers.reid.models.protocols import Encoder, Retrieval, Verification
    from medsanitize.verifiers.reid.training.dataset import Cancellation, TrainingProgress
    from numpy.typing import NDArray

AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True, repr=False)
class PairedEmbeddings:
    """Vectors of images: ``first`` of the retrieval model, ``second`` of the verification model."""

    first: NDArray[np.float32]
    second: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.first)

    def part(self, rows: NDArray[np.int64]) -> PairedEmbeddings:
        """Those of some rows."""
        return PairedEmbeddings(self.first[rows], self.second[rows])


@dataclass(frozen=True, slots=True, repr=False)
class Verifiers:
    """The models that look, and who hears how far they are."""

    retrieval: Retrieval
    verification: Verification
    hears: TrainingProgress
    stops: Cancellation

    def see(self, squares: NDArray[np.uint8], stage: str) -> PairedEmbeddings:
        """Look at preprocessed images, ``(n, size, size)``."""
        self.hears.stage(stage, len(squares))
        first, second = [], []
        for start in range(0, len(squares), AT_ONCE):
            self.stops.check()
            pictures = [to_image_array(one) for one in squares[start : start + AT_ONCE]]
            first.append(self.retrieval.embed(pictures))
            second.append(self.verification.embed(pictures))
            self.hears.advance(len(pictures))
        return PairedEmbeddings(_joined(first, self.retrieval), _joined(second, self.verification))


def _joined(parts: Sequence[NDArray[np.float32]], model: Encoder) -> NDArray[np.float32]:
    import numpy as np

    empty = np.empty((0, model.dimension), np.float32)
    return np.ascontiguousarray(np.concatenate([empty, *parts]), np.float32)


def preprocess_images(
    pictures: Sequence[ImageArray],
    size: int,
    stage: str,
    hears: TrainingProgress,
    stops: Cancellation,
    rows: NDArray[np.int64] | None = None,
) -> NDArray[np.uint8]:
    """Pictures, or those of some rows, as the generator's preprocessed images, ``(n, size, size)``,
    one at a time.
    """
    import numpy as np

    chosen = range(len(pictures)) if rows is None else rows.tolist()
    hears.stage(stage, len(chosen))
    squares = np.empty((len(chosen), size, size), np.uint8)
    for place, row in enumerate(chosen):
        stops.check()
        squares[place] = preprocess_image(pictures[row], size)
        hears.advance(1)
    return squares
