"""Train a generator from a table and a recipe."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from diffusers import UNet2DModel
from medsanitize.generators.diffusion.accelerator import AcceleratorHandle, open_accelerator
from medsanitize.generators.diffusion.config import GeneratorConfig
from medsanitize.generators.diffusion.contact_sheet import png
from medsanitize.generators.diffusion.dataset import (
    PREPROCESSED,
    GeneratorDataset,
    build_dataset,
    open_preprocessed,
    split_dataset,
    write_preprocessed,
)
from medsanitize.generators.diffusion.generator import UNKNOWN, trained_on_dataset, training_of
from medsanitize.generators.diffusion.initial_weights import (
    InitialModel,
    start_from_pipeline,
    start_from_recipe,
)
from medsanitize.generators.diffusion.latent_cache import (
    Latents,
    read_latents,
    with_public_scale,
    write_latents,
)
from medsanitize.generators.diffusion.model_card import card, curves
from medsanitize.generators.diffusion.model_folder import AUTOENCODER, DENOISER, FILES, SAMPLES
from medsanitize.generators.diffusion.networks import Autoencoder, Networks, is_told, prediction_of, scheduler
from medsanitize.generators.diffusion.patch_autoencoder import PatchAutoencoder
from medsanitize.generators.diffusion.recipes import Recipe
from medsanitize.generators.diffusion.sample import to_range
from medsanitize.generators.diffusion.train_autoencoder import AutoencoderStage
from medsanitize.generators.diffusion.train_denoiser import DenoiserStage
from medsanitize.generators.diffusion.train_private import (
    PrivateDenoiserStage,
    PrivateTask,
    private_recipe,
    private_task,
)
from medsanitize.generators.diffusion.training_loop import Schedule, StageContext, run_stage
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import Labels
from medsanitize.verifiers.reid.models.model_folder import (
    CARD,
    CONFIG,
    CURVES,
    LOG,
    TRAINING,
    unfinished_beside,
    write_folder,
)
from medsanitize.verifiers.reid.training.checkpoint import FILE, Position, group, read_checkpoint
from medsanitize.verifiers.reid.training.keyed_noise import FILE as KEY
from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget
from safetensors.torch import save
from torch import Tensor

# Images read at once to fit a closed-form autoencoder.
_FITTED = 64


@dataclass(frozen=True, slots=True)
class GeneratorTrainingResult:
    """Result of a training.

    Attributes
    ----------
    digest
        Digest of the model folder; empty in processes other than the first.
    counts, classes
        Number of images and patients by part, and of images by class.
    excluded
        Number of unused rows by reason.
    log
        One entry per checkpoint; of a private training only those of the autoencoder, which learned from
        phantoms.
    privacy
        Statement of differential privacy, from ``PrivacyPlan.facts``; None without.
    """

    digest: str
    counts: Mapping[str, int]
    classes: Mapping[str, int]
    excluded: Mapping[str, int]
    log: tuple[Mapping[str, float], ...]
    privacy: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class _Task:
    """Recipe, initial model, data and context of a training, and what makes it private."""

    recipe: Recipe
    start: InitialModel
    material: GeneratorDataset
    place: StageContext
    private: PrivateTask | None


def train_generator(
    labels: Labels,
    column: str | None,
    recipe: Recipe,
    pipeline: Path | None,
    output: Path,
    progress: Progress,
    cancellation: Cancellation,
    budget: PrivacyBudget | None = None,
) -> GeneratorTrainingResult:
    """Train a generator and write its folder.

    Parameters
    ----------
    labels
        Rows of the split to train on.
    column
        Column with the class of each image; None for a generator without classes.
    recipe
        The recipe.
    pipeline
        Generator or diffusers pipeline to continue from: its autoencoder is kept, its denoiser is trained
        further, and its size and schedule replace those of the recipe.
    output
        Folder of the model. Checkpoints and contact sheets are stored next to it, in the folder of the same
        name with the suffix ``.training``, from which the same call resumes.
    progress, cancellation
        Progress and cancellation.
    budget
        The most that may be learned about one patient; None trains without differential privacy.

    Returns
    -------
    GeneratorTrainingResult
        The result; without a digest in processes other than the first.

    Raises
    ------
    UsageError
        If the output contains a model; if the images are of mixed modalities, too small or of one patient; if
        classes are missing or fewer than two are left; if the loss is not finite; or if an unfinished
        training of something else is next to the output; with a budget, also if it cannot be kept, or does
        not cover a part of the training.
    IntegrityError
        If the checkpoint or pipeline is damaged, or its weights are of another architecture; or if the
        privacy accountants contradict each other.
    """
    unfinished = unfinished_beside(output)
    machine = open_accelerator(recipe.precision)
    progress = machine.progress(progress)
    if budget is not None:
        recipe = private_recipe(recipe, pipeline, machine)
    # Reject an invalid pipeline before hours of reading.
    before = trained_on_dataset(training_of(pipeline)) if pipeline else frozenset()
    parted = split_dataset(labels, column, recipe.seed, progress, cancellation, hold_out=budget is None)
    classes = len(set(parted.classes.values()))
    # Before the networks are built: random weights must follow from the seed.
    torch.manual_seed(recipe.seed)
    start = start_from_pipeline(pipeline, classes, before) if pipeline else start_from_recipe(recipe, classes)
    # The recipe written to training.json must be the one that was used, not the one that was named.
    strength = (recipe.denoiser.augmentation or 1.0) if is_told(start.denoiser) else 0.0
    predicted = replace(recipe.denoiser, prediction=prediction_of(start.schedule), augmentation=strength)
    recipe = replace(recipe, size=start.size, denoiser=predicted)
    unfinished.mkdir(parents=True, exist_ok=True)
    if machine.first:
        write_preprocessed(parted.examples, recipe.size, unfinished, progress, cancellation)
    machine.wait()
    learned = build_dataset(parted, open_preprocessed(unfinished))
    made_by = _made_by(recipe, start, learned)
    private = None
    if budget is not None:
        private = private_task(recipe, budget, learned, unfinished, made_by)
        made_by = private.made_by(made_by)
    context = StageContext(unfinished, made_by, machine, progress, cancellation)
    task = _Task(recipe, start, learned, context, private)
    config, log, samples = _trained(task)
    made = GeneratorTrainingResult(
        "", learned.counts(), learned.by_class(), parted.excluded, log, config.privacy
    )
    machine.wait()
    if not machine.first:
        return made
    digest = write_folder(output, _content(task, config, made, samples), FILES)
    # These files contain images and latents of patients, and the noise of a private training; contact sheets
    # remain for review.
    for name in (PREPROCESSED, FILE, KEY, *(path.name for path in unfinished.glob("latents.npy*"))):
        (unfinished / name).unlink(missing_ok=True)
    return replace(made, digest=digest)


def _trained(task: _Task) -> tuple[GeneratorConfig, tuple[Mapping[str, float], ...], bytes]:
    """Run both stages, from the checkpoint if there is one; the networks are trained in place."""
    recipe, start, place = task.recipe, task.start, task.place
    stored = read_checkpoint(place.folder, place.made_by)
    position, tensors = stored if stored is not None else (Position(), {})
    pace = Schedule(recipe.every, recipe.grids, recipe.patience, recipe.seed)
    if start.frozen:
        # A pipeline brings a trained autoencoder: stage 1 is skipped.
        position = replace(position, phase=1)
        place.machine.placed(start.autoencoder).eval().requires_grad_(False)
    elif position.phase == 0:
        # The autoencoder is not trained yet: latents of an earlier attempt do not belong to it.
        (place.folder / "latents.npy").unlink(missing_ok=True)
        seen = task.private.public if task.private else task.material
        first = AutoencoderStage(start.autoencoder, recipe, seen, place.machine)
        if tensors:
            first.load(tensors)
        elif isinstance(start.autoencoder, PatchAutoencoder):
            _fit(start.autoencoder, seen, place.machine)
        position = run_stage(first, position, group(tensors, "sums"), pace, place)
        first.end()
        tensors = {}
    else:
        start.autoencoder.load_state_dict(group(tensors, "autoencoder"))
        place.machine.placed(start.autoencoder).eval().requires_grad_(False)
    latents = _latents(task)
    config = _config(task, latents)
    networks = Networks(start.autoencoder, start.denoiser, scheduler(start.schedule))
    given = (networks, config, recipe, task.material, latents, place.machine)
    second = PrivateDenoiserStage(*given, task.private) if task.private else DenoiserStage(*given)
    if tensors:
        second.load(tensors)
    pace = replace(pace, seed=_patient_seed(task))
    position = run_stage(second, position, group(tensors, "sums"), pace, place)
    second.end()
    log = position.log if task.private is None else tuple(one for one in position.log if one["part"] == 1)
    return config, log, png(second.images())


def _fit(autoencoder: PatchAutoencoder, material: GeneratorDataset, machine: AcceleratorHandle) -> None:
    """Compute the components of the training images, the same in every process."""
    parts = (material.fit[start : start + _FITTED] for start in range(0, len(material.fit), _FITTED))
    # On the CPU in float64: devices would give bases that differ in their last digits.
    autoencoder.cpu().fit(to_range(material.squares[part]) for part in parts)
    machine.placed(autoencoder)


def _latents(task: _Task) -> Latents:
    recipe, place = task.recipe, task.place
    copies, strength = recipe.denoiser.copies, recipe.denoiser.augmentation or 1.0
    seed = _patient_seed(task)
    if place.machine.first:
        write_latents(
            task.start.autoencoder, task.material, copies, strength, seed,
            place.machine, place.folder, place.progress, place.cancellation,
        )  # fmt: skip
    place.machine.wait()
    latents = read_latents(task.material, copies, strength, seed, place.folder)
    if task.private is None:
        return latents
    return with_public_scale(latents, task.start.autoencoder, task.private.public.squares, place.machine)


def _patient_seed(task: _Task) -> int:
    """Seed of the choices that depend on patients: with a public one, each would depend on all others."""
    return task.recipe.seed if task.private is None else task.private.key.number("choices")


def _config(task: _Task, latents: Latents) -> GeneratorConfig:
    """Configuration of the generator; registers the normalization of the latents in the autoencoder."""
    start, recipe = task.start, task.recipe
    scale = {"latents_mean": latents.mean.tolist(), "latents_std": latents.deviation.tolist()}
    start.autoencoder.register_to_config(**scale)
    return GeneratorConfig(
        Modality.RADIOGRAPH,
        recipe.size,
        task.material.names,
        {**start.autoencoder_facts, **scale},
        dict(start.denoiser_facts),
        dict(start.schedule),
        recipe.sampling_steps,
        recipe.guidance if task.material.names else 1.0,
        task.private.plan.facts() if task.private else None,
    )


def _content(
    task: _Task, config: GeneratorConfig, made: GeneratorTrainingResult, samples: bytes
) -> dict[str, bytes]:
    before = task.start.images_before
    # The number of patients is public; every other count is learned from them.
    counted: dict[str, Any] = {"counts": {name: made.counts[name] for name in ("patients", "fit_patients")}}
    if task.private is None:
        counted = {
            "counts": dict(made.counts),
            "classes": dict(made.classes),
            "excluded": dict(made.excluded),
        }
    training: dict[str, Any] = {
        **counted,
        "images": task.material.digest,
        "images_before": UNKNOWN if before is None else sorted(before),
        "recipe": asdict(task.recipe),
        "start": task.start.digest or "random",
    }
    networks = (task.start.autoencoder, task.start.denoiser)
    millions = [sum(one.numel() for one in network.parameters()) / 1e6 for network in networks]
    # One JSON object per line, so that a log can be compared between trainings.
    lines = "".join(json.dumps(entry, sort_keys=True) + "\n" for entry in made.log)
    return {
        CONFIG: config.to_bytes(),
        AUTOENCODER: _saved(task.start.autoencoder),
        DENOISER: _saved(task.start.denoiser),
        TRAINING: (json.dumps(training, indent=1, sort_keys=True) + "\n").encode(),
        CARD: card(config, training, (millions[0], millions[1]), made.log),
        CURVES: curves(made.log),
        LOG: lines.encode(),
        SAMPLES: samples,
    }


def _saved(network: Autoencoder | UNet2DModel) -> bytes:
    weights: dict[str, Tensor] = network.state_dict()
    # Sorted and contiguous: equal weights must give equal bytes, and so the same digest.
    return save({name: weights[name].detach().cpu().contiguous() for name in sorted(weights)})


def _made_by(recipe: Recipe, start: InitialModel, learned: GeneratorDataset) -> str:
    """Digest of everything that determines the result; a checkpoint is resumed only if it is equal."""
    facts = {
        "recipe": asdict(recipe),
        "start": start.digest,
        "images": learned.digest,
        "classes": learned.classes.tolist(),
        "patients": learned.patients.tolist(),
        "held": learned.held.tolist(),
        "names": learned.names,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
