"""Blind extraction after Carlini et al. 2023: images that a generator repeats, and the patients they show.

A distance says little by itself, because some images resemble many. Two images are alike if their distance is
at most half of that to the images that come next in order of distance, which is so for copies only. Without
real images, samples that are alike are taken for one memorized image. With them, the nearest patient of a
sample is searched among training and holdout patients together, so that a generator that memorized nothing
finds as large a share of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Half, as by Carlini et al.; of the next 10 and not 50, because a hospital has hundreds of images.
ALIKE: Final = 0.5
_NEXT: Final = 10
_TINY: Final = 1e-9


@dataclass(frozen=True, slots=True, repr=False)
class NearPatients:
    """How near each synthetic image is to one real image.

    Attributes
    ----------
    rows
        Row of the real image, ``(n,)``.
    scale
        Mean distance to the nearest images of other patients, ``(n,)``.
    scores
        1 minus the distance in parts of the scale; alike from ``1 - ALIKE``.
    """

    rows: NDArray[np.int64]
    scale: NDArray[np.float64]
    scores: NDArray[np.float64]


def groups_of_repeated(distances: NDArray[np.float64]) -> NDArray[np.int64]:
    """Group samples that are alike, without any other image.

    Parameters
    ----------
    distances
        Between all samples, ``(n, n)``.

    Returns
    -------
    array of int
        Group of each sample, from 0; -1 for a sample like no other.
    """
    import numpy as np

    bounds = _bounds(distances)
    # Mutual: a sample between two memorized images belongs to neither.
    alike = distances <= np.minimum(bounds[:, None], bounds)
    groups = np.full(len(distances), -1, np.int64)
    number = 0
    # The sample with the most others around it first: groups do not grow along chains.
    while (counts := alike.sum(1)).max(initial=0) > 1:
        members = alike[int(counts.argmax())].copy()
        groups[members] = number
        alike[members] = False
        alike[:, members] = False
        number += 1
    return groups


def _bounds(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance up to which samples are alike, ``(n,)``; 0 where no gap follows."""
    import numpy as np

    near = np.sort(distances, axis=1)[:, 1:]
    if near.shape[1] <= _NEXT:
        return np.zeros(len(distances))
    sums = np.pad(near.cumsum(1), ((0, 0), (1, 0)))
    following = (sums[:, 1 + _NEXT :] - sums[:, 1:-_NEXT]) / _NEXT
    before = near[:, : following.shape[1]]
    # Sorted: the largest distance before a gap is that before the last one.
    return np.asarray(np.where(before <= ALIKE * following, before, 0).max(1))


def nearest_patients(distances: NDArray[np.float64], patients: NDArray[np.int64]) -> NearPatients:
    """Find the most similar real image of each synthetic image.

    Parameters
    ----------
    distances
        Of synthetic images and real ones, ``(n, m)``.
    patients
        Patient of each real image, ``(m,)``, at least two.
    """
    import numpy as np

    return near_to(distances, np.asarray(distances.argmin(1), np.int64), patients)


def near_to(
    distances: NDArray[np.float64], rows: NDArray[np.int64], patients: NDArray[np.int64]
) -> NearPatients:
    """Score how near each synthetic image is to one real image.

    Parameters
    ----------
    distances, patients
        As in `nearest_patients`.
    rows
        Row of that image, ``(n,)``.
    """
    import numpy as np

    # Of other patients: a patient with many images must not hide that one of them was copied.
    others = np.where(patients == patients[rows][:, None], np.inf, distances)
    near = np.sort(others, axis=1)[:, :_NEXT]
    there = np.isfinite(near)
    scale = np.where(there, near, 0).sum(1) / there.sum(1)
    own = distances[np.arange(len(rows)), rows]
    return NearPatients(rows, scale, 1 - own / np.maximum(scale, _TINY))
