"""Positive controls: altered copies of real images that the gate must recognize, and their scores.

A threshold that matches real images of one patient may miss a copy that passed through an autoencoder.
Calibration images are therefore altered by the generator's own pipeline and by common image operations, and
the threshold must match these copies too.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from medsanitize.errors import IntegrityError
from medsanitize.generators.privacy_gate.candidate_search import retrieval_distances, score_pairs
from medsanitize.generators.privacy_gate.gate_embeddings import AT_ONCE, PairedEmbeddings, Verifiers
from medsanitize.generators.privacy_gate.parameters import FLOOR

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.progress import Cancellation, Progress
    from numpy.typing import NDArray

RECONSTRUCTED: Final = "reconstructed"
VARIED: Final = "varied"
# The largest rotation in degrees; shifts, scales and contrasts are shares. As in training augmentation.
TURN: Final = 4.0
SHIFT: Final = 0.04
SCALE: Final = 0.06
CONTRAST: Final = 0.1
_QUALITY: Final = 40
# Standard deviation in pixels. Removes the finest detail only: the autoencoder is a control of its own.
_BLUR: Final = 1.0
# Outside the range of usual seeds, so that no control equals a generated image.
_SEEDS: Final = 1 << 61


def copies(
    squares: NDArray[np.uint8],
    classes: NDArray[np.int64],
    generator: Generator,
    strength: float,
    progress: Progress,
    cancellation: Cancellation,
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
    """
    progress.stage("make controls", 2 * len(squares))
    return {
        RECONSTRUCTED: generate_in_batches(
            squares, lambda part: generator.reconstruct(squares[part]), progress, cancellation
        ),
        VARIED: image_to_image(squares, classes, generator, strength, progress, cancellation),
        "blurred": gaussian_blur(squares, _BLUR),
        "moved": transform_geometry(squares),
        "re-encoded": jpeg_round_trip(squares, _QUALITY),
    }


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
        seeds = [_SEEDS + number for number in range(part.start, part.stop)]
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


def gaussian_blur(squares: NDArray[np.uint8], deviation: float) -> NDArray[np.uint8]:
    """Blur images with a Gaussian; ``deviation`` in pixels."""
    import numpy as np
    from scipy.ndimage import gaussian_filter  # type: ignore[import-untyped]

    soft = gaussian_filter(squares.astype(np.float32), (0, deviation, deviation), mode="nearest")
    return np.asarray(np.rint(soft), np.uint8)


def transform_geometry(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Rotate, scale, shift and change the contrast of images at random, within the range of training.

    A generator trained on augmented images memorizes augmented images. Edges are repeated. The change depends
    on the index of the image only.
    """
    import numpy as np
    from scipy.ndimage import affine_transform

    found = np.empty_like(squares)
    middle = (squares.shape[-1] - 1) / 2
    for place, one in enumerate(squares):
        change = np.random.default_rng([_SEEDS, place]).uniform(-1, 1, 6)
        angle = np.radians(change[0] * TURN)
        turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        matrix = turned * (1 + change[1] * SCALE)
        offset = middle - matrix @ [middle, middle] + change[2:4] * SHIFT * squares.shape[-1]
        # Into [-1, 1], the range in which training changes the contrast.
        seen = affine_transform(one.astype(np.float32), matrix, offset, order=1, mode="nearest") / 127.5 - 1
        seen = seen * (1 + change[4] * CONTRAST) + change[5] * CONTRAST
        found[place] = np.rint((np.clip(seen, -1, 1) + 1) * 127.5)
    return found


def jpeg_round_trip(squares: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Encode images as JPEG and decode them."""
    import numpy as np
    from PIL import Image

    found = np.empty_like(squares)
    for place, one in enumerate(squares):
        file = io.BytesIO()
        Image.fromarray(one).save(file, "JPEG", quality=quality)
        found[place] = np.asarray(Image.open(file))
    return found


def genuine_scores(
    seen: PairedEmbeddings, patients: NDArray[np.int64], within: NDArray[np.float64], verifiers: Verifiers
) -> NDArray[np.float64]:
    """Lowest score of any two images of each patient, ``(patients,)``, sorted by patient number.

    Parameters
    ----------
    seen
        Embeddings of the calibration images.
    patients
        Patient of each image, ``(n,)``.
    within
        Search radius of each image, ``(n,)``. Pairs beyond it would not be compared and get ``FLOOR``.
    verifiers
        The models.
    """
    import numpy as np

    pairs = [
        (one, other)
        for patient in np.unique(patients)
        for rows in [np.flatnonzero(patients == patient)]
        for place, one in enumerate(rows)
        for other in rows[place + 1 :]
    ]
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    verifiers.progress.stage("score real pairs", len(first))
    scores = score_pairs(seen, first, seen, second, verifiers)
    found = retrieval_distances(seen, first, seen, second) <= np.minimum(within[first], within[second])
    return lowest(np.where(found, scores, FLOOR), patients[first])


def control_scores(
    copied: PairedEmbeddings,
    originals: PairedEmbeddings,
    patients: NDArray[np.int64],
    within: NDArray[np.float64],
    verifiers: Verifiers,
) -> NDArray[np.float64]:
    """Lowest score of any copy of each patient with its original, ``(patients,)``; see `genuine_scores`."""
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
