"""Recipe ``frozen`` of a classifier with differential privacy for each patient, from sums of several sites.

Central mode with distributed noise: every site clips the gradient of each of its patients, adds its share of
the noise and then its mask; only the sum has the noise of the whole mechanism. The map of the features is a
random projection, which no image determines; only the classes are learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np
import torch
from medsanitize.errors import IntegrityError
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.pretrained import default_config
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel, packaged_features
from medsanitize.verifiers.reid.training.keyed_noise import NoiseKey
from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe, classifier_of, losses_of
from medsanitize.verifiers.reid.training.linear_sums import ClassifiedSite
from medsanitize.verifiers.reid.training.privacy_accounting import (
    PrivacyBudget,
    PrivacyPlan,
    SampledGaussian,
    noise_for,
)
from medsanitize.verifiers.reid.training.private_classifier import random_map
from medsanitize.verifiers.reid.training.private_gradients import ClippedSum
from medsanitize.verifiers.reid.training.summed_adamw import AdamW
from medsanitize.verifiers.reid.training.sums import (
    COUNTS,
    PHASE,
    Arrays,
    SiteImages,
    State,
    Summed,
    counted,
    phase_of,
)
from numpy.typing import NDArray
from torch import Tensor, nn

COUNTING, TRAINING, TRAINED = range(3)
# Share of the patients of a step. Not from the server, which could make it look small, and the noise with it.
RATE = 0.25
_STEP = "step"
_LEARNED = ("classes", "bias")


@lru_cache(maxsize=16)
def _noise(budget: PrivacyBudget, steps: int) -> float:
    # The search takes seconds, and every round asks for it.
    return noise_for(budget, RATE, steps)


@dataclass(frozen=True, slots=True)
class PrivateTerms:
    """What a job promises each patient.

    Attributes
    ----------
    budget
        The ceiling.
    clip
        Largest norm of the gradient of a patient in a step.
    contributors
        Fewest sites of a sum; the noise of all but one of them is enough.
    """

    budget: PrivacyBudget
    clip: float
    contributors: int


@dataclass(frozen=True, slots=True)
class PrivateLinearSums:
    """The training, as `medsanitize.verifiers.reid.training.sums.SummedTraining`.

    Attributes
    ----------
    recipe
        Hyperparameters; ``epochs`` is the number of steps.
    modality
        Modality of the images.
    classes
        Number of classes.
    most
        Most images of all sites together.
    terms
        What is promised.
    key
        Secret of a site; None at the server.
    """

    recipe: LinearRecipe
    modality: Modality
    classes: int
    most: int
    terms: PrivateTerms
    key: NoiseKey | None = None

    @property
    def mechanism(self) -> SampledGaussian:
        """One step; follows from the job alone."""
        return SampledGaussian(RATE, _noise(self.terms.budget, self.recipe.epochs))

    @property
    def _optimizer(self) -> AdamW:
        return AdamW(dict.fromkeys(_LEARNED, self.recipe.head_rate), self.recipe.decay)

    def plan(self, state: State) -> PrivacyPlan:
        """Return the whole training, for its statement."""
        patients = round(float(state["fit_patients"]))
        self.terms.budget.check_patients(patients)
        return PrivacyPlan(self.terms.budget, self.mechanism, self.terms.clip, patients, self.recipe.epochs)

    def start(self) -> State:
        """Return the state before the first round."""
        return {PHASE: np.array(float(COUNTING))}

    def asked(self, state: State) -> Mapping[str, Summed]:
        """Return what is summed in the round of a state."""
        phase = phase_of(state)
        if phase == COUNTING:
            return counted(self.most)
        if phase == TRAINED:
            return {}
        # Gradients are clipped; the noise of a number is rarely above six deviations.
        bound = 16 * self.terms.clip * (float(state["fit_patients"]) + 10 * self.mechanism.noise)
        return {f"gradient.{name}": Summed(state[name].shape, bound) for name in _LEARNED}

    def contribution(self, state: State, site: SiteImages, number: int, /) -> Arrays:
        """Compute the sums of a site."""
        if not isinstance(site, ClassifiedSite) or self.key is None:
            raise TypeError("a site without classes or key")
        phase = phase_of(state)
        if phase == COUNTING:
            return site.counts()
        return self._noisy_gradient(state, site, self.key, number)

    def following(self, state: State, sums: Arrays) -> State:
        """Return the state that follows from the sums."""
        phase = phase_of(state)
        if phase == COUNTING:
            first = {
                "classes": np.zeros((self.classes, self.recipe.dimension)),
                "bias": np.zeros(self.classes),
            }
            counts = {name: sums[name] for name in COUNTS}
            return {
                **counts, **first, **self._optimizer.start(first), PHASE: np.array(float(TRAINING)),
                _STEP: np.array(0.0),
            }  # fmt: skip
        step = int(state[_STEP]) + 1
        expected = RATE * float(state["fit_patients"])
        gradients = {name: sums[f"gradient.{name}"] / expected for name in _LEARNED}
        following = {**state, **self._optimizer.stepped(state, gradients, step), _STEP: np.array(float(step))}
        if step < self.recipe.epochs:
            return following
        # Not judged by held-out patients: an exact figure would show what no epsilon covers.
        return {**{name: following[name] for name in (*COUNTS, *_LEARNED)}, PHASE: np.array(float(TRAINED))}

    def trained(self, state: State) -> TrainedModel:
        """Return the network of the last state."""
        learned = {
            "map": torch.from_numpy(self._projection()).float(),
            "shift": torch.zeros(self.recipe.dimension),
            **{name: torch.from_numpy(state[name]).float() for name in _LEARNED},
        }
        return classifier_of(learned, self.modality, self.recipe, ())

    def _noisy_gradient(self, state: State, site: ClassifiedSite, key: NoiseKey, step: int) -> Arrays:
        # The number of the round, which the site counts itself: a server could repeat one of its own.
        if not 1 <= step <= self.recipe.epochs:
            raise IntegrityError(
                "The server asked for more steps than the privacy of the patients allows", "Start a new job"
            )
        numbers = np.unique(site.fit.patients)
        # Sampled by the site itself, in secret: the bound holds for this way of sampling only.
        taken = numbers[key.uniform(f"patients/{step}", len(numbers)) < RATE]
        parameters = [nn.Parameter(torch.from_numpy(state[name])) for name in _LEARNED]
        total = ClippedSum(parameters, self.terms.clip)
        vectors = self._vectors(site)
        classes = torch.from_numpy(site.fit_classes)
        for patient in taken:
            own = torch.from_numpy(np.flatnonzero(site.fit.patients == patient))
            learned = self._learned(dict(zip(_LEARNED, parameters, strict=True)))
            losses, _ = losses_of(vectors[own], classes[own], learned, self.recipe)
            total.add(losses.mean())
        share = self.mechanism.noise * self.terms.clip / sqrt(self.terms.contributors - 1)
        return {
            f"gradient.{name}": summed.numpy()
            + share * key.gaussian(f"noise/{step}/{name}", summed.numel()).reshape(tuple(summed.shape))
            for name, summed in zip(_LEARNED, total.sums, strict=True)
        }

    def _learned(self, learned: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        # The vectors are mapped already.
        identity = torch.eye(self.recipe.dimension, dtype=torch.float64)
        return {"map": identity, "shift": torch.zeros(1, dtype=torch.float64), **learned}

    def _vectors(self, site: ClassifiedSite) -> Tensor:
        if not len(site.fit):
            return torch.zeros(0, self.recipe.dimension, dtype=torch.float64)
        features = packaged_features(site.fit, site.unfinished, site.progress, site.cancellation)
        return torch.from_numpy(features.astype(np.float64) @ self._projection().T)

    def _projection(self) -> NDArray[np.float64]:
        width = default_config(self.modality).dimension
        return random_map(width, self.recipe.dimension, self.recipe.seed)
