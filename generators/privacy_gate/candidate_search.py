"""Find the most similar image: candidates by the retrieval model, scores by the verification model.

If there are too many pairs, each image is compared with its nearest candidates only. Calibration accounts
for what the search misses: real pairs and positive controls that it would not have compared get the lowest
score, so that the bound covers search and score together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.errors import IntegrityError
from medsanitize.generators.privacy_gate.gate_embeddings import PairedEmbeddings, Verifiers
from medsanitize.generators.privacy_gate.parameters import FLOOR
from medsanitize.verifiers.reid.models.score_pairs import raw_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Up to this number all pairs are scored, so that the search misses nothing in small cohorts.
EVERY_PAIR_UP_TO: Final = 1 << 21
# Fewer candidates would make the search, not the score, decide what is missed.
FEWEST_CANDIDATES: Final = 64
# Pairs per batch: bounds memory, and the time until a cancellation takes effect.
_AT_ONCE: Final = 1 << 12


@dataclass(frozen=True, slots=True, repr=False)
class CandidateScores:
    """Scores of images with their candidates in another split.

    Attributes
    ----------
    rows, scores
        Candidate rows of the other split and the scores with them, ``(n, candidates)``.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]

    def best(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Highest score of each image and its row: the lowest row of equal scores, -1 without candidates."""
        import numpy as np

        if self.rows.shape[1] == 0:
            return np.full(len(self.rows), FLOOR), np.full(len(self.rows), -1, np.int64)
        # Ties are broken by row: the order of candidates depends on the search library.
        place = np.lexsort((self.rows, -self.scores), axis=1)[:, :1]
        pick = np.take_along_axis
        return pick(self.scores, place, 1)[:, 0], pick(self.rows, place, 1)[:, 0]

    def best_among(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Highest score of each image with the given rows; ``FLOOR`` if it was compared with none of them."""
        import numpy as np

        among = np.isin(self.rows, rows)
        return np.asarray(np.where(among, self.scores, FLOOR).max(1, initial=FLOOR))


def candidates_for(images: int, others: int) -> int:
    """Number of candidates per image; all images of the other split if the number of pairs allows it."""
    if images * others <= EVERY_PAIR_UP_TO:
        return others
    return min(others, max(FEWEST_CANDIDATES, EVERY_PAIR_UP_TO // images))


def search_candidates(
    images: PairedEmbeddings, others: PairedEmbeddings, candidates: int, verifiers: Verifiers, stage: str
) -> CandidateScores:
    """Score every image with its nearest candidates.

    Parameters
    ----------
    images, others
        Embeddings of the probes and of the gallery.
    candidates
        Number of candidates per image, from `candidates_for`.
    verifiers
        The models.
    stage
        Name of the stage in the progress display.
    """
    import numpy as np

    if candidates >= len(others):
        rows = np.broadcast_to(np.arange(len(others), dtype=np.int64), (len(images), len(others)))
    else:
        from medsanitize.verifiers.reid.index.exact import nearest

        rows = nearest(others.first, images.first, candidates)[1]
    verifiers.progress.stage(stage, rows.size)
    queries = np.repeat(np.arange(len(images), dtype=np.int64), rows.shape[1])
    scores = score_pairs(images, queries, others, rows.reshape(-1), verifiers)
    return CandidateScores(rows, scores.reshape(rows.shape))


def search_radius(images: PairedEmbeddings, others: PairedEmbeddings, candidates: int) -> NDArray[np.float64]:
    """Distance up to which the search finds candidates of each image, ``(n,)``; infinite for all pairs."""
    import numpy as np

    if candidates >= len(others):
        return np.full(len(images), np.inf)
    from medsanitize.verifiers.reid.index.exact import nearest

    return nearest(others.first, images.first, candidates)[0][:, -1].astype(np.float64)


def score_pairs(
    one: PairedEmbeddings,
    first: NDArray[np.int64],
    other: PairedEmbeddings,
    second: NDArray[np.int64],
    verifiers: Verifiers,
) -> NDArray[np.float64]:
    """Score rows ``first`` of one split with rows ``second`` of the other, rounded to seven decimal places.

    Both images are compared as they are and, where the model needs it, blurred; the higher score counts. A
    score is between 0 and 1, in the order of the model's unbounded scores.

    Raises
    ------
    IntegrityError
        If the model returns a score that is not finite.
    """
    import numpy as np

    found = np.empty(len(first), np.float64)
    for start in range(0, len(first), _AT_ONCE):
        verifiers.cancellation.check()
        part = slice(start, start + _AT_ONCE)
        sides = [(one.second, other.second)]
        if one.soft is not None and other.soft is not None:
            sides.append((one.soft, other.soft))
        raw = [
            raw_rows(verifiers.verification, left, first[part], right, second[part]) for left, right in sides
        ]
        found[part] = _bounded(np.max(raw, axis=0).astype(np.float64))
        verifiers.progress.advance(len(first[part]))
    if not np.isfinite(found).all():
        raise IntegrityError("The verification model returned a score that is not a number", "Train it again")
    # Lower bits depend on how a BLAS library blocks its sums.
    return found.round(7)


def retrieval_distances(
    one: PairedEmbeddings, first: NDArray[np.int64], other: PairedEmbeddings, second: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Distances of the retrieval model between pairs of rows, ``(pairs,)``."""
    import numpy as np

    found = np.empty(len(first), np.float64)
    for start in range(0, len(first), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        difference = one.first[first[part]].astype(np.float64) - other.first[second[part]]
        # Float32 like the distances of the index: calibration compares them with `search_radius`.
        found[part] = np.sqrt((difference * difference).sum(1)).astype(np.float32)
    return found


def _bounded(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map unbounded scores to between 0 and 1 in the same order: 0 to 0.5, 1 to 0.75, 9 to 0.95.

    Unlike the sigmoid, it still separates scores far from 0.
    """
    import numpy as np

    return np.asarray((1 + raw / (1 + np.abs(raw))) / 2)
