"""Class agreement: a classifier trained on real or synthetic features is tested on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from medsanitize.generators.quality.interval import Estimate
from medsanitize.generators.quality.logistic_regression import fit_softmax
from medsanitize.verifiers.reid.evaluation.bootstrap import intervals, ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Five parts keep 80 % of the patients for training in each.
FOLDS: Final = 5
# The seeds of this package differ, so that the metrics do not share their random draws.
_SEED: Final = 20_241_021
Side = Literal["real", "synthetic"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a classifier predicts the class that an image is labeled with or was sampled for.

    Attributes
    ----------
    trained_on, tested_on
        ``real`` on ``real`` is cross-fitted by patient, over `FOLDS` parts: the level to be reached.
    images
        Number of test images.
    accuracy
        Share of correctly classified images.
    balanced
        Mean recall over the classes.
    f1
        Mean F1 over the classes.
    """

    trained_on: Side
    tested_on: Side
    images: int
    accuracy: Estimate
    balanced: Estimate
    f1: Estimate


@dataclass(frozen=True, slots=True)
class LabeledFeatures:
    """Features ``(n, d)``, classes ``(n,)`` and groups ``(n,)`` of labeled images; numbers start at 0."""

    features: NDArray[np.float32]
    classes: NDArray[np.int64]
    groups: NDArray[np.int64]


def agreements(real: LabeledFeatures, synthetic: LabeledFeatures, count: int) -> tuple[Agreement, ...]:
    """Measure agreement for real on real, synthetic on real and real on synthetic.

    Parameters
    ----------
    real, synthetic
        Every one of the classes occurs in both.
    count
        Number of classes.
    """
    ours = fit_softmax(real.features, real.classes, count)
    theirs = fit_softmax(synthetic.features, synthetic.classes, count)
    return (
        score("real", "real", real, cross_fitted(real, count), count),
        score("synthetic", "real", real, theirs.predict(real.features), count),
        score("real", "synthetic", synthetic, ours.predict(synthetic.features), count),
    )


def cross_fitted(images: LabeledFeatures, count: int) -> NDArray[np.int64]:
    """Predict the class of each image with a classifier that was trained on other groups only."""
    import numpy as np

    groups = np.random.default_rng(_SEED).permutation(int(images.groups.max()) + 1)
    part = groups[images.groups] % FOLDS
    said = np.empty(len(images.classes), np.int64)
    for fold in np.unique(part):
        kept, tested = part != fold, part == fold
        said[tested] = fit_softmax(images.features[kept], images.classes[kept], count).predict(
            images.features[tested]
        )
    return said


def score(
    trained_on: Side, tested_on: Side, images: LabeledFeatures, said: NDArray[np.int64], count: int
) -> Agreement:
    """Compare predicted classes with the labels.

    Parameters
    ----------
    trained_on, tested_on
        Copied to the result.
    images
        The test images. Whole groups are resampled for the intervals.
    said
        Predicted classes, ``(n,)``.
    count
        Number of classes.
    """
    import numpy as np

    groups = int(images.groups.max()) + 1

    def counts(classes: NDArray[np.int64], kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Number of images by group and class, ``(groups, count)``."""
        cells = images.groups[kept] * count + classes[kept]
        return np.bincount(cells, minlength=groups * count).reshape(groups, count).astype(np.float64)

    everything = np.ones(len(said), np.bool_)
    true, predicted_counts = counts(images.classes, everything), counts(said, everything)
    hits = counts(said, said == images.classes)

    def statistic(drawn: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        hit, was, said_so = drawn @ hits, drawn @ true, drawn @ predicted_counts
        return {
            "accuracy": ratio(hit.sum(1), was.sum(1)),
            "balanced": _mean(ratio(hit, was)),
            "f1": _mean(ratio(2 * hit, was + said_so)),
        }

    found = intervals(groups, statistic)
    values = statistic(np.ones((1, groups)))
    measures = {name: Estimate(float(values[name][0]), *found[name]) for name in values}
    return Agreement(trained_on, tested_on, len(said), **measures)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the classes that occur in a resample."""
    import numpy as np

    # A resample of few groups may lack a class, whose ratio is then 0 / 0.
    there = np.isfinite(values)
    return ratio(np.where(there, values, 0).sum(1), there.sum(1))
