"""Shadow models of a classifier: the same training on random halves of the patients.

One of them is attacked, the others are its references. The classifier is that of the recipe ``frozen``, with
or without differential privacy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from medsanitize.verifiers.reid.training.class_labels import ClassifiedDataset
from medsanitize.verifiers.reid.training.keyed_noise import NoiseKey
from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe, class_logits, learn_classes
from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyPlan
from medsanitize.verifiers.reid.training.private_classifier import (
    DIMENSION,
    learn_private_classes,
    random_map,
)
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True, repr=False)
class Population:
    """Images with their packaged features.

    Attributes
    ----------
    images
        Patients and classes.
    features
        Features, ``(n, d)``.
    """

    images: ClassifiedDataset
    features: NDArray[np.float32]

    def of_patients(self, patients: NDArray[np.int64]) -> Population:
        """Select the images of some patients."""
        places = np.flatnonzero(np.isin(self.images.examples.patients, patients))
        return Population(self.images.part(places), self.features[places])


class Learner(Protocol):
    """A way to train the classifier."""

    def logits(self, fit: Population, number: int, every: Population) -> Tensor:
        """Train model ``number`` on some patients, and return the logits of all images."""
        ...


@dataclass(frozen=True, slots=True)
class PlainLearner:
    """Training without differential privacy, with the same validation patients for every model."""

    recipe: LinearRecipe
    validation: Population

    def logits(self, fit: Population, number: int, every: Population) -> Tensor:  # noqa: ARG002
        """Train on some patients; see `Learner`."""
        parts = [(one.images, one.features) for one in (fit, self.validation)]
        state, _ = learn_classes(parts, self.recipe)
        with torch.no_grad():
            return class_logits(torch.from_numpy(every.features), state, self.recipe)


@dataclass(frozen=True, slots=True)
class PrivateLearner:
    """Training with differential privacy for each patient."""

    recipe: LinearRecipe
    plan: PrivacyPlan

    def logits(self, fit: Population, number: int, every: Population) -> Tensor:
        """Train on some patients; see `Learner`."""
        directions = random_map(every.features.shape[1], DIMENSION, self.recipe.seed).astype(np.float32)
        # Not secret: the models of an audit are never used.
        key = NoiseKey(bytes(32)).subkey(str(number))
        weight, bias = learn_private_classes(
            fit.images, fit.features @ directions.T, self.recipe, self.plan, key
        )
        vectors = F.normalize(torch.from_numpy(every.features @ directions.T))
        return self.recipe.sharpness * vectors @ weight.T + bias


def halves(patients: NDArray[np.int64], models: int, seed: int) -> NDArray[np.bool_]:
    """Draw who trains which model, ``(models, patients)``: half of the patients each.

    Models come in pairs of complements, so that each patient has references of both kinds.
    """
    draw = np.random.default_rng(seed)
    drawn = []
    for _ in range(-(-models // 2)):
        chosen = np.zeros(len(patients), np.bool_)
        chosen[draw.permutation(len(patients))[: len(patients) // 2]] = True
        drawn += [chosen, ~chosen]
    return np.stack(drawn[:models])


def shadow_likelihoods(
    every: Population, members: NDArray[np.bool_], learner: Learner
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """Train each model, and judge every image by it.

    Parameters
    ----------
    every
        All images.
    members
        Whether a patient trains a model, ``(models, patients)``, with patients in ascending order.
    learner
        The training.

    Yields
    ------
    array of float64, array of bool
        Likelihood of each patient: the geometric mean over images of the probability of their class. Whether
        each image is classified correctly.
    """
    numbers, place = np.unique(every.images.examples.patients, return_inverse=True)
    wanted = torch.from_numpy(every.images.classes)
    counts = np.bincount(place)
    for number, chosen in enumerate(members):
        logits = learner.logits(every.of_patients(numbers[chosen]), number, every)
        log = -F.cross_entropy(logits, wanted, reduction="none").double().numpy()
        right = (logits.argmax(1) == wanted).numpy()
        yield np.exp(np.bincount(place, log) / counts), right
