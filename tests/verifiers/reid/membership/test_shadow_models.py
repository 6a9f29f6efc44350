"""Shadow models: an overfitted classifier betrays its patients, one with differential privacy does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.membership.likelihood_ratio import Membership, membership, patient_scores
from medsanitize.verifiers.reid.membership.shadow_models import (
    Learner,
    PlainLearner,
    Population,
    PrivateLearner,
    halves,
    shadow_likelihoods,
)
from medsanitize.verifiers.reid.training.class_labels import ClassifiedDataset
from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe
from medsanitize.verifiers.reid.training.privacy_accounting import (
    PrivacyBudget,
    PrivacyPlan,
    SampledGaussian,
)
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset

pytestmark = pytest.mark.verify

PATIENTS = 120
# Rates at which the classes of a patient are learned by heart.
RECIPE = LinearRecipe(dimension=32, rate=1e-2, head_rate=3e-2, epochs=60, patience=60)


def population(first: int, count: int, seed: int) -> Population:
    """Two images of each patient, with classes that features say nothing about."""
    draw = np.random.default_rng(seed)
    patients = np.repeat(np.arange(first, first + count), 2)
    examples = TrainingDataset((Path(),) * len(patients), patients, Modality.RADIOGRAPH, "")
    own = np.repeat(draw.standard_normal((count, 64)), 2, axis=0)
    features = (own + 0.1 * draw.standard_normal(own.shape)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    classes = np.repeat(draw.integers(0, 3, count), 2)
    return Population(ClassifiedDataset(examples, classes, ("a", "b", "c")), features)


@pytest.fixture(scope="module")
def every() -> Population:
    return population(0, PATIENTS, 0)


def attacked(every: Population, learner: Learner) -> Membership:
    numbers = np.arange(PATIENTS)
    chosen = np.concatenate([halves(numbers, 1, 1), halves(numbers, 6, 2)])
    seen = [likelihood for likelihood, _ in shadow_likelihoods(every, chosen, learner)]
    scores = patient_scores(seen[0], np.stack(seen[1:]), chosen[1:])
    return membership(scores[chosen[0]], scores[~chosen[0]])


def test_half_of_the_patients_train_each_model_and_each_patient_half_of_them() -> None:
    chosen = halves(np.arange(31), 6, 0)
    assert set(chosen.sum(axis=1)) == {15, 16}
    assert set(chosen.sum(axis=0)) == {3}


def test_an_overfitted_classifier_betrays_its_patients(every: Population) -> None:
    # Validated on the same patients, so that the last epoch is kept.
    found = attacked(every, PlainLearner(RECIPE, every))
    assert found.auc_interval[0] > 0.7
    assert found.rates[1].above_chance


def test_differential_privacy_protects_them(every: Population) -> None:
    plan = PrivacyPlan(PrivacyBudget(1.0, 1e-5), SampledGaussian(0.25, 8.0), 5.0, PATIENTS // 2, 30)
    found = attacked(every, PrivateLearner(RECIPE, plan))
    assert not found.above_chance
