"""Sums over all pairs of images, by patient: an exact AUC with its intervals, curves and a calibration.

A genuine pair shows one patient, an impostor pair two. The AUC is the probability that a genuine pair scores
higher than an impostor pair, ties counting half (Mann and Whitney 1947), over all pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.reid.calibration import Calibration, calibrate_patients
from medsanitize.verifiers.reid.evaluation.bootstrap import quadratic, ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Scores of a block of rows, 16 MiB as float32.
_MAX_BLOCK_SCORES: Final = 2**22


@dataclass(frozen=True, slots=True)
class GenuinePairs:
    """Pairs of images of one patient each, by ascending score.

    Attributes
    ----------
    first, second
        Indices of the two images.
    patients
        Patient of the pair.
    scores
        Score of the pair.
    wins
        Number of impostor pairs that score lower; ties count half.
    lower
        Number of impostor pairs that score strictly lower.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    patients: NDArray[np.intp]
    scores: NDArray[np.float32]
    wins: NDArray[np.float64]
    lower: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AllPairs:
    """Sums over pairs; ``n`` is the number of patients.

    Attributes
    ----------
    genuine
        The genuine pairs.
    sizes
        Number of impostor pairs of two patients, shape (n, n), with a zero diagonal.
    highest
        Highest score of two patients, shape (n, n).
    lost
        Comparisons of a genuine with an impostor pair that are lost to the impostor pairs of two patients,
        ties counting half, shape (n, n).
    lost_by
        Those that the genuine pairs of one patient (row) lose to impostor pairs of another (column).
    """

    genuine: GenuinePairs
    sizes: NDArray[np.float64]
    highest: NDArray[np.float32]
    lost: NDArray[np.float64]
    lost_by: NDArray[np.float64]

    @property
    def impostors(self) -> int:
        """Number of impostor pairs."""
        return round(float(self.sizes.sum()) / 2)

    @property
    def auc(self) -> float:
        """Exact area under the ROC curve over all pairs."""
        return float(self.genuine.wins.sum()) / (len(self.genuine.scores) * self.impostors)

    def auc_of(self, drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the AUC of each draw of patients.

        Parameters
        ----------
        drawn : array of float64, shape (draws, patients)
            How often each patient was drawn, see `medsanitize.verifiers.reid.evaluation.bootstrap.draws`.

        Returns
        -------
        array of float64, shape (draws,)
            Exact except for comparisons of three patients, none of whom was drawn exactly once: their losses
            are estimated in proportion.
        """
        import numpy as np

        off = drawn - 1
        own = np.bincount(self.genuine.patients, minlength=len(self.sizes)).astype(np.float64)
        lost_own = self.lost_by.sum(axis=1) / 2
        total = float(lost_own.sum())
        by_own, by_two = off @ lost_own, quadratic(off, self.lost) / 2
        lost = total + by_own + off @ self.lost.sum(axis=1) + by_two + quadratic(off, self.lost_by)
        if total:
            # The third-order term needs triples of patients, which are not stored: estimated in proportion.
            lost = lost + by_own * by_two / total
        compared = (drawn @ own) * quadratic(drawn, self.sizes) / 2
        # The estimated term can leave the range of a probability.
        return np.clip(1 - ratio(lost, compared), 0, 1)

    def calibration(self, chosen: NDArray[np.bool_] | None = None) -> Calibration:
        """Calibrate on the chosen patients, all by default; see `medsanitize.verifiers.reid.calibration`."""
        import numpy as np

        people = np.flatnonzero(np.ones(len(self.sizes), bool) if chosen is None else chosen)
        lowest = np.full(len(self.sizes), np.inf)
        np.minimum.at(lowest, self.genuine.patients, self.genuine.scores)
        own = lowest[people]
        first, second = np.triu_indices(len(people), 1)
        between = self.highest[people[first], people[second]].astype(np.float64)
        return calibrate_patients(own[np.isfinite(own)], between, first, second, patients=len(people))


def sum_pairs(scores: NDArray[np.float32], patients: NDArray[np.intp]) -> AllPairs:
    """Compute the sums over all pairs.

    Parameters
    ----------
    scores : array of float32, shape (images, images)
        Symmetric; higher is more similar. The diagonal is ignored.
    patients : array of int, shape (images,)
        Patients, numbered from 0 without gaps.
    """
    import numpy as np

    order = np.argsort(patients, kind="stable")
    people = int(patients.max()) + 1
    begins = np.searchsorted(patients[order], np.arange(people))
    ends = np.append(begins[1:], len(order))
    first, second, patient, ascending = _genuine(scores, order, begins, ends)
    lost, lost_by = np.zeros((people, people)), np.zeros((people, people))
    highest = np.empty((people, people), dtype=np.float32)
    lower, below = np.zeros(len(ascending), np.int64), np.zeros(len(ascending), np.int64)
    # In blocks of rows, as each needs several arrays of its size.
    for start, end in _blocks(begins, ends, len(order)):
        rows = slice(begins[start], ends[end - 1])
        block = scores[np.ix_(order[rows], order)]
        inner = begins[start:end] - begins[start]
        highest[start:end] = np.maximum.reduceat(np.maximum.reduceat(block, begins, axis=1), inner, axis=0)
        less, most = np.searchsorted(ascending, block), np.searchsorted(ascending, block, side="right")
        by_patient = np.add.reduceat(np.add.reduceat(less + most, begins, axis=1), inner, axis=0) / 2
        lost[start:end] = by_patient
        for person in range(start, end):
            part = slice(begins[person] - rows.start, ends[person] - rows.start)
            others = np.r_[0 : begins[person], ends[person] : len(order)]
            under = _cumulated(most[part, others], len(ascending))
            up_to = _cumulated(less[part, others], len(ascending))
            lower += under
            below += up_to
            here = others.size * (part.stop - part.start) - (under + up_to) / 2
            lost_by[:, person] = np.bincount(patient, weights=here, minlength=people)
    np.fill_diagonal(lost, 0)
    counts = (ends - begins).astype(np.float64)
    sizes = np.outer(counts, counts)
    np.fill_diagonal(sizes, 0)
    # Every impostor pair was counted in two rows, that of each of its patients.
    genuine = GenuinePairs(first, second, patient, ascending, (lower + below) / 4, lower // 2)
    return AllPairs(genuine, sizes, highest, lost, lost_by)


def count_above(
    scores: NDArray[np.float32], patients: NDArray[np.intp], threshold: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Count the pairs of two patients that reach the threshold of the first one, shape (n, n).

    Parameters
    ----------
    scores : array of float32, shape (images, images)
        Symmetric; higher is more similar.
    patients : array of int, shape (images,)
        Patients, numbered from 0 without gaps.
    threshold : array of float64, shape (n,)
        Threshold of each patient.
    """
    import numpy as np

    order = np.argsort(patients, kind="stable")
    begins = np.searchsorted(patients[order], np.arange(len(threshold)))
    ends = np.append(begins[1:], len(order))
    above = np.zeros((len(threshold), len(threshold)))
    for start, end in _blocks(begins, ends, len(order)):
        rows = order[begins[start] : ends[end - 1]]
        reached = (scores[np.ix_(rows, order)] >= threshold[patients[rows], None]).astype(np.int64)
        inner = begins[start:end] - begins[start]
        above[start:end] = np.add.reduceat(np.add.reduceat(reached, begins, axis=1), inner, axis=0)
    np.fill_diagonal(above, 0)
    return above


def _genuine(
    scores: NDArray[np.float32], order: NDArray[np.intp], begins: NDArray[np.intp], ends: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """First and second image, patient and score of every genuine pair, by ascending score."""
    import numpy as np

    empty = np.empty(0, dtype=np.intp)
    firsts, seconds, people = [empty], [empty], [empty]
    for person, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        one, other = np.triu_indices(end - begin, 1)
        firsts.append(order[begin + one])
        seconds.append(order[begin + other])
        people.append(np.full(len(one), person, dtype=np.intp))
    first, second, patient = np.concatenate(firsts), np.concatenate(seconds), np.concatenate(people)
    values = scores[first, second]
    ascending = np.argsort(values, kind="stable")
    return first[ascending], second[ascending], patient[ascending], values[ascending]


def _blocks(begins: NDArray[np.intp], ends: NDArray[np.intp], images: int) -> list[tuple[int, int]]:
    """Ranges of whole patients whose rows fit in a block."""
    blocks, start = [], 0
    for person in range(len(begins)):
        if person > start and (ends[person] - begins[start]) * images > _MAX_BLOCK_SCORES:
            blocks.append((start, person))
            start = person
    return [*blocks, (start, len(begins))]


def _cumulated(places: NDArray[np.intp], pairs: int) -> NDArray[np.int64]:
    """For each genuine pair, the number of ``places`` at or before it."""
    import numpy as np

    return np.cumsum(np.bincount(places.ravel(), minlength=pairs + 1)[:pairs]).astype(np.int64)
