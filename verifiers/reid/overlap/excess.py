"""Whether patients of two datasets are more alike than strangers among these images are.

Nothing in this test comes from other images. Every match of two images is counted in deviations from the
matches of each with strangers in both datasets (`medsanitize.verifiers.reid.cohort_normalization`), and the
most similar images of two patients speak for them. Until the test says otherwise, patients of different
datasets are different people, so that a pair within a dataset and one across are counted alike. The strangers
within both datasets then say how alike strangers are: above their 95th percentile the excess is exponential,
and the tail reaches as far as a few thousand pairs cannot count. The average excess is taken as uncertain, by
the number of pairs it rests on (the tail of the next exceedance is then Pareto's), so that few strangers
claim little.

Across the datasets every patient takes part in one pair, the best first, so that one patient who resembles
everybody counts once. If no patient is in both, strangers reach the score of the best pair, of the second and
of the third as often as a Poisson variable says; the least likely of these three counts, at a third of the
significance level each (Bonferroni).

Images of a rare kind, such as a few CT localizers among radiographs, are alike in all patients and unlike the
images around them, so that two of them stand out as one patient does. An image that resembles strangers less
than 70 % of the images do is therefore counted as if it were one of these, and a pair is no evidence if each
of its images is among the fifth of its dataset that resembles strangers least.

Datasets of different origin have less similar pairs across than within, and one person under two IDs makes
the tail within longer: both make the test more careful.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.reid.cohort_normalization import FEWEST_STRANGERS, within_dataset

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Significance level. With that of more matches than chance, one verdict in a hundred may be wrong.
LEVEL: Final = 0.009
# Share of the pairs of strangers whose excess makes the tail.
TAIL: Final = 0.05
# With fewer exceedances, the tail says nothing.
FEWEST_EXCEEDANCES: Final = 15
RANKS: Final = (1, 2, 3)
# Share of the images of a dataset, those least like its strangers, two of which are no evidence. Found on the
# localizers of benchmarks/overlap.py: with a tenth, more pairs of these stand out; with 0.3, fewer patients.
UNUSUAL: Final = 0.2
# Quantile of the images' likeness to strangers below which none counts. Chosen on rare kinds among the
# training images of benchmarks/overlap.py: without it, pairs of inverted radiographs stand out.
LEAST: Final = 0.3


@dataclass(frozen=True, slots=True)
class Excess:
    """Result of the test.

    Attributes
    ----------
    p_value
        Probability of pairs as alike if no patient is in both datasets; 1 where the test cannot be made.
    expected
        Pairs of strangers that are expected to be as alike as the last of ``pairs``.
    pairs
        Rows of the most similar images of each of the pairs of patients behind the p-value, best first.
    strangers
        Pairs of strangers within the datasets; 0 where the test cannot be made.
    """

    p_value: float = 1.0
    expected: float = math.inf
    pairs: tuple[tuple[int, int], ...] = ()
    strangers: int = 0

    @property
    def significant(self) -> bool:
        """Whether strangers are alike so seldom that patients must be in both datasets."""
        return self.p_value <= LEVEL


@dataclass(frozen=True, slots=True, repr=False)
class Matches:
    """Raw matches of all pairs of images; higher is more similar.

    Attributes
    ----------
    within
        Matches of the images of each dataset with each other.
    across
        Matches of the images of the first dataset with those of the second.
    """

    within: tuple[NDArray[np.floating], NDArray[np.floating]]
    across: NDArray[np.floating]


def excess_of(matches: Matches, patients: tuple[NDArray[np.integer], NDArray[np.integer]]) -> Excess:
    """Test whether patients are in both datasets.

    Parameters
    ----------
    matches : Matches
        Raw matches of the images.
    patients : (array of int, array of int)
        Patient of each image of the first and of the second dataset, all known apart.
    """
    import numpy as np

    # Too few strangers of either dataset do not tell how alike its images are.
    if min(_fewest_strangers(people) for people in patients) < FEWEST_STRANGERS:
        return Excess()
    scores, count = _in_deviations(matches, patients), len(patients[0])
    unusual = [_unusual(matches.within[side], patients[side]) for side in (0, 1)]
    rare = np.concatenate(unusual)
    scores[np.ix_(rare, rare)] = -np.inf
    inside, across = (scores[:count, :count], scores[count:, count:]), scores[:count, count:]
    strangers = np.concatenate(
        [_strangers(part, people) for part, people in zip(inside, patients, strict=True)]
    )
    best = _one_to_one(across, patients)
    above = int(TAIL * len(strangers))
    if above < FEWEST_EXCEEDANCES or not best:
        return Excess()
    pairs = len(np.unique(patients[0])) * len(np.unique(patients[1]))
    return _judged(np.sort(strangers)[-above - 1 :], len(strangers), pairs, best)


def _fewest_strangers(people: NDArray[np.integer]) -> int:
    """Images of other patients in the dataset, of the patient who has the fewest of them."""
    import numpy as np

    return len(people) - int(np.unique(people, return_counts=True)[1].max(initial=0))


def _in_deviations(
    matches: Matches, patients: tuple[NDArray[np.integer], NDArray[np.integer]]
) -> NDArray[np.float64]:
    """Scores of all pairs of images of both datasets, those of the first dataset first."""
    import numpy as np

    one, other = matches.within
    joined = np.block([[one, matches.across], [matches.across.T, other]])
    first, second = (_numbered(people) for people in patients)
    return within_dataset(joined, np.concatenate([first[1], first[0] + second[1]]), least=LEAST)


def _unusual(matches: NDArray[np.floating], people: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Mark the images whose median match with strangers of their dataset is among the lowest."""
    import numpy as np

    apart = people[:, None] != people[None]
    typical = np.array([np.median(row[others]) for row, others in zip(matches, apart, strict=True)])
    return np.asarray(typical < np.quantile(typical, UNUSUAL))


def _strangers(scores: NDArray[np.float64], people: NDArray[np.integer]) -> NDArray[np.float64]:
    """Highest score of every two patients of one dataset."""
    import numpy as np

    count, numbers = _numbered(people)
    highest = np.full((count, count), -np.inf)
    np.maximum.at(highest, (numbers[:, None], numbers[None]), scores)
    return np.asarray(highest[np.triu_indices(count, 1)])


def _one_to_one(
    scores: NDArray[np.float64], patients: tuple[NDArray[np.integer], NDArray[np.integer]]
) -> list[tuple[float, int, int]]:
    """The best pairs of images, best first, without a patient in two of them."""
    import numpy as np

    left, found = scores.copy(), list[tuple[float, int, int]]()
    while len(found) < max(RANKS) and np.isfinite(left.max(initial=-np.inf)):
        row, column = (int(one) for one in np.unravel_index(int(left.argmax()), left.shape))
        found.append((float(left[row, column]), row, column))
        left[patients[0] == patients[0][row]] = -np.inf
        left[:, patients[1] == patients[1][column]] = -np.inf
    return found


def _judged(
    tail: NDArray[np.float64], strangers: int, pairs: int, best: list[tuple[float, int, int]]
) -> Excess:
    """Compare the best pairs with the tail of the strangers, whose first entry is its threshold."""
    from scipy.special import gammainc  # type: ignore[import-untyped]

    count = len(tail) - 1
    excess = max(float((tail[1:] - tail[0]).mean()), 1e-9)
    found = list[tuple[float, float, int]]()
    for rank in RANKS[: len(best)]:
        above = max(best[rank - 1][0] - float(tail[0]), 0.0)
        expected = pairs * count / strangers * (1 + above / (count * excess)) ** -count
        # gammainc(k, m) is the probability of at least k Poisson events of mean m.
        found.append((min(1.0, len(RANKS) * float(gammainc(rank, expected))), expected, rank))
    p_value, expected, rank = min(found)
    return Excess(p_value, expected, tuple((row, column) for _, row, column in best[:rank]), strangers)


def _numbered(people: NDArray[np.integer]) -> tuple[int, NDArray[np.intp]]:
    import numpy as np

    names, numbers = np.unique(people, return_inverse=True)
    return len(names), numbers
