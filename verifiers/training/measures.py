"""How well vectors find the patient, for choosing an epoch; what is reported is measured by ``evaluate``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mean_average_precision(vectors: NDArray[np.float32], patients: NDArray[np.int64]) -> float:
    """mAP@R by Euclidean distance over the images that have a mate (Musgrave et al. 2020)."""
    same = patients[:, None] == patients[None, :]
    squares = (vectors**2).sum(1)
    distances = squares[:, None] + squares[None, :] - 2 * vectors @ vectors.T
    np.fill_diagonal(distances, np.inf)
    np.fill_diagonal(same, val=False)
    total = []
    for row in np.flatnonzero(same.any(1)):
        relevant = int(same[row].sum())
        hits = same[row, np.argsort(distances[row], kind="stable")[:relevant]]
        precision = np.cumsum(hits) / np.arange(1, relevant + 1)
        total.append(float((precision * hits).sum() / relevant))
    return float(np.mean(total)) if total else 0.0
