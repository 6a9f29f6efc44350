"""Retrieval metrics of Packhäuser et al. 2022: P@1, R-precision and mAP@R.

A query has R other images of its patient (mates). P@1 is whether the nearest image is a mate, R-precision the
share of mates among the R nearest (Eq. 2), and mAP@R the mean over queries (Eq. 3) of AP@R, which is
``(1/R) sum_{i<=R} P@i rel@i`` (Eq. 4). Images without a mate are not queries, but stay in the gallery.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.verifiers.reid.evaluation.bootstrap import Interval, intervals, ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Queries:
    """Metrics of each query; all arrays have one entry per query.

    Attributes
    ----------
    images
        Index of the query among the images.
    precision_at_1, r_precision, average_precision
        P@1, R-precision and AP@R of the query.
    """

    images: NDArray[np.intp]
    precision_at_1: NDArray[np.float64]
    r_precision: NDArray[np.float64]
    average_precision: NDArray[np.float64]

    def of(self, chosen: NDArray[np.bool_]) -> Queries:
        """Select the queries whose image is chosen.

        Parameters
        ----------
        chosen : array of bool, shape (images,)
            Whether an image is chosen.
        """
        keep = chosen[self.images]
        return Queries(
            self.images[keep],
            self.precision_at_1[keep],
            self.r_precision[keep],
            self.average_precision[keep],
        )


@dataclass(frozen=True, slots=True)
class RetrievalMetrics:
    """Means over queries, with 95 % intervals over patients by name of the metric."""

    queries: int
    precision_at_1: float
    r_precision: float
    map_at_r: float
    intervals: dict[str, Interval]


def rank(
    scores: NDArray[np.float32],
    patients: NDArray[np.intp],
    differs: Callable[[int], NDArray[np.bool_]] | None = None,
) -> Queries:
    """Rank all other images for every image that has a mate.

    Parameters
    ----------
    scores : array of float32, shape (images, images)
        Higher is more similar. Of equal scores the first image counts as the nearer one.
    patients : array of int, shape (images,)
        Patient of each image.
    differs : callable, optional
        Maps a query to the images that may be its mates, shape (images,); other images of its patient are
        then removed from its gallery.

    Returns
    -------
    Queries
        Metrics of each query.
    """
    import numpy as np

    found: list[tuple[int, float, float, float]] = []
    for query in range(len(scores)):
        same = patients == patients[query]
        mates = same.copy() if differs is None else same & differs(query)
        mates[query] = False
        count = int(mates.sum())
        if not count:
            continue
        # Images of the patient that may not be mates are removed: neither hits nor misses.
        gallery = np.flatnonzero(mates | ~same)
        alike = scores[query, gallery]
        # All images that reach the R-th best score: the order of ties must not depend on the partition.
        near = np.flatnonzero(alike >= np.partition(alike, len(alike) - count)[len(alike) - count])
        nearest = near[np.argsort(-alike[near], kind="stable")[:count]]
        hits = mates[gallery[nearest]].astype(np.float64)
        precision = np.cumsum(hits) / np.arange(1, count + 1)
        found.append((query, hits[0], hits.mean(), float(precision @ hits) / count))
    columns = np.array(found, dtype=np.float64).reshape(-1, 4).T
    return Queries(columns[0].astype(np.intp), columns[1], columns[2], columns[3])


def summarize(queries: Queries, patients: NDArray[np.intp]) -> RetrievalMetrics | None:
    """Average over queries; None if there is no query.

    Parameters
    ----------
    queries : Queries
        Metrics of each query.
    patients : array of int, shape (images,)
        Patient of each image, not only of the queries.
    """
    import numpy as np

    if not len(queries.images):
        return None
    queried = patients[queries.images]
    values = {
        "precision_at_1": queries.precision_at_1,
        "r_precision": queries.r_precision,
        "map_at_r": queries.average_precision,
    }
    people = int(patients.max()) + 1
    counts = np.bincount(queried, minlength=people).astype(np.float64)
    sums = {name: np.bincount(queried, weights=one, minlength=people) for name, one in values.items()}
    found = intervals(
        people, lambda drawn: {name: ratio(drawn @ one, drawn @ counts) for name, one in sums.items()}
    )
    return RetrievalMetrics(
        queries=len(queried),
        precision_at_1=float(values["precision_at_1"].mean()),
        r_precision=float(values["r_precision"].mean()),
        map_at_r=float(values["map_at_r"].mean()),
        intervals=found,
    )
