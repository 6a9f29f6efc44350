"""Validation measure for the choice of an epoch; ``medsanitize evaluate`` measures reported figures."""

from __future__ import annotations

import numpy as np
from medsanitize.verifiers.reid.evaluation.retrieval_metrics import rank
from medsanitize.verifiers.reid.evaluation.score_matrix import distance_scores
from numpy.typing import NDArray


def mean_average_precision(vectors: NDArray[np.float32], patients: NDArray[np.int64]) -> float:
    """Compute mAP@R by Euclidean distance (Packhäuser et al. 2022, Eq. 3); 0 without mates.

    Parameters
    ----------
    vectors : array of float32, shape (n, dimension)
        Embeddings.
    patients : array of int64, shape (n,)
        Patient of each image.
    """
    found = rank(distance_scores(vectors), patients.astype(np.intp)).average_precision
    return float(found.mean()) if len(found) else 0.0
