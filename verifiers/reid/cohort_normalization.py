"""Matches counted in deviations from the matches with strangers of the same dataset.

How alike images of different patients look depends on the hospital: its devices, their processing, its
patients. A threshold on the raw match of one hospital may accept most strangers of another. What travels is
how far a match stands out from the matches that each of its two images has with *strangers of the same
images*: the symmetric score normalization of speaker recognition (Auckenthaler et al. 2000, Kenny 2010),
adaptive if only the nearest strangers count (Sturim and Reynolds 2005, Matejka et al. 2017).

Strangers of a pair are images of a third patient. If the other image of the pair counted as a stranger, a
pair of two patients would lower its own score, a pair of one patient would not, and both accuracy and false
match rate would look better than they are at a pair that no dataset knows.
"""

from __future__ import annotations

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


def within_dataset(
    matches: NDArray[np.floating], patients: NDArray[np.integer], *, least: float = 0.0
) -> NDArray[np.float64]:
    """Count the matches of the images of one dataset in deviations, leaving out both patients of each pair.

    Parameters
    ----------
    matches : array, shape (images, images)
        Match of each image with each; symmetric.
    patients : array of int, shape (images,)
        Patient of each image.
    least : float
        Quantile of the images' means and deviations below which none counts: an image that resembles nobody
        is taken for one that resembles strangers as much as that share of the images do.

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
    mean, variance, count = (np.stack(one) for one in zip(*rows, strict=True))
    # An image's own patient takes nothing away: these are the values by all its strangers.
    of_images = [each[np.arange(len(numbers)), numbers] for each in (mean, variance)]
    deviation = _steady(variance, count, of_images[1])
    if least:
        mean = np.maximum(mean, np.quantile(of_images[0], least))
        own = deviation[np.arange(len(numbers)), numbers]
        deviation = np.maximum(deviation, np.quantile(own, least))
    above = (np.asarray(matches, np.float64) - mean[:, numbers]) / deviation[:, numbers]
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
