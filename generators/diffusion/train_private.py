"""Training of the denoiser with differential privacy for each patient.

Everything in the model that depends on a patient passes through `PrivateDenoiserStage`: the autoencoder and
the normalization of its latents learn from phantoms, and nobody is held out, because the choice of a step by
held-out patients would be learned from these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from medsanitize.errors import UsageError
from medsanitize.generators.diffusion.accelerator import AcceleratorHandle
from medsanitize.generators.diffusion.config import GeneratorConfig
from medsanitize.generators.diffusion.dataset import GeneratorDataset
from medsanitize.generators.diffusion.latent_cache import Latents
from medsanitize.generators.diffusion.networks import Networks
from medsanitize.generators.diffusion.recipes import Recipe
from medsanitize.generators.diffusion.train_denoiser import DenoiserStage
from medsanitize.generators.phantoms.chest import chest_phantom
from medsanitize.verifiers.reid.training.keyed_noise import NoiseKey, kept_key
from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget, PrivacyPlan, plan_training
from medsanitize.verifiers.reid.training.private_gradients import ClippedSum, check_network, sampled_patients
from torch import Tensor

# Largest norm of a patient's gradient. Adam divides by the size of gradients, so that a smaller bound changes
# little but how many of them are shortened to it.
CLIP = 0.1
# Latents of a patient in a step: their mean has less variance and costs no privacy (Dockhorn et al. 2023).
DRAWS = 4
# Fewer steps need less noise each.
_FEWER_STEPS = 4
_PHANTOMS, _HELD_PHANTOMS, _POPULATION = 96, 16, 20_000


@dataclass(frozen=True, slots=True)
class PrivateTask:
    """Plan and secret of a private training, and the public images that replace patients."""

    plan: PrivacyPlan
    key: NoiseKey
    public: GeneratorDataset

    def made_by(self, task: str) -> str:
        """Complete the digest of everything that determines the result, for the checkpoint."""
        facts = [task, self.plan.facts(), self.key.subkey("checkpoint").secret.hex()]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def private_task(
    recipe: Recipe, budget: PrivacyBudget, material: GeneratorDataset, folder: Path, task: str
) -> PrivateTask:
    """Plan a private training, with its key in the folder of the unfinished training.

    The steps have, in the mean, as many patients as a batch of the recipe has images.
    """
    patients = len(np.unique(material.patients[material.fit]))
    how = recipe.denoiser
    plan = plan_training(budget, patients, how.batch, how.steps, CLIP)
    # Other images or settings have other noise: the difference of two results would show what was added.
    key = kept_key(folder).subkey(json.dumps([task, plan.facts()], sort_keys=True))
    return PrivateTask(plan, key, phantom_dataset(recipe.size))


def private_recipe(recipe: Recipe, pipeline: Path | None, machine: AcceleratorHandle) -> Recipe:
    """Adapt a recipe to a private training.

    Raises
    ------
    UsageError
        If a part of the training would not be covered by the bound.
    """
    if pipeline is not None:
        raise UsageError(
            "--epsilon does not cover what a pipeline has learned before", "Leave --pipeline or --epsilon out"
        )
    if not recipe.autoencoder.patch:
        raise UsageError(
            "--epsilon needs an autoencoder that learns from no patient, which this recipe does not have",
            "Use the recipe cpu-128, or demo-128 for phantoms",
        )
    if machine.accelerator.num_processes > 1:
        raise UsageError("--epsilon is for one process", "Start the training without accelerate launch")
    how = recipe.denoiser
    fewer = replace(how, steps=max(1, how.steps // _FEWER_STEPS), warmup=max(1, how.warmup // _FEWER_STEPS))
    # No early stopping: it would choose by patients.
    return replace(recipe, denoiser=fewer, patience=0)


@lru_cache(maxsize=1)
def phantom_dataset(size: int) -> GeneratorDataset:
    """Make the images that the autoencoder learns from, which show no patient."""
    made = [chest_phantom(one, 0, size=size, seed=_POPULATION, varied=True) for one in range(_PHANTOMS)]
    squares = np.rint(np.clip(np.stack(made), 0, 1) * 255).astype(np.uint8)
    everyone = np.arange(_PHANTOMS)
    fit, held = everyone[_HELD_PHANTOMS:], everyone[:_HELD_PHANTOMS]
    return GeneratorDataset(squares, np.zeros(_PHANTOMS, np.int64), (), everyone, fit, held, "")


class PrivateDenoiserStage(DenoiserStage):
    """Implements ``training_loop.TrainingStage``; the items of a batch are patients."""

    def __init__(
        self,
        networks: Networks,
        config: GeneratorConfig,
        recipe: Recipe,
        material: GeneratorDataset,
        latents: Latents,
        machine: AcceleratorHandle,
        private: PrivateTask,
    ) -> None:
        check_network(networks.denoiser)
        super().__init__(networks, config, recipe, material, latents, machine)
        self._plan, self._key = private.plan, private.key
        self.steps = self._plan.steps
        people = material.patients[material.fit]
        self._images = [np.flatnonzero(people == one) for one in np.unique(people)]

    def chosen(self, step: int, random: np.random.Generator) -> list[int]:  # noqa: ARG002
        """Select the patients of a step, which may be none."""
        # Checked here too: no resumed or extended training may go on at the cost of the patients.
        if step >= self._plan.steps:
            raise UsageError("The privacy budget is spent", "Train another generator, of other patients")
        return [int(one) for one in sampled_patients(self._plan, self._key, step)]

    def step(self, step: int, places: Sequence[int], draw: torch.Generator) -> Mapping[str, Tensor]:
        """Train on some patients and return their mean loss."""
        self._set_rate(step)
        self.network.train()
        total, losses = ClippedSum(self.network.parameters(), self._plan.clip), [torch.zeros(())]
        for patient in places:
            given = (one.to(self._machine.device) for one in self._noised(self._rows(patient, draw), draw))
            with self._machine.accelerator.autocast():
                loss = self._loss(self.network, *given)
            total.add(loss)
            losses.append(loss.detach().cpu())
        total.release(self._plan, self._key, step)
        self._optimizer.step()
        self._average.step(self.network.parameters())
        return {"loss": torch.stack(losses).sum() / max(1, len(places))}

    def held(self) -> float | None:
        """Return None: nobody is held out."""
        return None

    def _rows(self, patient: int, draw: torch.Generator) -> list[int]:
        """Draw latents of a patient: images, and a copy of each."""
        images, copies = self._images[patient], int(self._latents.fit.shape[1])
        which = torch.randint(0, len(images), (DRAWS,), generator=draw).numpy()
        copy = torch.randint(0, copies, (DRAWS,), generator=draw).numpy()
        return [int(one) for one in images[which] * copies + copy]
