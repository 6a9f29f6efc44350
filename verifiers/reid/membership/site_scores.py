"""How an attacker scores the patients of a site: by the trained model, and by a shared sum of gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.training.linear_sums import ClassifiedSite, LinearSums
    from medsanitize.verifiers.reid.training.sums import Arrays
    from numpy.typing import NDArray

    Scores = tuple[NDArray[np.float64], NDArray[np.float64]]

# Range of the score of a patient: logarithm of the loss, distance of unit vectors, cosine of gradients.
LIKELIHOOD: Final = (-4.0, 16.0)
DISTANCE: Final = (-2.0, 0.0)
COSINE: Final = (-1.0, 1.0)


def genuine_scores(scores: NDArray[np.float32], patients: NDArray[np.int64]) -> NDArray[np.float64]:
    """Score patients by how alike a retrieval model finds their images: mean over pairs.

    Parameters
    ----------
    scores
        Of all pairs of images, ``(n, n)``.
    patients
        Patient of each image; those with a single one are left out.
    """
    import numpy as np

    found = []
    for patient in np.unique(patients):
        places = np.flatnonzero(patients == patient)
        if len(places) > 1:
            first, second = np.triu_indices(len(places), 1)
            found.append(float(scores[places[first], places[second]].astype(np.float64).mean()))
    return np.array(found, np.float64)


def likelihood_scores(sums: LinearSums, parameters: Arrays, site: ClassifiedSite) -> Scores:
    """Score the training and the held-out patients of a site by the mean log likelihood of their classes."""
    own, theirs = (
        loss_scores(_means(sums.losses(parameters, features, classes), patients))
        for features, classes, patients in _parts(site)
    )
    return own, theirs


def loss_scores(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Order losses from the highest, on a scale on which small ones differ as well.

    A model that has learned its patients by heart gives most of them, and many others, a loss near 0.
    """
    import numpy as np

    return np.asarray(-np.log(np.maximum(losses, 1e-9)))


def gradient_scores(sums: LinearSums, parameters: Arrays, total: Arrays, site: ClassifiedSite) -> Scores:
    """Score patients by the cosine of their gradient and a sum that may contain it.

    After Homer et al. 2008: the sum is nearer to what it contains. The attacker sees the sum of all sites,
    and has images of the patient.
    """
    import numpy as np

    parts = list(_parts(site))
    mean = np.concatenate([features for features, _, _ in parts]).mean(0, dtype=np.float64)
    wanted = _of_features(total, mean)
    found = []
    for features, classes, patients in parts:
        scores = []
        for patient in np.unique(patients):
            rows = np.flatnonzero(patients == patient)
            ones = np.ones(len(rows))
            own = _of_features(sums.gradient(parameters, features[rows], classes[rows], ones)[1], mean)
            scores.append(float(np.vdot(own, wanted)))
        found.append(np.array(scores, np.float64))
    return found[0], found[1]


def _parts(
    site: ClassifiedSite,
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]]:
    """Features, classes and patients of the training and the held-out images."""
    from medsanitize.verifiers.reid.training.linear_sums import site_features

    yield site_features(site.fit, site), site.fit_classes, site.fit.patients
    yield site_features(site.validation, site), site.validation_classes, site.validation.patients


def _of_features(gradient: Arrays, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """The gradient of the map for features without their mean, of unit length.

    What everybody's features have in common is no trace of a patient, and would hide it.
    """
    import numpy as np

    own = gradient["map"] - np.outer(gradient["shift"], mean)
    return np.asarray(own / max(float(np.linalg.norm(own)), 1e-30))


def _means(values: NDArray[np.float64], patients: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean of each patient, over images."""
    import numpy as np

    place = np.unique(patients, return_inverse=True)[1]
    return np.asarray(np.bincount(place, values) / np.bincount(place), np.float64)
