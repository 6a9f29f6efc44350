"""What a party brings to a near comparison: one rounded embedding for each patient.

Any two images of a patient are as good as the worst pair, which is what error bounds count; so one image for
each patient keeps within them, and the number of images stays private.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.index.search import VectorSearch
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, Embeddings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Squared distances of embeddings of unit length then fit into 31 bits.
SCALE: Final = 1 << 14
_LENGTH_TOLERANCE: Final = 1e-3
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True, repr=False)
class NearSet:
    """The embeddings of a party; they contain PHI.

    Attributes
    ----------
    vectors
        One rounded embedding for each patient, shape (patients, dimension), in an order drawn for this set.
    patients
        Name of each patient, in the same order; empty where unknown.
    left_out
        Patients without an image of the kind, and images that could not be read.
    """

    vectors: NDArray[np.int16]
    patients: tuple[str, ...]
    left_out: int

    @property
    def dimension(self) -> int:
        """Length of an embedding."""
        return int(self.vectors.shape[1])


def near_set(seen: DatasetFingerprint, kind: Modality) -> NearSet:
    """Choose the image of each patient that is nearest to the patient's others.

    Raises
    ------
    UsageError
        There is no image of the kind, or its model gives embeddings of other length than one.
    """
    import numpy as np

    found = _of_kind(seen, kind)
    rounded, rows = round_embeddings(found.first), defaultdict[int, list[int]](list)
    for row, patient in enumerate(found.patients.tolist()):
        rows[patient].append(row)
    # The order of a result must not tell the order of the release.
    people = np.random.default_rng().permutation(sorted(rows)).tolist()
    chosen = [_middle(found.first, rows[patient]) for patient in people]
    everybody = set(seen.patients.tolist()) - {-1}
    return NearSet(
        rounded[chosen],
        tuple(seen.names[patient] for patient in people),
        len(everybody - rows.keys()) + sum(seen.unread.values()),
    )


def rounded_fingerprint(seen: DatasetFingerprint, kind: Modality) -> DatasetFingerprint:
    """Return the dataset with the embeddings that the comparison sees, for error rates at its distances."""
    import numpy as np

    found = _of_kind(seen, kind)
    # Multiples of a power of two: exact as float32.
    values = (round_embeddings(found.first) / SCALE).astype(np.float32)
    seen_by_it = Embeddings(found.images, found.patients, VectorSearch(values), None)
    return replace(seen, vectors={kind: seen_by_it})


def round_embeddings(vectors: NDArray[np.float32]) -> NDArray[np.int16]:
    """Round embeddings of unit length to multiples of 1 / `SCALE`.

    Raises
    ------
    UsageError
        They have another length.
    """
    import numpy as np

    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if (np.abs(lengths - 1) > _LENGTH_TOLERANCE).any():
        raise UsageError(
            "The retrieval model gives embeddings of other length than one",
            "Use a model whose embeddings are normalized",
        )
    return np.round(vectors.astype(np.float64) * SCALE).astype(np.int16)


def rounding(dimension: int) -> float:
    """Most by which rounding changes the distance of two embeddings."""
    return float(dimension**0.5 / SCALE)


def limit_of(distance: float) -> int:
    """Largest squared distance of a match in units of the rounded embeddings.

    Error rates were counted at distances rounded to six digits: exactly these pairs match.
    """
    limit = int((distance * SCALE) ** 2)
    while round(((limit + 1) ** 0.5) / SCALE, _DIGITS) <= distance:
        limit += 1
    while limit and round((limit**0.5) / SCALE, _DIGITS) > distance:
        limit -= 1
    return limit


def _of_kind(seen: DatasetFingerprint, kind: Modality) -> Embeddings:
    if kind not in seen.vectors:
        raise UsageError(
            f"The release has no images of the kind {kind}", "Name another kind in both policies"
        )
    return seen.vectors[kind]


def _middle(vectors: NDArray[np.float32], rows: list[int]) -> int:
    import numpy as np

    if len(rows) < 3:
        return rows[0]
    own = vectors[rows].astype(np.float64)
    return rows[int(np.linalg.norm(own[:, None] - own[None], axis=2).sum(axis=1).argmin())]
