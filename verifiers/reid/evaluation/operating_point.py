"""Classification at a threshold that was set for a target false match rate on other patients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import Calibration
from medsanitize.verifiers.reid.evaluation.bootstrap import SEED, Interval, intervals, quadratic, ratio
from medsanitize.verifiers.reid.evaluation.pairwise_auc import AllPairs, count_above

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ThresholdMetrics:
    """Classification at the threshold.

    Genuine and impostor pairs have the same weight in the rates, as in a balanced test set (Packhäuser et al.
    2022).

    Attributes
    ----------
    thresholds
        A pair with at least this score matches; two thresholds where each half of the patients set that of
        the other.
    calibrated_on
        ``model``: the calibration stored with the model. ``given``: the one that was named. ``other half``:
        each half of the patients sets the threshold of the other, and impostor pairs across the halves are
        left out.
    target
        False match rate of two patients for which the threshold was set.
    insufficient_data
        What a bound of that rate would need; empty where it is proven.
    accuracy, specificity, recall, precision, f1
        Rates at the threshold.
    matched, missed
        Genuine pairs above and below the threshold.
    rejected, confused
        Impostor pairs below and above the threshold.
    intervals
        95 % interval of each rate by name.
    unquoted
        Why a calibration of other images does not hold for these; empty where it does or there is none.
    """

    thresholds: tuple[float, ...]
    calibrated_on: str
    target: float
    insufficient_data: str
    accuracy: float
    specificity: float
    recall: float
    precision: float
    f1: float
    matched: int
    missed: int
    rejected: int
    confused: int
    intervals: dict[str, Interval]
    unquoted: str = ""


def threshold_metrics(
    pairs: AllPairs,
    scores: NDArray[np.float32],
    patients: NDArray[np.intp],
    calibration: Calibration | None,
    target: float,
    calibrated_on: str = "model",
    unquoted: str = "",
) -> tuple[ThresholdMetrics, NDArray[np.bool_]] | None:
    """Classify every pair at a threshold.

    Parameters
    ----------
    pairs : AllPairs
        Sums over all pairs.
    scores : array of float32, shape (images, images)
        Score of every pair of images.
    patients : array of int, shape (images,)
        Patients, numbered from 0.
    calibration : Calibration or None
        Sets the threshold; without it each half of the patients sets that of the other.
    target : float
        False match rate of two patients.
    calibrated_on, unquoted : str
        Where the calibration comes from; why one is not used.

    Returns
    -------
    (ThresholdMetrics, array of bool) or None
        Metrics, and which genuine pairs matched; None where a half has no patient with two images.
    """
    import numpy as np

    people = len(pairs.sizes)
    # A threshold set on the patients that it is measured on would be too optimistic.
    half = np.random.default_rng(SEED).permutation(people) % 2
    if calibration is not None:
        points, half = [calibration.for_false_match(target)] * 2, np.zeros(people, dtype=np.int64)
    else:
        try:
            points = [pairs.calibration(half != one).for_false_match(target) for one in (0, 1)]
        except UsageError:
            return None
    threshold = np.array([point.threshold for point in points])[half]
    # Pairs across the halves are left out: their patients have different thresholds.
    compared = pairs.sizes * (half[:, None] == half)
    above = count_above(scores, patients, threshold) * (compared > 0)
    matched = pairs.genuine.scores >= threshold[pairs.genuine.patients]
    own = np.bincount(pairs.genuine.patients, minlength=people).astype(np.float64)
    own_above = np.bincount(pairs.genuine.patients, weights=matched, minlength=people)

    def numbers(drawn: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        recall = ratio(drawn @ own_above, drawn @ own)
        false = ratio(quadratic(drawn, above), quadratic(drawn, compared))
        # Genuine and impostor pairs have equal weight, so that precision does not depend on their numbers.
        precision = ratio(recall, recall + false)
        return {
            "accuracy": (recall + 1 - false) / 2,
            "specificity": 1 - false,
            "recall": recall,
            "precision": precision,
            "f1": 2 * ratio(precision * recall, precision + recall),
        }

    values = {name: float(np.nan_to_num(one[0])) for name, one in numbers(np.ones((1, people))).items()}
    confused, impostors = round(float(above.sum()) / 2), round(float(compared.sum()) / 2)
    found = ThresholdMetrics(
        thresholds=tuple(point.threshold for point in points[: 1 if calibration else 2]),
        calibrated_on="other half" if calibration is None else calibrated_on,
        unquoted=unquoted,
        target=target,
        insufficient_data=next((one.insufficient_data for one in points if one.insufficient_data), ""),
        **values,
        matched=int(matched.sum()),
        missed=int((~matched).sum()),
        rejected=impostors - confused,
        confused=confused,
        intervals=intervals(people, numbers),
    )
    return found, matched
