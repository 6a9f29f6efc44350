"""Who is most alike: near images by the retrieval model, pairs scored by the verification model.

Where all pairs are too many, each image is compared with its nearest ones only. What that overlooks is not
guessed: real pairs and controls that the same search would have missed get the lowest score when the
threshold is calibrated, so that the share missed by search and score together is what is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.errors import IntegrityError
from medsanitize.generators.privacy_gate.embeddings import PairedEmbeddings, Verifiers
from medsanitize.generators.privacy_gate.parameters import FLOOR
from medsanitize.verifiers.reid.models.score_pairs import score_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EVERY_PAIR_UP_TO: Final = 1 << 21
"""So many pairs are all scored; of more, each image's nearest ones."""
FEWEST_CANDIDATES: Final = 64
_AT_ONCE: Final = 1 << 12


@dataclass(frozen=True, slots=True, repr=False)
class CandidateScores:
    """Scores of images with those of the other split that they were compared with.

    Attributes
    ----------
    rows, scores
        ``(n, candidates)``: rows of the other split and the scores with them.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]

    def best(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The highest score of each image and whose row it is, the lowest row of equal ones; -1 if none."""
        import numpy as np

        if self.rows.shape[1] == 0:
            return np.full(len(self.rows), FLOOR), np.full(len(self.rows), -1, np.int64)
        place = np.lexsort((self.rows, -self.scores), axis=1)[:, :1]
        pick = np.take_along_axis
        return pick(self.scores, place, 1)[:, 0], pick(self.rows, place, 1)[:, 0]

    def best_among(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The highest score of each image with some rows, ``FLOOR`` where it was compared with none."""
        import numpy as np

        among = np.isin(self.rows, rows)
        return np.asarray(np.where(among, self.scores, FLOOR).max(1, initial=FLOOR))


def candidates_for(images: int, others: int) -> int:
    """How many of the others each image is compared with: all of them where that is affordable."""
    if images * others <= EVERY_PAIR_UP_TO:
        return others
    return min(others, max(FEWEST_CANDIDATES, EVERY_PAIR_UP_TO // images))


def search_candidates(
    images: PairedEmbeddings, others: PairedEmbeddings, candidates: int, verifiers: Verifiers, stage: str
) -> CandidateScores:
    """Compare every image with its nearest others."""
    import numpy as np

    if candidates >= len(others):
        rows = np.broadcast_to(np.arange(len(others), dtype=np.int64), (len(images), len(others)))
    else:
        from medsanitize.verifiers.reid.index.exact import nearest

        rows = nearest(others.first, images.first, candidates)[1]
    verifiers.hears.stage(stage, rows.size)
    queries = np.repeat(np.arange(len(images), dtype=np.int64), rows.shape[1])
    scores = score_pairs(images, queries, others, rows.reshape(-1), verifiers)
    return CandidateScores(rows, scores.reshape(rows.shape))


def search_radius(images: PairedEmbeddings, others: PairedEmbeddings, candidates: int) -> NDArray[np.float64]:
    """Distance up to which the search compares each image with others, ``(n,)``."""
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
    """Scores of rows ``first`` of one split with rows ``second`` of the other, to seven places.

    It is the resolution of 32 bits near 1: the last bits depend on how a library blocks its sums.
    """
    import numpy as np

    found = np.empty(len(first), np.float64)
    for start in range(0, len(first), _AT_ONCE):
        verifiers.stops.check()
        part = slice(start, start + _AT_ONCE)
        found[part] = score_rows(verifiers.verification, one.second, first[part], other.second, second[part])
        verifiers.hears.advance(len(first[part]))
    if not np.isfinite(found).all():
        raise IntegrityError("The verification model gave a score that is no number", "Train it again")
    return found.round(7)


def retrieval_distances(
    one: PairedEmbeddings, first: NDArray[np.int64], other: PairedEmbeddings, second: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Distances of the retrieval model, as the search measures them."""
    import numpy as np

    found = np.empty(len(first), np.float64)
    for start in range(0, len(first), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        difference = one.first[first[part]].astype(np.float64) - other.first[second[part]]
        found[part] = np.sqrt((difference * difference).sum(1)).astype(np.float32)
    return found
