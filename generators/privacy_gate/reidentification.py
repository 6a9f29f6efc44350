"""Re-identification: could a synthetic image be taken for a training patient on another day?

This is another question than whether an image is a copy. The verification model answers it for any two
images, and even images of real strangers match one of many patients. The exposure is therefore stated at the
threshold of a false match rate, next to the same rate of real strangers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.privacy_gate.confidence_bounds import share_of
from medsanitize.generators.privacy_gate.gate_embeddings import PairedEmbeddings, Verifiers
from medsanitize.generators.privacy_gate.parameters import ALPHA, FLOOR
from medsanitize.verifiers.reid.calibration import Rate, clopper_pearson
from medsanitize.verifiers.reid.models.score_pairs import score_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FALSE_MATCH_RATES: Final = (0.01, 0.001)
# The gate of its own uses the stricter rate.
GATED: Final = FALSE_MATCH_RATES[-1]
# A rate is estimated from at least ten false matches.
_FEWEST_ERRORS: Final = 10
# Half a million pairs of strangers; more do not change a rate of 0.1 %.
_MOST_STRANGERS: Final = 1000
_AT_ONCE: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class Exposure:
    """Exposure at one false match rate.

    Attributes
    ----------
    false_match
        False match rate of the threshold, between two patients.
    threshold
        Score from which on two images are taken for one patient.
    synthetic
        Share of the synthetic images that match a training patient.
    strangers
        Share of the holdout patients, by one image each, that match a training patient.
    genuine
        Share of the calibration patients, by two images each, whom the model recognizes at this threshold.
    lower, upper
        Bounds of the difference of `synthetic` and `strangers`, jointly at 95 % each.
    """

    false_match: float
    threshold: float
    synthetic: Rate
    strangers: Rate
    genuine: Rate
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, repr=False)
class Verification:
    """Scores of real images, measured before a synthetic image is compared.

    Attributes
    ----------
    apart
        Scores of pairs of strangers of holdout and calibration, ascending.
    strangers
        Highest score of each holdout patient with a training image.
    genuine
        Score of two images of each calibration patient who has two.
    """

    apart: NDArray[np.float64]
    strangers: NDArray[np.float64]
    genuine: NDArray[np.float64]


def verification_of_strangers(
    training: PairedEmbeddings,
    holdout: tuple[PairedEmbeddings, NDArray[np.int64]],
    calibration: tuple[PairedEmbeddings, NDArray[np.int64]],
    candidates: int,
    verifiers: Verifiers,
) -> Verification:
    """Score pairs of real images of different patients, of the holdout with training, and of one patient.

    Parameters
    ----------
    training
        Embeddings of the training images.
    holdout, calibration
        Embeddings of these splits, and the patient of each image.
    candidates
        Training images that each image is compared with.
    verifiers
        The models.
    """
    import numpy as np

    firsts = [np.sort(np.unique(people, return_index=True)[1]) for _, people in (holdout, calibration)]
    each = [seen.second[rows] for (seen, _), rows in zip((holdout, calibration), firsts, strict=True)]
    # One image per patient, so that every pair is one of two different people.
    people = np.concatenate(each)[:_MOST_STRANGERS]
    one, other = np.triu_indices(len(people), 1)
    apart = np.sort(_scores(people, one, people, other, verifiers, "score strangers"))
    strangers = highest_verification(holdout[0].part(firsts[0]), training, candidates, verifiers)
    seen, whose = calibration
    pairs = [np.flatnonzero(whose == patient)[:2] for patient in np.unique(whose)]
    two = np.array([rows for rows in pairs if len(rows) == 2], np.int64).reshape(-1, 2)
    genuine = _scores(seen.second, two[:, 0], seen.second, two[:, 1], verifiers, "score real pairs")
    return Verification(apart, strangers, genuine)


def highest_verification(
    images: PairedEmbeddings, training: PairedEmbeddings, candidates: int, verifiers: Verifiers
) -> NDArray[np.float64]:
    """Highest verification score of each image with its nearest training images, ``(n,)``."""
    import numpy as np

    if candidates >= len(training):
        rows = np.broadcast_to(np.arange(len(training), dtype=np.int64), (len(images), len(training)))
    else:
        from medsanitize.verifiers.reid.index.exact import nearest

        rows = nearest(training.first, images.first, candidates)[1]
    queries = np.repeat(np.arange(len(images), dtype=np.int64), rows.shape[1])
    scores = _scores(
        images.second, queries, training.second, rows.reshape(-1), verifiers, "verify training patients"
    )
    return np.asarray(scores.reshape(rows.shape).max(1, initial=FLOOR))


def exposures(synthetic: NDArray[np.float64], known: Verification) -> tuple[Exposure, ...]:
    """Exposure at every false match rate that the number of strangers can establish.

    Parameters
    ----------
    synthetic
        Highest verification score of each synthetic image with a training image.
    known
        Scores of real images.
    """
    return tuple(
        exposure_at(rate, synthetic, known)
        for rate in FALSE_MATCH_RATES
        if rate * len(known.apart) >= _FEWEST_ERRORS
    )


def exposure_at(false_match: float, synthetic: NDArray[np.float64], known: Verification) -> Exposure:
    """Exposure at one false match rate; see `exposures`."""
    import numpy as np

    # The lowest threshold that at most this share of the pairs of strangers reaches.
    reached = int(false_match * len(known.apart) + 1e-9)
    limit = float(np.nextafter(known.apart[len(known.apart) - 1 - reached], np.inf))
    made, others, genuine = (
        share_of(scores >= limit) for scores in (synthetic, known.strangers, known.genuine)
    )
    # The difference is bounded by two rates, which share the error.
    ours, theirs = (
        clopper_pearson(one.errors, one.of, 1 - ALPHA / 2) if one.of else (0.0, 1.0) for one in (made, others)
    )
    return Exposure(false_match, limit, made, others, genuine, ours[0] - theirs[1], ours[1] - theirs[0])


def _scores(
    one: NDArray[np.float32],
    first: NDArray[np.int64],
    other: NDArray[np.float32],
    second: NDArray[np.int64],
    verifiers: Verifiers,
    stage: str,
) -> NDArray[np.float64]:
    import numpy as np

    verifiers.progress.stage(stage, len(first))
    found = np.empty(len(first), np.float64)
    for start in range(0, len(first), _AT_ONCE):
        verifiers.cancellation.check()
        part = slice(start, start + _AT_ONCE)
        found[part] = score_rows(verifiers.verification, one, first[part], other, second[part])
        verifiers.progress.advance(len(first[part]))
    # As in the search of copies: lower bits depend on how a BLAS library blocks its sums.
    return found.round(7)
