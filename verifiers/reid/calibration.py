"""Calibration: false match and false non-match rates of a score, with bounds that hold for patients.

Pairs of images of one patient are not independent, and counting them one by one makes the bounds too narrow.
Each patient therefore contributes one number:

- genuine: the lowest score of any two images of the patient;
- impostor: the highest score between the images of two patients. The bound uses every patient in one such
  pair only, which makes the pairs independent.

Bounds are exact (Clopper and Pearson 1934).
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import IntegrityError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Confidence of each one-sided bound: the rate exceeds ``upper`` in at most one of twenty calibrations.
CONFIDENCE: Final = 0.95

_FORMAT: Final = 1
# The highest impostor scores decide a strict threshold, so that they are stored unthinned.
_UNTHINNED_SCORES: Final = 1024
_STEPS: Final = 1024


@dataclass(frozen=True, slots=True)
class Rate:
    """An error rate with its exact bounds.

    Attributes
    ----------
    share
        Estimate from all pairs.
    errors, of
        Errors and trials behind the bounds; trials are independent patients or disjoint pairs of patients.
    lower, upper
        One-sided exact bounds, each at `CONFIDENCE`; they enclose ``share``.
    """

    share: float
    errors: int
    of: int
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A threshold with its error rates; a pair matches if its score is at least the threshold.

    ``insufficient_data`` is empty where the bound of the requested rate is at most the target, otherwise it
    states how many patients that would need.
    """

    threshold: float
    false_match: Rate
    false_non_match: Rate
    insufficient_data: str = ""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scores of held-out patients, on whom no part of the model was trained; higher is more similar.

    The score of a retrieval model is the negated distance.

    Attributes
    ----------
    genuine
        Lowest score within each patient with at least two images, ascending; empty only in a calibration by
        `calibrate_strangers`.
    disjoint
        Highest score of pairs of patients, ascending; no patient is in two of these pairs.
    curve
        ``(score, pairs)``, ascending: the number of all pairs of patients that reach the score.
    patients
        Number of patients.
    pairs
        Number of pairs of patients that were scored.
    """

    genuine: tuple[float, ...]
    disjoint: tuple[float, ...]
    curve: tuple[tuple[float, int], ...]
    patients: int
    pairs: int

    def at(self, threshold: float) -> OperatingPoint:
        """Compute the error rates at a threshold."""
        place = bisect_left(self.curve, threshold, key=lambda step: step[0])
        reached = self.curve[place][1] if place < len(self.curve) else 0
        matched = len(self.disjoint) - bisect_left(self.disjoint, threshold)
        missed = bisect_left(self.genuine, threshold)
        return OperatingPoint(
            threshold,
            false_match=_rate(reached / self.pairs, matched, len(self.disjoint)),
            # Without a patient with two images nothing bounds the false non-match rate: it may be 1.
            false_non_match=_rate(
                missed / len(self.genuine) if self.genuine else 1.0, missed, len(self.genuine)
            ),
        )

    def for_false_match(self, target: float) -> OperatingPoint:
        """Choose the lowest threshold whose false match rate is at most ``target``.

        With enough patients the upper bound is at most ``target`` as well. With too few only the estimate is,
        and ``insufficient_data`` of the result states how many are needed.

        Raises
        ------
        UsageError
            If ``target`` is not between 0 and 1.
        """
        # The tolerance keeps an exact product such as 0.29 * 100 from rounding down to 28.
        allowed = math.floor(_required(target) * self.pairs + 1e-9)
        place = next((n for n, (_, reached) in enumerate(self.curve) if reached <= allowed), len(self.curve))
        threshold = _above(self.curve[place - 1][0]) if place else self.curve[0][0]
        errors = max_errors(len(self.disjoint), target)
        if errors < 0:
            # Twice as many patients as trials: a disjoint pair uses up two patients.
            reason = _too_few(target, 2 * samples_needed(target), self.patients, "patients")
            return replace(self.at(threshold), insufficient_data=reason)
        if errors < len(self.disjoint):
            # Just above the next score, since a score equal to the threshold matches.
            threshold = max(threshold, _above(self.disjoint[-1 - errors]))
        return self.at(threshold)

    def for_false_non_match(self, target: float) -> OperatingPoint:
        """Choose the highest threshold whose false non-match rate is at most ``target``.

        The bound is the one-sided tolerance bound of an order statistic: 1 % needs 299 patients. As in
        `for_false_match`, ``insufficient_data`` is set where there are too few.

        Raises
        ------
        UsageError
            If ``target`` is not between 0 and 1.
        """
        count = len(self.genuine)
        errors = max_errors(count, _required(target))
        if errors < 0:
            reason = _too_few(target, samples_needed(target), count, "patients with two or more images")
            point = self.at(self.genuine[min(math.floor(target * count + 1e-9), count - 1)])
            return replace(point, insufficient_data=reason)
        return self.at(self.genuine[min(errors, count - 1)])

    def to_json(self) -> str:
        """Serialize as strict JSON: sorted keys, no NaN."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, *, genuine: bool = True) -> Calibration:
        """Parse the output of `to_json`.

        Parameters
        ----------
        text : str
            The output.
        genuine : bool
            Whether one without patients with two images is damaged.

        Raises
        ------
        IntegrityError
            If a member is missing, unknown, of another type or out of order.
        """
        try:
            return _checked(json.loads(text, parse_constant=_refuse), genuine=genuine)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise IntegrityError("A calibration is damaged", "Fetch the model again") from None


def calibrate(scores: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> Calibration:
    """Calibrate from scored pairs of images.

    Parameters
    ----------
    scores : array of float, shape (pairs,)
        Higher is more similar.
    first, second : array of int or str, shape (pairs,)
        Patient of each image of the pair; a pair with equal patients is genuine.

    Returns
    -------
    Calibration
        One score per patient and per pair of patients.

    Raises
    ------
    UsageError
        If no patient has two images, there is only one patient, or a score is not finite.
    """
    found = _by_patient(scores, first, second)
    return calibrate_patients(
        found.genuine, found.impostor, found.first, found.second, patients=found.patients
    )


def calibrate_strangers(scores: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> Calibration:
    """Calibrate as `calibrate` does, also where every patient has one image: ``genuine`` is then empty.

    Raises
    ------
    UsageError
        If there is only one patient, or a score is not finite.
    """
    import numpy as np

    found = _by_patient(scores, first, second)
    if len(found.genuine):
        return calibrate(scores, first, second)
    stand_in = np.zeros(1)
    return replace(
        calibrate_patients(stand_in, found.impostor, found.first, found.second, patients=found.patients),
        genuine=(),
    )


@dataclass(frozen=True, slots=True)
class _PatientScores:
    """One score per patient and per pair of patients; see `calibrate_patients`."""

    genuine: NDArray[np.float64]
    impostor: NDArray[np.float64]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    patients: int


def _by_patient(scores: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> _PatientScores:
    import numpy as np

    scores = np.asarray(scores, dtype=np.float64)
    names, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    one, other = codes[: len(scores)], codes[len(scores) :]
    low, high = np.minimum(one, other), np.maximum(one, other)
    # Sorted by pair of patients, then score: the first of each run is the lowest score, the last the highest.
    order = np.lexsort((scores, high, low))
    low, high, scores = low[order], high[order], scores[order]
    begins = np.flatnonzero(np.r_[True, (np.diff(low) != 0) | (np.diff(high) != 0)]) if len(scores) else order
    ends = np.r_[begins[1:], len(scores)] - 1 if len(scores) else order
    same = low[begins] == high[begins]
    between = ends[~same]
    return _PatientScores(scores[begins[same]], scores[between], low[between], high[between], len(names))


def calibrate_patients(
    genuine: NDArray[np.float64],
    impostor: NDArray[np.float64],
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    *,
    patients: int,
) -> Calibration:
    """Calibrate from one score per patient and one per pair of patients.

    Parameters
    ----------
    genuine : array of float64, shape (patients with at least two images,)
        Lowest score within each patient.
    impostor : array of float64, shape (pairs,)
        Highest score between two patients.
    first, second : array of int, shape (pairs,)
        Patients of each pair, numbered from 0.
    patients : int
        Number of patients.

    Raises
    ------
    UsageError
        If there is no genuine or no impostor score, or one is not finite.

    See Also
    --------
    calibrate : Reduces pairs of images to these scores.
    """
    import numpy as np

    if not np.isfinite(genuine).all() or not np.isfinite(impostor).all():
        raise UsageError("A score is not finite", "Report this as a bug of the model")
    if len(genuine) == 0:
        raise UsageError(
            "Every patient has only one image, so there are no genuine pairs",
            "Add patients with two or more images",
        )
    if len(impostor) == 0:
        raise UsageError("There is only one patient", "Add images of other patients")
    chosen = _disjoint(first, second, patients)
    return Calibration(
        genuine=tuple(np.sort(genuine).tolist()),
        disjoint=tuple(np.sort(impostor[chosen]).tolist()),
        curve=_curve(np.sort(impostor)),
        patients=patients,
        pairs=len(impostor),
    )


def clopper_pearson(errors: int, of: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Compute the one-sided exact bounds of a rate (Clopper and Pearson 1934).

    Parameters
    ----------
    errors, of : int
        Errors and trials.
    confidence : float
        Confidence of each of the two bounds.

    Returns
    -------
    tuple of (float, float)
        Lower and upper bound: quantiles of the beta distribution.
    """
    from scipy.special import betaincinv  # type: ignore[import-untyped]

    lower = float(betaincinv(errors, of - errors + 1, 1 - confidence)) if errors else 0.0
    upper = float(betaincinv(errors + 1, of - errors, confidence)) if errors < of else 1.0
    return lower, upper


def samples_needed(target: float) -> int:
    """Compute how many independent trials without an error give an upper bound of ``target``."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log1p(-target) - 1e-9)


def max_errors(of: int, target: float) -> int:
    """Find the largest number of errors in ``of`` trials with an upper bound of ``target``; -1 if none.

    Parameters
    ----------
    of : int
        Number of independent trials.
    target : float
        Largest upper bound, at `CONFIDENCE`.
    """
    if of < samples_needed(target):
        return -1
    return bisect_right(range(of + 1), target, lo=1, key=lambda errors: clopper_pearson(errors, of)[1]) - 1


def _rate(share: float, errors: int, of: int) -> Rate:
    # ``share`` comes from all pairs, the bounds from the independent ones: the estimate may lie outside them.
    lower, upper = clopper_pearson(errors, of)
    return Rate(share, errors, of, min(lower, share), max(upper, share))


def _required(target: float) -> float:
    if not 0 < target < 1:
        raise UsageError("A target rate must be between 0 and 1", "Use a value such as 0.001")
    return target


def _too_few(target: float, needed: int, given: int, unit: str) -> str:
    return f"insufficient data for a rate of {target:g}: {needed:,} {unit} required, {given:,} available"


def _above(score: float) -> float:
    """Next higher float32: numpy rounds a threshold to the float32 of the scores that it compares."""
    import numpy as np

    return float(np.nextafter(np.float32(score), np.float32(np.inf)))


def _disjoint(first: NDArray[np.intp], second: NDArray[np.intp], patients: int) -> list[int]:
    """Choose pairs so that no patient is in two of them, in an order independent of the scores."""
    import numpy as np

    order = np.lexsort((second, first))
    free, chosen = [True] * patients, []
    # A fixed seed makes the calibration reproducible.
    for place in order[np.random.default_rng(0).permutation(len(order))].tolist():
        one, other = first[place], second[place]
        if free[one] and free[other]:
            free[one] = free[other] = False
            chosen.append(place)
    return chosen


def _curve(ascending: NDArray[np.float64]) -> tuple[tuple[float, int], ...]:
    """Number of pairs that reach each score, thinned to about 2,000 scores."""
    import numpy as np

    count = len(ascending)
    thinned = max(count - _UNTHINNED_SCORES, 0)
    places = np.unique(np.r_[np.linspace(0, thinned, min(_STEPS, thinned + 1)).astype(int), thinned:count])
    kept = np.unique(ascending[np.minimum(places, count - 1)])
    # Thinned scores are rounded up to the next kept one, so that the false match rate is never understated.
    reached = count - np.r_[0, np.searchsorted(ascending, kept[:-1], side="right")]
    return tuple(zip(kept.tolist(), reached.tolist(), strict=True))


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _checked(facts: Any, *, genuine: bool) -> Calibration:
    """Rebuild a calibration, or raise ValueError, TypeError or KeyError."""
    names = {one.name for one in fields(Calibration)}
    # Unknown members are refused: a later format may give the others a different meaning.
    if set(facts) != {"format", *names} or facts["format"] != _FORMAT:
        raise ValueError
    scores = [*facts["genuine"], *facts["disjoint"], *(score for score, _ in facts["curve"])]
    counts = [facts["patients"], facts["pairs"], *(reached for _, reached in facts["curve"])]
    # ``type() is`` and not isinstance: a JSON true would pass as an int.
    if any(type(one) is not float for one in scores) or any(type(one) is not int for one in counts):
        raise TypeError
    found = Calibration(
        genuine=tuple(facts["genuine"]),
        disjoint=tuple(facts["disjoint"]),
        curve=tuple((score, reached) for score, reached in facts["curve"]),
        patients=facts["patients"],
        pairs=facts["pairs"],
    )
    in_order = all(list(one) == sorted(one) for one in (found.genuine, found.disjoint, found.curve))
    falling = [reached for _, reached in found.curve]
    if not (in_order and (found.genuine or not genuine) and found.disjoint and falling):
        raise ValueError
    # Every pair reaches the lowest score of the curve, and at least one the highest.
    if falling != sorted(falling, reverse=True) or falling[0] != found.pairs or falling[-1] < 1:
        raise ValueError
    return found
