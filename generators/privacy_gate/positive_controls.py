"""Positive controls: altered copies of real images that the gate must recognize, and their scores.

A threshold that matches real images of one patient may miss a copy that passed through an autoencoder or was
disguised. Calibration images are therefore altered by the generator's own pipeline, by common image
operations and by joining them with images of others, and the threshold must match these copies too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from medsanitize.errors import IntegrityError
from medsanitize.generators.privacy_gate.candidate_search import retrieval_distances, score_pairs
from medsanitize.generators.privacy_gate.gate_embeddings import AT_ONCE, PairedEmbeddings, Verifiers
from medsanitize.generators.privacy_gate.parameters import FLOOR
from medsanitize.verifiers.reid.alterations import composites, geometry
from medsanitize.verifiers.reid.alterations.kinds import ALTERED, JOINED

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.progress import Cancellation, Progress
    from numpy.typing import NDArray

RECONSTRUCTED: Final = "reconstructed"
VARIED: Final = "varied"


def control_kinds() -> tuple[str, ...]:
    """Names of all kinds of positive controls, in the order in which they are made."""
    return (RECONSTRUCTED, VARIED, *ALTERED, *JOINED)


def copies(
    squares: NDArray[np.uint8],
    classes: NDArray[np.int64],
    generator: Generator,
    strength: float,
    progress: Progress,
    cancellation: Cancellation,
    patients: NDArray[np.int64] | None = None,
) -> Mapping[str, NDArray[np.uint8]]:
    """Make all positive controls, by name, each ``(n, size, size)``.

    Parameters
    ----------
    squares
        Preprocessed calibration images, ``(n, size, size)``.
    classes
        Class of each image, ``(n,)``.
    generator
        Makes the first two: autoencoder round trip and image-to-image.
    strength
        Of image-to-image, between 0 and 1.
    progress, cancellation
        Progress and cancellation.
    patients
        Patient of each image, ``(n,)``, since images are joined with those of others. Without it, every image
        is a patient.
    """
    import numpy as np

    progress.stage("make controls", (2 + len(ALTERED) + len(JOINED)) * len(squares))
    made = {
        RECONSTRUCTED: generate_in_batches(
            squares, lambda part: generator.reconstruct(squares[part]), progress, cancellation
        ),
        VARIED: image_to_image(squares, classes, generator, strength, progress, cancellation),
    }
    others = squares[composites.others_of(np.arange(len(squares)) if patients is None else patients)]
    # Simple operations, but of thousands of images: each kind can be cancelled.
    for name, alter in ALTERED.items():
        cancellation.check()
        made[name] = alter(squares)
        progress.advance(len(squares))
    for name, join in JOINED.items():
        cancellation.check()
        made[name] = join(squares, others)
        progress.advance(len(squares))
    return made


def image_to_image(
    squares: NDArray[np.uint8],
    classes: NDArray[np.int64],
    generator: Generator,
    strength: float,
    progress: Progress,
    cancellation: Cancellation,
) -> NDArray[np.uint8]:
    """Noise images to a strength and let the generator restore them, with seeds that no sample uses."""

    def make(part: slice) -> NDArray[np.uint8]:
        seeds = [geometry.SEEDS + number for number in range(part.start, part.stop)]
        return generator.vary(squares[part], classes[part].tolist(), strength, seeds)

    return generate_in_batches(squares, make, progress, cancellation)


def generate_in_batches(
    squares: NDArray[np.uint8],
    make: Callable[[slice], NDArray[np.uint8]],
    progress: Progress,
    cancellation: Cancellation,
) -> NDArray[np.uint8]:
    """Apply a generator to images batch by batch.

    Raises
    ------
    IntegrityError
        If the result differs from the input in number, size or type of the images.
    """
    import numpy as np

    found = np.empty_like(squares)
    for part in _parts(len(squares)):
        cancellation.check()
        made = np.asarray(make(part))
        if made.shape != squares[part].shape or made.dtype != np.uint8:
            raise IntegrityError(
                "The generator returned images of an unexpected size or type", "Train it again"
            )
        found[part] = made
        progress.advance(part.stop - part.start)
    return found


def control_scores(
    copied: PairedEmbeddings,
    originals: PairedEmbeddings,
    patients: NDArray[np.int64],
    within: NDArray[np.float64],
    verifiers: Verifiers,
) -> NDArray[np.float64]:
    """Lowest score of any copy of each patient with its original, ``(patients,)``, sorted by patient number.

    Parameters
    ----------
    copied, originals
        Embeddings of the copies and of their originals, row by row.
    patients
        Patient of each image, ``(n,)``.
    within
        Search radius of each copy, ``(n,)``. Pairs beyond it would not be compared and get ``FLOOR``.
    verifiers
        The models.
    """
    import numpy as np

    rows = np.arange(len(originals), dtype=np.int64)
    verifiers.progress.stage("score controls", len(rows))
    scores = score_pairs(copied, rows, originals, rows, verifiers)
    found = retrieval_distances(copied, rows, originals, rows) <= within
    return lowest(np.where(found, scores, FLOOR), patients)


def lowest(scores: NDArray[np.float64], patients: NDArray[np.int64]) -> NDArray[np.float64]:
    """Lowest score of each patient, sorted by patient number."""
    import numpy as np

    # Sorted by patient, then score: the first row of each patient has its lowest score.
    order = np.lexsort((scores, patients))
    first = np.r_[True, np.diff(patients[order]) != 0] if len(order) else np.zeros(0, bool)
    return scores[order][first]


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, min(start + AT_ONCE, count)) for start in range(0, count, AT_ONCE))
