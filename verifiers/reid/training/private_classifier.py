"""Recipe ``frozen`` of a classifier with differential privacy for each patient.

Only the layer of the classes learns from patients. Its inputs are the packaged features under a fixed random
map, and nobody is held out: to choose an epoch by held-out patients is to learn from them. Classes have the
weight of their patients, because a weight by class would be learned from patients too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.models.load import CLASS_BIAS, CLASS_WEIGHT
from medsanitize.verifiers.reid.models.pretrained import default_config, packaged_weights
from medsanitize.verifiers.reid.training.class_labels import ClassifiedDataset
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel, packaged_features
from medsanitize.verifiers.reid.training.keyed_noise import NoiseKey, kept_key
from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe
from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget, PrivacyPlan, plan_training
from medsanitize.verifiers.reid.training.private_gradients import ClippedSum, sampled_patients
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

# Largest norm of a patient's gradient; unclipped ones of the first step are about twice as long.
CLIP = 5.0
STEPS = 60
# Share of the patients in a step, in the mean.
SHARE = 0.25
# Fewer numbers than without privacy: the noise grows with them.
DIMENSION = 64
_RATE = 0.02


def private_plan(budget: PrivacyBudget, patients: int) -> PrivacyPlan:
    """Plan the training; parameters and errors as of `plan_training`."""
    return plan_training(budget, patients, max(1, round(SHARE * patients)), STEPS, CLIP)


def random_map(features: int, directions: int, seed: int) -> NDArray[np.float64]:
    """Draw orthonormal directions that depend on no image, ``(directions, features)``."""
    drawn = np.random.default_rng(seed).standard_normal((features, min(directions, features)))
    return np.ascontiguousarray(np.linalg.qr(drawn)[0].T)


def train_private_linear(
    images: ClassifiedDataset,
    recipe: LinearRecipe,
    budget: PrivacyBudget,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> tuple[TrainedModel, Mapping[str, Any]]:
    """Train the classes on all patients.

    Parameters
    ----------
    images : ClassifiedDataset
        All images.
    recipe : LinearRecipe
        Hyperparameters.
    budget : PrivacyBudget
        The ceiling.
    unfinished : Path
        Folder of the cached features and of the secret key; to be removed when the model has been written.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.

    Returns
    -------
    TrainedModel
        The model, without losses.
    mapping
        Its statement, from `PrivacyPlan.facts`.
    """
    modality = images.examples.modality
    plan = private_plan(budget, len(np.unique(images.examples.patients)))
    facts = plan.facts()
    # Other images or settings have other noise: the difference of two results would show what was added.
    made_by = json.dumps([asdict(recipe), images.examples.digest, images.names, facts], sort_keys=True)
    key = kept_key(unfinished).subkey(made_by)
    features = packaged_features(images.examples, unfinished, progress, cancellation)
    directions = random_map(features.shape[1], DIMENSION, recipe.seed).astype(np.float32)
    weight, bias = learn_private_classes(images, features @ directions.T, recipe, plan, key)
    config = default_config(modality)
    backbone = {f"features.{name}": value for name, value in packaged_weights(modality).items()}
    model = TrainedModel(
        network={**config.network, "name": "lite0-projected", "dimension": len(directions)},
        weights={
            **backbone,
            "projection.weight": torch.from_numpy(directions),
            "projection.bias": torch.zeros(len(directions)),
        },
        dimension=len(directions),
        preprocessing=config.preprocessing,
        score={CLASS_WEIGHT: recipe.sharpness * weight, CLASS_BIAS: bias},
    )
    return model, facts


def learn_private_classes(
    images: ClassifiedDataset,
    projected: NDArray[np.float32],
    recipe: LinearRecipe,
    plan: PrivacyPlan,
    key: NoiseKey,
) -> tuple[Tensor, Tensor]:
    """Learn weights and biases of the classes.

    Parameters
    ----------
    images : ClassifiedDataset
        Patients and classes.
    projected : array of float32, shape (n, dimension)
        Mapped features of the images.
    recipe : LinearRecipe
        Hyperparameters.
    plan : PrivacyPlan
        Noise and number of the steps.
    key : NoiseKey
        Source of the noise and of the patients of each step.
    """
    vectors = F.normalize(torch.from_numpy(projected))
    wanted = torch.from_numpy(images.classes)
    weight = nn.Parameter(torch.zeros(len(images.names), vectors.shape[1]))
    bias = nn.Parameter(torch.zeros(len(images.names)))
    optimizer = torch.optim.Adam([weight, bias], lr=_RATE)
    people = images.examples.patients
    rows = [torch.from_numpy(np.flatnonzero(people == one)) for one in np.unique(people)]
    for step in range(plan.steps):
        total = ClippedSum([weight, bias], plan.clip)
        for patient in sampled_patients(plan, key, step):
            mine = rows[patient]
            logits = recipe.sharpness * vectors[mine] @ weight.T + bias
            total.add(F.cross_entropy(logits, wanted[mine]))
        total.release(plan, key, step)
        optimizer.step()
    return weight.detach(), bias.detach()
