"""Calibration from counts of scores, which can be added over sites.

Scores are rounded to bins, each in the direction that makes the error rate larger: no bound becomes too
small. Every site scores its own patients only; the patients of all sites bound the rates.
"""

from __future__ import annotations

import numpy as np
from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import Calibration, calibrate_patients
from medsanitize.verifiers.reid.evaluation.pairwise_auc import AllPairs
from medsanitize.verifiers.reid.training.sums import Arrays, Summed
from numpy.typing import NDArray

_BINS = 8192
_NAMES = ("genuine", "disjoint", "pairs")
PATIENTS = "patients"


def counted_scores(most: int) -> dict[str, Summed]:
    """Return what is summed; ``most`` bounds the number of patients."""
    return {
        **{f"scores.{name}": Summed((_BINS + 1,), float(most) ** 2) for name in _NAMES},
        f"scores.{PATIENTS}": Summed((), float(most)),
    }


def count_scores(pairs: AllPairs | None, lowest: float, highest: float) -> dict[str, NDArray[np.float64]]:
    """Count the scores of a site by bin, between the lowest and highest score that the model can give.

    Parameters
    ----------
    pairs : AllPairs or None
        All pairs of a site's images; None without two patients.
    lowest, highest : float
        Range of the scores.
    """
    found = {f"scores.{name}": np.zeros(_BINS + 1) for name in _NAMES}
    if pairs is None:
        return {**found, f"scores.{PATIENTS}": np.array(0.0)}
    own = np.full(len(pairs.sizes), np.inf)
    np.minimum.at(own, pairs.genuine.patients, pairs.genuine.scores)
    first, second = np.triu_indices(len(own), 1)
    between = pairs.highest[first, second].astype(np.float64)
    # The choice of disjoint pairs does not look at scores: any genuine score will do.
    chosen = calibrate_patients(np.zeros(1), between, first, second, patients=len(own)).disjoint
    step = (highest - lowest) / _BINS
    for name, scores, rounding in (
        ("genuine", own[np.isfinite(own)], np.floor),
        ("disjoint", np.array(chosen), np.ceil),
        ("pairs", between, np.ceil),
    ):
        bins = np.clip(rounding((scores - lowest) / step), 0, _BINS).astype(np.intp)
        found[f"scores.{name}"] += np.bincount(bins, minlength=_BINS + 1)
    return {**found, f"scores.{PATIENTS}": np.array(float(len(own)))}


def calibration_of(sums: Arrays, lowest: float, highest: float) -> Calibration:
    """Return the calibration of the patients of all sites.

    Raises
    ------
    UsageError
        If no site has a patient with two images, or none has two patients.
    """
    values = np.linspace(lowest, highest, _BINS + 1, dtype=np.float64)
    counts = {name: np.rint(sums[f"scores.{name}"]).astype(np.int64) for name in _NAMES}
    if not counts["genuine"].any() or not counts["pairs"].any():
        raise UsageError("The validation patients of the sites have no pairs of images", "Add patients")
    seen = np.flatnonzero(counts["pairs"])
    reached = counts["pairs"][::-1].cumsum()[::-1][seen]
    return Calibration(
        genuine=_repeated(values, counts["genuine"]),
        disjoint=_repeated(values, counts["disjoint"]),
        curve=tuple(zip(values[seen].tolist(), reached.tolist(), strict=True)),
        patients=round(float(sums[f"scores.{PATIENTS}"])),
        pairs=int(counts["pairs"].sum()),
    )


def _repeated(values: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, ...]:
    return tuple(np.repeat(values, counts).tolist())
