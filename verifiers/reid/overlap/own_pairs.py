"""Pairs within the compared datasets: strangers and patients of exactly these images.

How often strangers match depends on who took the images and how: at the threshold for a false match rate of
1 % on one collection, 54 % of the pairs of strangers of another hospital matched. False match rates therefore
never come from a stored calibration. Every two patients of one dataset who are known apart are a pair of
different people of these images, and need no further label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.verifiers.reid.index.search import VectorSearch
from medsanitize.verifiers.reid.overlap.compare_pairs import score_all_within
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, Embeddings
from medsanitize.verifiers.reid.overlap.exact_matches import near_duplicate_pairs
from medsanitize.verifiers.reid.overlap.joint_threshold import CalibrationPairs

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.models.protocols import Verification
    from numpy.typing import NDArray

# Images of a dataset whose pairs are scored; their number grows with its square.
MOST_IMAGES: Final = 1_500
_SEED: Final = 0


@dataclass(frozen=True, slots=True, repr=False)
class OwnPairs:
    """Pairs of images of known patients within the compared datasets.

    Attributes
    ----------
    pairs
        The pairs; patients of different datasets have different numbers.
    patients
        Number of known patients of each dataset.
    """

    pairs: CalibrationPairs
    patients: tuple[int, ...]


def pairs_within(
    dataset: DatasetFingerprint, modality: Modality, verifier: Verification | None
) -> OwnPairs | None:
    """Score the pairs of images within one dataset, of known patients only.

    Copies are left out: one exposure twice says nothing about two exposures of a patient, and under two
    patient IDs nothing about different patients.

    Parameters
    ----------
    dataset : DatasetFingerprint
        The dataset; of more than `MOST_IMAGES` images of known patients, that many are drawn, the same ones
        each time.
    modality : Modality
        Modality of the images.
    verifier : Verification or None
        Scores the pairs; without it the score is the negated distance.

    Returns
    -------
    OwnPairs or None
        None if fewer than two patients are known.
    """
    import numpy as np

    vectors = dataset.vectors[modality]
    # Two unknown patients may be one: their pairs are neither genuine nor those of strangers.
    known = np.flatnonzero([bool(dataset.names[patient]) for patient in vectors.patients])
    rows = np.sort(np.random.default_rng(_SEED).permutation(known)[:MOST_IMAGES])
    people = np.unique(vectors.patients[rows])
    if len(people) < 2:
        return None
    chosen = Embeddings(
        vectors.images[rows],
        vectors.patients[rows],
        VectorSearch(vectors.first[rows]),
        None if vectors.second is None else vectors.second[rows],
    )
    scored = score_all_within(chosen, verifier)
    images, copies = chosen.images.tolist(), near_duplicate_pairs(dataset, dataset)
    kept = np.array(
        [
            not _is_copy(dataset, images[i], images[j], copies)
            for i, j in zip(scored.first.tolist(), scored.second.tolist(), strict=True)
        ],
        bool,
    )
    first, second = (chosen.patients[side[kept]] for side in (scored.first, scored.second))
    if (first == second).all():
        return None
    return OwnPairs(
        CalibrationPairs(scored.distance[kept], scored.score[kept], first, second), (len(people),)
    )


def joined(known: tuple[OwnPairs, ...]) -> OwnPairs | None:
    """Join the pairs of several datasets; None if there is none."""
    import numpy as np

    if not known:
        return None

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part.pairs, name) for part in known])

    # Numbered apart by dataset: whether two datasets share a patient is the question to answer.
    sides = np.repeat(np.arange(len(known)), [len(part.pairs.first) for part in known]) << 40
    pairs = CalibrationPairs(
        column("distance"), column("score"), column("first") + sides, column("second") + sides
    )
    return OwnPairs(pairs, tuple(count for part in known for count in part.patients))


def _is_copy(
    dataset: DatasetFingerprint, one: int, other: int, copies: Mapping[tuple[int, int], int]
) -> bool:
    if dataset.pixels[one] is not None and dataset.pixels[one] == dataset.pixels[other]:
        return True
    return dataset.patients[one] == dataset.patients[other] and (one, other) in copies
