"""How well vectors find the patient, for choosing an epoch; what is reported is measured by ``evaluate``."""

from __future__ import annotations

import numpy as np
from medsanitize.verifiers.reid.evaluation.retrieval_metrics import rank
from medsanitize.verifiers.reid.evaluation.score_matrix import distance_scores
from numpy.typing import NDArray


def mean_average_precision(vectors: NDArray[np.float32], patients: NDArray[np.int64]) -> float:
    """mAP@R by Euclidean distance over the images that have a mate; 0 where none has."""
    found = rank(distance_scores(vectors), patients.astype(np.intp)).average_precision
    return float(found.mean()) if len(found) else 0.0
