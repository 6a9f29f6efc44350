"""How often a score is wrong, with bounds that hold for patients.

Pairs of images of one patient are not independent: counted one by one they promise more than they
hold. So a patient gives one number. Genuine: the lowest score of any two of the patient's images.
Impostor: the highest score between the images of two patients, and for the bound every patient is in
one such pair only, which makes the pairs independent. Bounds are those of Clopper and Pearson.
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

CONFIDENCE: Final = 0.95
"""Of each bound alone: the rate lies above ``upper`` in at most one of twenty calibrations."""

_FORMAT: Final = 1
_EXACT: Final = 1024
_STEPS: Final = 1024
"""The curve of impostor scores keeps the highest ones all, the rest in so many steps."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of errors.

    Attributes
    ----------
    share
        Estimate from everything there is.
    errors, of
        Counts behind the bounds, of independent patients or pairs of patients.
    lower, upper
        One-sided exact bounds at `CONFIDENCE`; they enclose ``share``.
    """

    share: float
    errors: int
    of: int
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A threshold and what it costs. A score at or above the threshold says: the same patient.

    ``insufficient_data`` is empty where the bound of the rate that was asked for is at most the target,
    else it says what would be needed.
    """

    threshold: float
    false_match: Rate
    false_non_match: Rate
    insufficient_data: str = ""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scores of patients that no part of the model was trained on; higher is more alike.

    Of a retrieval model the score is the negative distance.

    Attributes
    ----------
    genuine
        Lowest score within each patient of two images or more, ascending.
    disjoint
        Highest score of pairs of patients, no patient in two of them, ascending.
    curve
        ``(score, pairs)``, ascending: how many of all pairs of patients reach the score. Where it was
        thinned, scores are rounded up, so that the rate is never understated.
    patients, pairs
        Patients, and pairs of patients that were scored.
    """

    genuine: tuple[float, ...]
    disjoint: tuple[float, ...]
    curve: tuple[tuple[float, int], ...]
    patients: int
    pairs: int

    def at(self, threshold: float) -> OperatingPoint:
        """Return what a threshold costs."""
        place = bisect_left(self.curve, threshold, key=lambda step: step[0])
        reached = self.curve[place][1] if place < len(self.curve) else 0
        matched = len(self.disjoint) - bisect_left(self.disjoint, threshold)
        missed = bisect_left(self.genuine, threshold)
        return OperatingPoint(
            threshold,
            false_match=_rate(reached / self.pairs, matched, len(self.disjoint)),
            false_non_match=_rate(missed / len(self.genuine), missed, len(self.genuine)),
        )

    def for_false_match(self, target: float) -> OperatingPoint:
        """Return the lowest threshold whose false match rate is at most ``target``.

        With patients enough, the upper bound keeps to the target too; with too few it is the estimate alone,
        and the point says so.
        """
        allowed = math.floor(_required(target) * self.pairs + 1e-9)
        place = next((n for n, (_, reached) in enumerate(self.curve) if reached <= allowed), len(self.curve))
        threshold = _above(self.curve[place - 1][0]) if place else self.curve[0][0]
        errors = max_errors(len(self.disjoint), target)
        if errors < 0:
            reason = _too_few(target, 2 * samples_needed(target), self.patients, "patients")
            return replace(self.at(threshold), insufficient_data=reason)
        if errors < len(self.disjoint):
            threshold = max(threshold, _above(self.disjoint[-1 - errors]))
        return self.at(threshold)

    def for_false_non_match(self, target: float) -> OperatingPoint:
        """Return the highest threshold whose false non-match rate is at most ``target``, as above.

        It is the tolerance bound of the order statistics: 1 % needs 299 patients.
        """
        count = len(self.genuine)
        errors = max_errors(count, _required(target))
        if errors < 0:
            reason = _too_few(target, samples_needed(target), count, "patients with two images or more")
            point = self.at(self.genuine[min(math.floor(target * count + 1e-9), count - 1)])
            return replace(point, insufficient_data=reason)
        return self.at(self.genuine[min(errors, count - 1)])

    def to_json(self) -> str:
        """Return strict JSON: keys sorted, no NaN."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Read what `to_json` wrote.

        Raises
        ------
        IntegrityError
            When anything in it is missing, unknown, of another type or out of order.
        """
        try:
            return _checked(json.loads(text, parse_constant=_refuse))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise IntegrityError("A calibration is damaged", "Fetch the model again") from None


def calibrate(scores: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> Calibration:
    """Calibrate from pairs of images, as many as there are.

    Parameters
    ----------
    scores : array of float, shape (pairs,)
        Higher is more alike.
    first, second : array of int or str, shape (pairs,)
        The patient of either image; equal ones make a genuine pair.

    Raises
    ------
    UsageError
        When no patient has two images, there are no two patients, or a score is no number.
    """
    import numpy as np

    scores = np.asarray(scores, dtype=np.float64)
    names, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    one, other = codes[: len(scores)], codes[len(scores) :]
    low, high = np.minimum(one, other), np.maximum(one, other)
    # Lowest within a patient, highest between two: ordered by pair of patients, then by score.
    order = np.lexsort((scores, high, low))
    low, high, scores = low[order], high[order], scores[order]
    begins = np.flatnonzero(np.r_[True, (np.diff(low) != 0) | (np.diff(high) != 0)]) if len(scores) else order
    ends = np.r_[begins[1:], len(scores)] - 1 if len(scores) else order
    same = low[begins] == high[begins]
    between = ends[~same]
    return calibrate_patients(
        scores[begins[same]], scores[between], low[between], high[between], patients=len(names)
    )


def calibrate_patients(
    genuine: NDArray[np.float64],
    impostor: NDArray[np.float64],
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    *,
    patients: int,
) -> Calibration:
    """Calibrate from one score a patient and one a pair of patients (``first`` and ``second``, from 0).

    See `calibrate`, which makes them of pairs of images.
    """
    import numpy as np

    if not np.isfinite(genuine).all() or not np.isfinite(impostor).all():
        raise UsageError("A score is no finite number", "Report this as a defect of the model")
    if len(genuine) == 0:
        raise UsageError(
            "There is one image of each patient only, so nothing shows what two of one patient look like",
            "Add patients with two images or more",
        )
    if len(impostor) == 0:
        raise UsageError("There is one patient only", "Add images of other patients")
    chosen = _disjoint(first, second, patients)
    return Calibration(
        genuine=tuple(np.sort(genuine).tolist()),
        disjoint=tuple(np.sort(impostor[chosen]).tolist()),
        curve=_curve(np.sort(impostor)),
        patients=patients,
        pairs=len(impostor),
    )


def clopper_pearson(errors: int, of: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the one-sided exact lower and upper bounds of a rate, each at the confidence.

    The quantiles of the beta distribution (Clopper and Pearson 1934).
    """
    from scipy.special import betaincinv  # type: ignore[import-untyped]

    lower = float(betaincinv(errors, of - errors + 1, 1 - confidence)) if errors else 0.0
    upper = float(betaincinv(errors + 1, of - errors, confidence)) if errors < of else 1.0
    return lower, upper


def samples_needed(target: float) -> int:
    """Return how many independent trials without an error it takes for an upper bound of ``target``."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log1p(-target) - 1e-9)


def max_errors(of: int, target: float) -> int:
    """Return the most errors of so many for which the upper bound is at most ``target``; -1 if none."""
    if of < samples_needed(target):
        return -1
    return bisect_right(range(of + 1), target, lo=1, key=lambda errors: clopper_pearson(errors, of)[1]) - 1


def _rate(share: float, errors: int, of: int) -> Rate:
    lower, upper = clopper_pearson(errors, of)
    return Rate(share, errors, of, min(lower, share), max(upper, share))


def _required(target: float) -> float:
    if not 0 < target < 1:
        raise UsageError("A target rate must lie between 0 and 1", "Give one such as 0.001")
    return target


def _too_few(target: float, needed: int, given: int, who: str) -> str:
    return f"not calibratable at a rate of {target:g}: it needs {needed:,} {who}, and there are {given:,}"


def _above(score: float) -> float:
    """The next higher number of 32 bits, as models score: numpy compares those with thresholds rounded so."""
    import numpy as np

    return float(np.nextafter(np.float32(score), np.float32(np.inf)))


def _disjoint(first: NDArray[np.intp], second: NDArray[np.intp], patients: int) -> list[int]:
    """Choose pairs with no patient in two of them, by chance that knows nothing of the scores."""
    import numpy as np

    order = np.lexsort((second, first))
    free, chosen = [True] * patients, []
    for place in order[np.random.default_rng(0).permutation(len(order))].tolist():
        one, other = first[place], second[place]
        if free[one] and free[other]:
            free[one] = free[other] = False
            chosen.append(place)
    return chosen


def _curve(ascending: NDArray[np.float64]) -> tuple[tuple[float, int], ...]:
    """Steps of the number of pairs that reach a score."""
    import numpy as np

    count = len(ascending)
    thinned = max(count - _EXACT, 0)
    places = np.unique(np.r_[np.linspace(0, thinned, min(_STEPS, thinned + 1)).astype(int), thinned:count])
    kept = np.unique(ascending[np.minimum(places, count - 1)])
    # What lies between two kept scores counts as the higher one.
    reached = count - np.r_[0, np.searchsorted(ascending, kept[:-1], side="right")]
    return tuple(zip(kept.tolist(), reached.tolist(), strict=True))


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _checked(facts: Any) -> Calibration:
    """Rebuild a calibration, or raise ValueError, TypeError or KeyError."""
    names = {one.name for one in fields(Calibration)}
    if set(facts) != {"format", *names} or facts["format"] != _FORMAT:
        raise ValueError
    scores = [*facts["genuine"], *facts["disjoint"], *(score for score, _ in facts["curve"])]
    counts = [facts["patients"], facts["pairs"], *(reached for _, reached in facts["curve"])]
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
    if not (in_order and found.genuine and found.disjoint and falling):
        raise ValueError
    if falling != sorted(falling, reverse=True) or falling[0] != found.pairs or falling[-1] < 1:
        raise ValueError
    return found
