"""Calibration from counts of scores, which can be added over sites.

Scores are rounded to a fixed grid, each in the direction that makes the error rate larger: no bound becomes
too small. Every site scores its own patients only; the patients of all sites bound the rates.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import Calibration, calibrate_patients
from medsanitize.verifiers.reid.evaluation.pairwise_auc import AllPairs
from medsanitize.verifiers.reid.training.sums import Arrays, Summed
from numpy.typing import NDArray

_NAMES = ("genuine", "disjoint", "pairs")
PATIENTS = "patients"
# Of a distance in float32.
_ROUNDING = 1e-5
# More than all hospitals have: more scores would fill the memory.
MOST_PATIENTS = 1 << 22
Grid = NDArray[np.float64]


@cache
def distance_grid() -> Grid:
    """Grid of negated distances of embeddings of unit length, in steps of 1/4096."""
    return np.linspace(-2.0, 0.0, 8193)


@cache
def score_grid() -> Grid:
    """Grid of scores between 0 and 1: finer towards 1, where the scores of a good model lie.

    Every value is a sum of few powers of two, and thus the same on every machine.
    """
    lower = np.arange(2048) / 4096
    # Each step halves the distance to 1, in 512 parts, down to the precision of float32.
    upper = [1 - 2.0**-octave * (1 - np.arange(512) / 1024) for octave in range(1, 24)]
    return np.concatenate([lower, *upper, [1.0]])


def lowered(scores: NDArray[np.float64], grid: Grid) -> NDArray[np.intp]:
    """Place of each score on the grid, rounded down."""
    return np.clip(np.searchsorted(grid, scores, side="right") - 1, 0, len(grid) - 1)


def raised(scores: NDArray[np.float64], grid: Grid) -> NDArray[np.intp]:
    """Place of each score on the grid, rounded up."""
    return np.clip(np.searchsorted(grid, scores, side="left"), 0, len(grid) - 1)


def counted_scores(most: int, grid: Grid) -> dict[str, Summed]:
    """Return what is summed; ``most`` bounds the number of patients."""
    return {
        **{f"scores.{name}": Summed((len(grid),), float(most) ** 2) for name in _NAMES},
        f"scores.{PATIENTS}": Summed((), float(most)),
    }


def count_pairs(pairs: AllPairs | None, grid: Grid) -> dict[str, NDArray[np.float64]]:
    """Count the scores of all pairs of a site's images; None without two patients."""
    if pairs is None:
        return count_scores(np.empty(0), np.empty((0, 0)), grid)
    own = np.full(len(pairs.sizes), np.inf)
    np.minimum.at(own, pairs.genuine.patients, pairs.genuine.scores)
    return count_scores(own[np.isfinite(own)], pairs.highest.astype(np.float64), grid)


def count_scores(
    genuine: NDArray[np.float64], highest: NDArray[np.float64], grid: Grid
) -> dict[str, NDArray[np.float64]]:
    """Count the scores of a site on a grid.

    Parameters
    ----------
    genuine : array of float64, shape (patients with two images,)
        Lowest score within each patient.
    highest : array of float64, shape (patients, patients)
        Highest score of every two patients; the diagonal is ignored.
    grid : array of float64
        Grid of the scores, ascending.

    Raises
    ------
    UsageError
        A score is outside the grid: rounding would understate an error rate.
    """
    people = len(highest)
    first, second = np.triu_indices(people, 1)
    between = highest[first, second]
    for scores in (genuine, between):
        # Negated, so that NaN is refused as well.
        if len(scores) and not (scores.min() >= grid[0] - _ROUNDING and scores.max() <= grid[-1] + _ROUNDING):
            raise UsageError(
                "The model's scores are outside of the range in which they are counted",
                "Calibrate a model whose embeddings have unit length",
            )
    # The choice of disjoint pairs does not look at scores: any genuine score will do.
    chosen: tuple[float, ...] = ()
    if people > 1:
        chosen = calibrate_patients(np.zeros(1), between, first, second, patients=people).disjoint
    places = {
        "genuine": lowered(genuine, grid),
        "disjoint": raised(np.array(chosen, np.float64), grid),
        "pairs": raised(between, grid),
    }
    counts = {f"scores.{name}": counts_at(place, grid) for name, place in places.items()}
    return {**counts, f"scores.{PATIENTS}": np.array(float(people))}


def counts_at(places: NDArray[np.intp], grid: Grid) -> NDArray[np.float64]:
    """Count how often each place of a grid occurs."""
    return np.bincount(places, minlength=len(grid)).astype(np.float64)


def calibration_of(sums: Arrays, grid: Grid) -> Calibration:
    """Return the calibration of the patients of all sites.

    Raises
    ------
    UsageError
        If no site has a patient with two images, or none has two patients.
    """
    found = strangers_of(sums, grid)
    if not found.genuine:
        raise UsageError("The patients of the sites have no pairs of images", "Add patients")
    return found


def strangers_of(sums: Arrays, grid: Grid) -> Calibration:
    """Return the calibration as `calibration_of` does; ``genuine`` may be empty.

    Raises
    ------
    UsageError
        If no site has two patients.
    """
    counts = {name: whole_counts(sums[f"scores.{name}"]) for name in _NAMES}
    if not counts["pairs"].any():
        raise UsageError("No site has two patients to compare", "Add patients")
    seen = np.flatnonzero(counts["pairs"])
    reached = counts["pairs"][::-1].cumsum()[::-1][seen]
    return Calibration(
        genuine=tuple(repeated(counts["genuine"], grid).tolist()),
        disjoint=tuple(repeated(counts["disjoint"], grid).tolist()),
        curve=tuple(zip(grid[seen].tolist(), reached.tolist(), strict=True)),
        patients=round(float(sums[f"scores.{PATIENTS}"])),
        pairs=int(counts["pairs"].sum()),
    )


def whole_counts(summed: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return a sum of counts as whole numbers.

    Raises
    ------
    UsageError
        One is negative: a site gave numbers that are no counts.
    """
    counts = np.rint(summed).astype(np.int64)
    if counts.min(initial=0) < 0:
        raise _no_counts()
    return counts


def repeated(counts: NDArray[np.int64], grid: Grid) -> NDArray[np.float64]:
    """Return each value of a grid as often as it was counted, ascending.

    Raises
    ------
    UsageError
        There are more than all hospitals have patients: a site gave numbers that are no counts.
    """
    if counts.sum(dtype=np.float64) > MOST_PATIENTS:
        raise _no_counts()
    return np.repeat(grid, counts)


def _no_counts() -> UsageError:
    return UsageError(
        "The sums of the sites are no counts of patients", "Ask the sites whether one has changed its program"
    )
