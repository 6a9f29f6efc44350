"""Raw matches of the images of two datasets, for the test of pairs that stand out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.reid.models.score_pairs import raw_matches
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, Embeddings
from medsanitize.verifiers.reid.overlap.excess import Excess, Matches, excess_of

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.models.protocols import Verification
    from numpy.typing import NDArray

# Images of each dataset that take part; all pairs of them are matched.
MOST_IMAGES: Final = 400
_SEED: Final = 0


def excess_between(
    sides: tuple[DatasetFingerprint, DatasetFingerprint], modality: Modality, verifier: Verification | None
) -> Excess:
    """Test whether patients are in both datasets; the pairs of the result are rows of the embeddings.

    Parameters
    ----------
    sides : (DatasetFingerprint, DatasetFingerprint)
        The datasets. Images of unknown patients do not take part. Of datasets with more than `MOST_IMAGES`
        images, patients are drawn, the same ones each time.
    modality : Modality
        Modality of the images.
    verifier : Verification or None
        The verification model, whose raw match counts. Without one the distance does; both together found
        fewer pairs than the match by itself at low false match rates.
    """
    vectors = tuple(side.vectors[modality] for side in sides)
    rows = tuple(_drawn(side, one) for side, one in zip(sides, vectors, strict=True))
    if not all(len(one) for one in rows):
        return Excess()
    (a, b), (i, j) = vectors, rows
    if verifier is None:
        matches = Matches((_near(a, i, a, i), _near(b, j, b, j)), _near(a, i, b, j))
    else:
        inside = (_alike(verifier, a, i, a, i), _alike(verifier, b, j, b, j))
        matches = Matches(inside, _alike(verifier, a, i, b, j))
    found = excess_of(matches, (a.patients[i], b.patients[j]))
    pairs = tuple((int(i[one]), int(j[other])) for one, other in found.pairs)
    return Excess(found.p_value, found.expected, pairs, found.strangers)


def _drawn(side: DatasetFingerprint, vectors: Embeddings) -> NDArray[np.intp]:
    """Rows of known patients, of whole patients up to the largest number of images."""
    import numpy as np

    known = np.array([bool(side.names[patient]) for patient in vectors.patients], bool)
    people, sizes = np.unique(vectors.patients[known], return_counts=True)
    order = np.random.default_rng(_SEED).permutation(len(people))
    kept = people[order[np.cumsum(sizes[order]) <= MOST_IMAGES]]
    return np.flatnonzero(known & np.isin(vectors.patients, kept))


def _near(
    one: Embeddings, i: NDArray[np.intp], other: Embeddings, j: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Negated distances of all pairs."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    first, second = one.first[i].astype(np.float64), other.first[j].astype(np.float64)
    with threadpool_limits(1, "blas"):
        products = first @ second.T
    squares = (first**2).sum(1)[:, None] + (second**2).sum(1)[None] - 2 * products
    # Rounded: the last bits depend on how a BLAS library blocks its sums, and no decision may.
    return np.asarray(-np.sqrt(np.maximum(squares, 0)).round(6))


def _alike(
    verifier: Verification, one: Embeddings, i: NDArray[np.intp], other: Embeddings, j: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Raw matches of all pairs by the verification model."""
    import numpy as np

    if one.second is None or other.second is None:
        raise ValueError("the verification model has not read these images")
    symmetric = one is other and i is j
    places = np.triu_indices(len(i), 1) if symmetric else np.indices((len(i), len(j))).reshape(2, -1)
    found = np.zeros((len(i), len(j)))
    found[places[0], places[1]] = raw_matches(
        verifier, one.second, i[places[0]], other.second, j[places[1]]
    ).round(6)
    return found + found.T if symmetric else found
