"""Matches counted in deviations from the matches with strangers of the same dataset.

How alike images of different patients look depends on the hospital: its devices, their processing, its
patients. A threshold on the raw match of one hospital may accept most strangers of another. What travels is
how far a match stands out from the matches that each of its two images has with *strangers of its own
dataset*: the symmetric score normalization of speaker recognition (Auckenthaler et al. 2000, Kenny 2010),
adaptive if only the nearest strangers count (Sturim and Reynolds 2005, Matejka et al. 2017).

Strangers of a pair are images of a third patient. If the other image of the pair counted as a stranger, a
pair of two patients would lower its own score, a pair of one patient would not, and both accuracy and false
match rate would look better than they are at a pair that no dataset knows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# With fewer, the false match rate at a threshold of a large dataset was twice as high.
FEWEST_STRANGERS: Final = 30
# Share of the strangers that count, the nearest ones: a number would mean more in a small dataset.
NEAREST: Final = 0.5
# The deviation of an image is estimated with that of the dataset, which counts as this many strangers.
PRIOR_STRANGERS: Final = 10.0
# Equal matches have no deviation to divide by.
LEAST_DEVIATION: Final = 1e-6


@dataclass(frozen=True, slots=True)
class StrangerMatches:
    """How images match strangers of their dataset; both arrays have one entry per image.

    Attributes
    ----------
    mean, deviation
        Mean and standard deviation of the matches of the image.
    """

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def at(self, rows: NDArray[np.integer]) -> StrangerMatches:
        """Select images by row; one row may occur several times."""
        return StrangerMatches(self.mean[rows], self.deviation[rows])


def measure_strangers(
    matches: NDArray[np.floating],
    patients: NDArray[np.integer] | None,
    cohort: NDArray[np.integer] | None = None,
) -> StrangerMatches:
    """Measure the matches of images with their nearest strangers, half of all.

    For pairs with images of other datasets; for pairs of one dataset see `within_dataset`.

    Parameters
    ----------
    matches : array, shape (images, cohort)
        Match of each image with each image of the cohort; higher is more similar. Without ``cohort``, both
        are the same images in the same order, and the diagonal has no effect.
    patients : array of int, shape (images,), or None
        Patient of each image. None if nobody knows them: the images of a patient then cannot be left out.
        Median and deviation below it, of all matches, take the place of mean and deviation, as the images of
        one patient add high matches only.
    cohort : array of int, shape (cohort,), optional
        Patients of a cohort from the same dataset, numbered like ``patients``.

    Returns
    -------
    StrangerMatches
        One entry per image.

    Raises
    ------
    UsageError
        If an image has fewer than `FEWEST_STRANGERS` strangers.
    """
    import numpy as np

    # Where nobody knows the patients, every other image is a stranger.
    own = np.arange(len(matches)) if patients is None else patients
    theirs = own if cohort is None else cohort
    summary = _of_all if patients is None else _of_nearest
    found = [summary(_enough(values[theirs != mine])) for values, mine in zip(matches, own, strict=True)]
    mean, variance, count = np.array(found, np.float64).reshape(-1, 3).T
    return StrangerMatches(mean, _steady(variance, count, variance))


def _steady(
    variance: NDArray[np.float64], count: NDArray[np.float64], of_images: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Deviations; few strangers estimate one badly, and the smallest would make the highest scores."""
    import numpy as np

    typical = of_images.mean() if len(of_images) else 0.0
    shared = (count * variance + PRIOR_STRANGERS * typical) / (count + PRIOR_STRANGERS)
    return np.asarray(np.maximum(np.sqrt(shared), LEAST_DEVIATION))


def _enough(matches: NDArray[np.floating]) -> NDArray[np.float64]:
    if len(matches) < FEWEST_STRANGERS:
        raise UsageError(
            f"An image can be compared with {len(matches)} images of other patients, but"
            f" {FEWEST_STRANGERS} are needed",
            "Add images of other patients",
        )
    return matches.astype("float64")


def _of_nearest(matches: NDArray[np.float64]) -> tuple[float, float, int]:
    """Mean, variance and number of the highest matches."""
    import numpy as np

    highest = np.sort(matches)[-math.ceil(NEAREST * len(matches)) :]
    return float(highest.mean()), float(highest.var()), len(highest)


def _of_all(matches: NDArray[np.float64]) -> tuple[float, float, int]:
    """Median, variance below it, and number of the matches."""
    import numpy as np

    middle = float(np.median(matches))
    return middle, float(np.mean((matches[matches <= middle] - middle) ** 2)), len(matches)


def within_dataset(matches: NDArray[np.floating], patients: NDArray[np.integer]) -> NDArray[np.float64]:
    """Count the matches of the images of one dataset in deviations, leaving out both patients of each pair.

    Parameters
    ----------
    matches : array, shape (images, images)
        Match of each image with each; symmetric.
    patients : array of int, shape (images,)
        Patient of each image.

    Returns
    -------
    array of float64, shape (images, images)
        Symmetric. The diagonal has no meaning.

    Raises
    ------
    UsageError
        If an image has fewer than `FEWEST_STRANGERS` strangers.
    """
    import numpy as np

    numbers = np.unique(patients, return_inverse=True)[1]
    rows = [
        _without_each(_enough(values[numbers != mine]), numbers[numbers != mine], int(numbers.max()) + 1)
        for values, mine in zip(matches, numbers, strict=True)
    ]
    # An image's own patient takes nothing away: those are the variances by all its strangers.
    of_images = np.array([variance[mine] for (_, variance, _), mine in zip(rows, numbers, strict=True)])
    mean, variance, count = (np.stack(one)[:, numbers] for one in zip(*rows, strict=True))
    above = (np.asarray(matches, np.float64) - mean) / _steady(variance, count, of_images)
    return np.asarray((above + above.T) / 2)


def _without_each(
    matches: NDArray[np.float64], patients: NDArray[np.intp], people: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean, variance and number of the nearest strangers of one image, without each patient in turn."""
    import numpy as np

    order = np.argsort(-matches, kind="stable")
    # From their mean, so that the difference of squares below loses no digits.
    center = matches.mean()
    values, owners = matches[order] - center, patients[order]
    sizes = np.bincount(owners, minlength=people)
    kept = np.ceil(NEAREST * (len(values) - sizes)).astype(np.intp)
    by_owner = np.argsort(owners, kind="stable")
    # The how-manieth image of its patient each one is, nearest first.
    among = np.empty(len(values), np.intp)
    among[by_owner] = np.arange(len(values)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # Those that would be among the nearest if their patient were left out only from here on.
    gone = np.arange(len(values)) - among < kept[owners]
    end = kept + np.bincount(owners, gone, people).astype(np.intp)
    sums = []
    for power in (values, values**2):
        total = np.concatenate([[0.0], np.cumsum(power)])
        sums.append((total[end] - np.bincount(owners, gone * power, people)) / kept)
    return sums[0] + center, np.maximum(sums[1] - sums[0] ** 2, 0), kept.astype(np.float64)


def in_deviations(
    matches: NDArray[np.floating], one: StrangerMatches, other: StrangerMatches
) -> NDArray[np.float64]:
    """Count matches in deviations above the matches with strangers, the mean over both images.

    Parameters
    ----------
    matches : array, shape (n,) or (n, m)
        Matches of pairs, or of all rows with all columns.
    one, other : StrangerMatches
        Strangers of the first and of the second image of each pair, each of its own dataset: n entries each,
        or n and m.

    Returns
    -------
    array of float64
        Of the shape of ``matches``; exchanging the two images changes nothing.
    """
    import numpy as np

    exact = np.asarray(matches, np.float64)
    shape = (-1, 1) if exact.ndim == 2 else (-1,)
    first = (exact - one.mean.reshape(shape)) / one.deviation.reshape(shape)
    return np.asarray((first + (exact - other.mean) / other.deviation) / 2)
