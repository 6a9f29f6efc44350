"""Score every two images of a table by one or two models, and which of them may calibrate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.verifiers.reid.evaluation.embed import embed_files, middle_slices
from medsanitize.verifiers.reid.evaluation.score_matrix import distance_scores, verifier_scores

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.progress import Cancellation, Progress
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.labels import Labels
    from medsanitize.verifiers.reid.models.protocols import Retrieval, Verification
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ScoredImages:
    """Scores of all pairs of images.

    Attributes
    ----------
    labels
        Rows of the images that could be read, one per row of the scores.
    distances
        Negated distances of the retrieval model, shape (images, images).
    by_verifier
        Scores of the verification model; None without one.
    """

    labels: Labels
    distances: NDArray[np.float32]
    by_verifier: NDArray[np.float32] | None

    @property
    def scores(self) -> NDArray[np.float32]:
        """The scores that decide: those of the verification model if there is one."""
        return self.distances if self.by_verifier is None else self.by_verifier


def score_images(
    labels: Labels,
    retrieval: Retrieval,
    verifier: Verification | None,
    progress: Progress,
    cancellation: Cancellation,
) -> ScoredImages:
    """Read and embed the images of a table, and score all pairs.

    Raises
    ------
    UsageError
        No image can be compared, or the models are for different modalities.
    """
    progress.stage("embedding", len(labels))
    encoders = [retrieval] if verifier is None else [retrieval, verifier]
    told = progress_callback(progress, cancellation)
    embedded = embed_files(labels.paths, encoders, kinds=labels.kinds, done=told)
    if retrieval.modality.is_sliced:
        embedded = middle_slices(embedded, labels.patients, labels.series)
    scores = None
    if verifier is not None:
        progress.stage("scoring pairs", len(embedded.places) * (len(embedded.places) - 1) // 2)
        scores = verifier_scores(embedded.vectors[1], verifier, told)
    kept = labels.keep(embedded.places, embedded.excluded)
    return ScoredImages(kept, distance_scores(embedded.vectors[0]), scores)


def progress_callback(progress: Progress, cancellation: Cancellation) -> Callable[[int], None]:
    """Return a callback that counts images or pairs as done and checks for cancellation."""

    def done(more: int) -> None:
        progress.advance(more)
        cancellation.check()

    return done


def calibrating(scored: ScoredImages) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Return the scores of the exposures that may calibrate, and their patients, numbered from 0.

    Two copies of one exposure would match more often than two exposures do.
    """
    import numpy as np

    places = np.array(_distinct_exposures(scored.labels), np.intp)
    patients = np.unique(np.array(scored.labels.patients)[places], return_inverse=True)[1]
    return scored.scores[np.ix_(places, places)], patients


def _distinct_exposures(labels: Labels) -> list[int]:
    """Return the indexes of images that are not copies of an earlier image of their patient."""
    import numpy as np
    from medsanitize.verifiers.reid.images.read import read_image
    from medsanitize.verifiers.reid.overlap.perceptual_hash import BITS, near_duplicates, perceptual_hash

    prints = [perceptual_hash(read_image(path, kind=kind).pixels) for path, kind in _stated(labels)]
    known = [place for place, found in enumerate(prints) if found is not None]
    joined = np.frombuffer(b"".join(found for found in prints if found is not None), np.uint8)
    bits = joined.reshape(len(known), BITS // 8)
    first, second, _ = near_duplicates(bits, bits)
    copies = {
        known[max(i, j)]
        for i, j in zip(first.tolist(), second.tolist(), strict=True)
        if i != j and labels.patients[known[i]] == labels.patients[known[j]]
    }
    return [place for place in range(len(labels)) if place not in copies]


def _stated(labels: Labels) -> Iterator[tuple[Path, Modality | None]]:
    return zip(labels.paths, labels.kinds, strict=True)
