"""Multinomial logistic regression with balanced class weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# L2 penalty, relative to the mean loss per image on standardized features.
DECAY: Final = 1.0


@dataclass(frozen=True, slots=True)
class Softmax:
    """A fitted classifier: ``weight`` is ``(classes, d)``, ``bias`` is ``(classes,)``."""

    weight: NDArray[np.float64]
    bias: NDArray[np.float64]

    def predict(self, features: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the most probable class of each row, ``(n,)``."""
        import numpy as np

        return np.asarray((features @ self.weight.T + self.bias).argmax(1), np.int64)


def fit_softmax(features: NDArray[np.float32], classes: NDArray[np.int64], count: int) -> Softmax:
    """Fit by L-BFGS, starting from zero, so that the result is deterministic.

    Parameters
    ----------
    features
        ``(n, d)``.
    classes
        ``(n,)``, from 0 to ``count - 1``.
    count
        Number of classes. A class without images is never predicted.
    """
    import numpy as np
    from scipy.optimize import minimize  # type: ignore[import-untyped]
    from scipy.special import log_softmax  # type: ignore[import-untyped]

    present, wanted = np.unique(classes, return_inverse=True)
    mean, deviation = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
    # The floor keeps nearly constant features, which are mostly noise, from being scaled up.
    deviation = np.maximum(deviation, 1e-3 * max(float(deviation.max()), 1e-12))
    inputs = (features - mean) / deviation
    answers = np.eye(len(present))[wanted]
    # Each class has the same total weight, however many images it has.
    share = (1 / (len(present) * np.bincount(wanted)))[wanted]

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        table = flat.reshape(len(present), -1)
        weight, bias = table[:, :-1], table[:, -1]
        logs = log_softmax(inputs @ weight.T + bias, axis=1)
        value = -(share * logs[np.arange(len(wanted)), wanted]).sum() + 0.5 * DECAY * (weight**2).sum()
        off = (np.exp(logs) - answers) * share[:, None]
        slope = np.column_stack([off.T @ inputs + DECAY * weight, off.sum(0)])
        return float(value), slope.ravel()

    start = np.zeros(len(present) * (features.shape[1] + 1))
    table = minimize(loss, start, jac=True, method="L-BFGS-B").x.reshape(len(present), -1)
    weight = np.zeros((count, features.shape[1]))
    bias = np.full(count, -np.inf)
    # Undo the standardization, so that predict() takes raw features.
    weight[present] = table[:, :-1] / deviation
    bias[present] = table[:, -1] - weight[present] @ mean
    return Softmax(weight, bias)
