"""Extraction attack: can training images be obtained from the generator?

Blind, after Carlini et al. 2023: an image that a generator repeats is taken for memorized. A patient counts
as extracted if two samples match each other and the patient. Holdout patients cannot be extracted: if as
large a share of them is, it is chance. With hints: the generator restores heavily noised images; more
restored patients in training than in the holdout are evidence of memorization.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from medsanitize.generators.privacy_gate.parameters import NOTICEABLE, TEST_CONFIDENCE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Share of the noise schedule applied to a hint: leaves little of the layout and none of the detail.
STRENGTH: Final = 0.6
# Each hint takes a sampling run.
MOST_HINTS: Final = 256
# Bounds the pairs per patient (190); two matching samples are already an extraction.
_MOST_DRAWS: Final = 20


@dataclass(frozen=True, slots=True)
class Extraction:
    """Result of the extraction attack.

    Attributes
    ----------
    extracted, extracted_others
        Training patients, and holdout patients, found twice in blind samples.
    excess
        Whether a patient was extracted, and a larger share of training than of the holdout.
    hints
        Patients per split whose noised image was given to the generator.
    restored, restored_others
        Patients of training and of holdout whose restored image matches the original.
    chance
        p-value of the difference (Fisher's exact test, one-sided).
    noticed
        Training patients that must be restored for a veto if no holdout patient is.
    """

    extracted: int
    extracted_others: int
    excess: bool
    hints: int
    restored: int
    restored_others: int
    chance: float
    noticed: int

    @property
    def veto(self) -> bool:
        """Whether a patient was extracted, or training patients are restored significantly more often."""
        return self.excess or self.chance <= 1 - TEST_CONFIDENCE

    @property
    def inconclusive(self) -> bool:
        """Whether the test with hints could only have noticed more than a quarter of the patients."""
        return self.noticed > NOTICEABLE * self.hints


def extracted_patients(
    scores: NDArray[np.float64],
    patients: NDArray[np.int64],
    threshold: float,
    alike: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]],
) -> NDArray[np.int64]:
    """Patients with two samples that match them and each other.

    Parameters
    ----------
    scores, patients : array, shape (images,)
        Highest score of each image with a real image, and the patient of that image.
    threshold : float
        Score from which on images match.
    alike : callable
        Scores of pairs of samples, from their rows.
    """
    import numpy as np

    matched = scores >= threshold
    extracted = []
    for patient in np.unique(patients[matched]):
        rows = np.flatnonzero(matched & (patients == patient))[:_MOST_DRAWS]
        pairs = np.array(list(combinations(rows.tolist(), 2)), np.int64).reshape(-1, 2)
        if (alike(pairs[:, 0], pairs[:, 1]) >= threshold).any():
            extracted.append(int(patient))
    return np.array(extracted, np.int64)


def extraction(
    blind: tuple[int, int],
    patients: tuple[int, int],
    members: NDArray[np.float64],
    others: NDArray[np.float64],
    threshold: float,
) -> Extraction:
    """Evaluate the attack.

    Parameters
    ----------
    blind, patients
        Patients from `extracted_patients` of training and holdout, and all patients of both.
    members, others
        Scores of restored images with their originals, training and holdout.
    threshold
        Score from which on images match.
    """
    import numpy as np

    # In proportion to the patients: as large a share of the holdout shows that chance does it.
    excess = blind[0] > 0 and (not blind[1] or blind[0] * patients[1] > blind[1] * patients[0])
    count = min(len(members), len(others))
    if not count:
        return Extraction(*blind, excess, 0, 0, 0, 1.0, 1)
    from scipy.stats import hypergeom  # type: ignore[import-untyped]

    restored, not_members = int((members >= threshold).sum()), int((others >= threshold).sum())
    everybody = len(members) + len(others)
    # sf(k - 1) is P(X >= k): the tail of Fisher's exact test includes the observed count.
    chance = float(hypergeom.sf(restored - 1, everybody, restored + not_members, len(members)))
    alone = np.arange(1, len(members) + 1)
    chances = hypergeom.sf(alone - 1, everybody, alone, len(members))
    noticed = int((chances > 1 - TEST_CONFIDENCE).sum()) + 1
    return Extraction(*blind, excess, count, restored, not_members, chance, noticed)
