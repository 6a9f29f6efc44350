"""The extraction attempt: can somebody's image be got out of the generator?

Blind, after Carlini et al. 2023: what comes out of a generator again and again is taken for memorised. A
patient counts as extracted when two draws match each other and both match the patient. With a hint: an image
under much noise is given to the generator; who is restored more often of the training patients than of the
holdout's was remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from medsanitize.generators.privacy_gate.candidate_search import score_pairs
from medsanitize.generators.privacy_gate.embeddings import PairedEmbeddings, Verifiers
from medsanitize.generators.privacy_gate.parameters import FEWEST_MEMBERS, TESTED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STRENGTH: Final = 0.6
"""Of the noise on the hint: of the look little is left, of the detail nothing."""
MOST_HINTS: Final = 256
_MOST_DRAWS: Final = 20
"""Draws of one patient that are compared with each other; more would show nothing new."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What the attempt got out.

    Attributes
    ----------
    extracted
        Training patients who came out of blind draws twice.
    hints
        Patients of either split whose noised image was given to the generator.
    restored, restored_others
        Those of training and of holdout who came out as themselves.
    chance
        How often the two differ so where nothing was remembered (Fisher's exact test).
    needed
        Empty, or what it would take to make the attempt.
    """

    extracted: int
    hints: int
    restored: int
    restored_others: int
    chance: float
    needed: str = ""

    @property
    def veto(self) -> bool:
        """Whether anybody was extracted, or training patients are restored more than chance explains."""
        return self.extracted > 0 or self.chance <= 1 - TESTED


def extracted_patients(
    draws: PairedEmbeddings,
    scores: NDArray[np.float64],
    patients: NDArray[np.int64],
    threshold: float,
    verifiers: Verifiers,
) -> int:
    """How many patients have two draws that match them and each other.

    Parameters
    ----------
    draws : PairedEmbeddings
        The synthetic images.
    scores, patients : array, shape (images,)
        Of each image its highest score with a training image, and whose that is.
    """
    import numpy as np

    extracted = 0
    matched = scores >= threshold
    verifiers.hears.stage("compare draws that match", None)
    for patient in np.unique(patients[matched]):
        rows = np.flatnonzero(matched & (patients == patient))[:_MOST_DRAWS]
        pairs = np.array(list(combinations(rows.tolist(), 2)), np.int64).reshape(-1, 2)
        alike = score_pairs(draws, pairs[:, 0], draws, pairs[:, 1], verifiers)
        extracted += bool((alike >= threshold).any())
    return extracted


def extraction(
    extracted: int, members: NDArray[np.float64], others: NDArray[np.float64], threshold: float
) -> Extraction:
    """Judge the attempt; ``members`` and ``others`` are scores of restored images with their originals."""
    count = min(len(members), len(others))
    if count < FEWEST_MEMBERS:
        needed = f"{FEWEST_MEMBERS} patients in training and in holdout each, and the smaller has {count:,}"
        return Extraction(extracted, count, 0, 0, 1.0, needed)
    from scipy.stats import hypergeom  # type: ignore[import-untyped]

    restored, not_members = int((members >= threshold).sum()), int((others >= threshold).sum())
    everybody = len(members) + len(others)
    chance = float(hypergeom.sf(restored - 1, everybody, restored + not_members, len(members)))
    return Extraction(extracted, count, restored, not_members, chance)
