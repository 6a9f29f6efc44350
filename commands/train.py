"""The command train: retrieval, verification, classifier and generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE, command, long_running, print_result
from medsanitize.commands.options import KIND, columns_of, table_options

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.training.train import TrainingResult

# Of --epsilon; small against one in the number of patients of any table that trains a model.
_DELTA = 1e-5


@click.group()
def train() -> None:
    """Train models on your own images, from a table of images and patients."""


def _options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options that retrieval and verification share."""
    options = (
        table_options,
        KIND,
        click.option("--split", help="Rows of this split only; without it, all rows."),
        click.option("--output", type=FILE, required=True, metavar="MODEL", help="Folder of the model."),
        click.option(
            "--recipe",
            metavar="NAME",
            help="moments (retrieval; moments-256 is smaller) and match (verification), the defaults;"
            " copies (verification, for the privacy gate); frozen; paper (the default with a GPU and"
            " --weights), paper-224, augmented-512 or tiny.",
        ),
        click.option(
            "--weights",
            metavar="FILE",
            help="ImageNet weights of a ResNet-50 for the paper's recipes: a .safetensors file, or random.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


_EXAMPLE = "--images scans --labels labels.csv --split train --output model"


@command("retrieval", f"medsanitize train retrieval {_EXAMPLE}", group=train)
@_options
def train_retrieval(*, as_json: bool, log_json: bool, **options: Any) -> int:
    """Train a retrieval model, which finds images of the same patient.

    Some patients are held out to choose the epoch and to calibrate. After Ctrl-C, the same command resumes.
    """
    return _train("retrieval", options, as_json, log_json)


@command("verification", f"medsanitize train verification {_EXAMPLE}", group=train)
@_options
def train_verification(*, as_json: bool, log_json: bool, **options: Any) -> int:
    """Train a verification model, which scores whether two images show the same patient.

    Some patients are held out to choose the epoch and to calibrate. After Ctrl-C, the same command resumes.
    """
    return _train("verification", options, as_json, log_json)


@command("classifier", f"medsanitize train classifier {_EXAMPLE} --class finding", group=train)
@table_options
@KIND
@click.option(
    "--class", "column", required=True, metavar="COLUMN", help="Column of the table with the classes."
)
@click.option("--split", help="Rows of this split only; without it, all rows.")
@click.option("--output", type=FILE, required=True, metavar="MODEL", help="Folder of the model.")
@click.option(
    "--recipe", metavar="NAME", help="frozen (the default without a GPU), paper (with one) or tiny."
)
@click.option(
    "--weights",
    metavar="FILE",
    help="ImageNet weights of a DenseNet-121 for the paper's recipe: a .safetensors file, or random.",
)
@click.option(
    "--epsilon",
    type=float,
    metavar="NUMBER",
    help="Train with differential privacy (recipe frozen): the most that may be learned about one patient,"
    " all images together (8 is weak, 1 strong). Predictions become worse.",
)
@click.option(
    "--delta",
    type=float,
    metavar="NUMBER",
    help="With --epsilon: probability that the bound does not hold, 1e-5 by default.",
)
def train_classifier(
    images: Path,
    labels: Path,
    renamed: tuple[str, ...],
    column: str,
    split: str | None,
    output: Path,
    recipe: str | None,
    weights: str | None,
    epsilon: float | None,
    delta: float | None,
    kind: Modality | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Train a classifier, whose features find the examples of explain.

    Each image has one class; classes with fewer than four patients are excluded and counted. After Ctrl-C,
    the same command resumes.
    """
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra
    from medsanitize.verifiers.reid.labels import read_labels

    _require_epsilon(epsilon, delta)
    check_extra("verify" if epsilon is None else "dp")
    from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget
    from medsanitize.verifiers.reid.training.train_classifier import class_recipe_for, train_classification

    budget = None if epsilon is None else PrivacyBudget(epsilon, _DELTA if delta is None else delta)
    chosen, columns = class_recipe_for(recipe), columns_of(renamed)
    rows = read_labels(labels, images, columns, split).of_kind(kind)
    with long_running(log_json) as (progress, cancellation):
        result = train_classification(
            rows, (columns, column), chosen, weights, output, progress, cancellation, budget
        )
    return _print_training("classification", chosen.name, result, "choose the epoch", as_json)


def _require_epsilon(epsilon: float | None, delta: float | None) -> None:
    """Raise UsageError for --delta without --epsilon."""
    from medsanitize.errors import UsageError

    if delta is not None and epsilon is None:
        raise UsageError("--delta has no effect without --epsilon", "Add --epsilon, or leave --delta out")


def _train(name: str, options: Mapping[str, Any], as_json: bool, log_json: bool) -> int:
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra
    from medsanitize.verifiers.reid.labels import read_labels

    check_extra("verify")
    from medsanitize.verifiers.reid.models.config import ModelKind
    from medsanitize.verifiers.reid.training.recipes import recipe_for
    from medsanitize.verifiers.reid.training.train import train as train_model

    kind = ModelKind(name)
    recipe = recipe_for(kind, options["recipe"], options["weights"])
    columns = columns_of(options["renamed"])
    rows = read_labels(options["labels"], options["images"], columns, options["split"])
    rows = rows.of_kind(options["kind"])
    with long_running(log_json) as (progress, cancellation):
        result = train_model(
            kind, rows, recipe, options["weights"], options["output"], progress, cancellation
        )
    return _print_training(str(kind), recipe.name, result, "choose and calibrate", as_json)


def _print_training(kind: str, recipe: str, result: TrainingResult, purpose: str, as_json: bool) -> int:
    """Print the result of a training, and return the exit code; held-out patients served ``purpose``."""
    code = 1 if result.excluded else 0
    counts = result.counts
    if result.privacy:
        spent = result.privacy["spent"]
        trained = (
            f"A {kind} model with the recipe {recipe} and differential privacy: images of"
            f" {counts['fit_patients']:,} patients, nobody held out; epsilon {spent['pld']:.2f} at delta"
            f" {result.privacy['delta']:.0e} for each patient. Its predictions are worse than without"
            " --epsilon; attack membership measures both."
        )
    else:
        trained = (
            f"A {kind} model with the recipe {recipe}: {counts['fit_images']:,} images of"
            f" {counts['fit_patients']:,} patients, {counts['validation_images']:,} of"
            f" {counts['validation_patients']:,} held out to {purpose}."
        )
    lines = [
        trained,
        *(f"Excluded: {count:,} ({reason})." for reason, count in result.excluded.items()),
        f"Digest of the model: {result.digest}",
    ]
    facts = {"kind": kind, "recipe": recipe, "digest": result.digest, "counts": dict(counts)}
    if result.privacy:
        facts["privacy"] = dict(result.privacy)
    last = dict(result.log[-1]) if result.log else {}
    print_result(
        as_json,
        {**facts, "excluded": dict(result.excluded), "last": last, "exit_code": code},
        "\n".join(lines),
    )
    return code


@command("generator", f"medsanitize train generator {_EXAMPLE} --class finding", group=train)
@table_options
@KIND
@click.option("--split", help="Rows of this split only; without it, all rows.")
@click.option("--class", "column", metavar="COLUMN", help="Column of the table with the class of each image.")
@click.option("--output", type=FILE, required=True, metavar="MODEL", help="Folder of the model.")
@click.option(
    "--recipe",
    metavar="NAME",
    help="cpu-128 (the default without a GPU), cpu-64, gpu-256 (the default with one), gpu-512, demo-128"
    " (phantoms) or tiny.",
)
@click.option(
    "--prediction",
    metavar="WHAT",
    help="Prediction target of the denoiser: noise (gpu-256, gpu-512), velocity (the others), or zero-snr"
    " (velocity on a schedule with zero terminal SNR).",
)
@click.option(
    "--pipeline",
    type=FILE,
    metavar="FOLDER",
    help="Continue from a generator or a diffusers pipeline (safetensors); its networks and size replace"
    " those of the recipe.",
)
@click.option(
    "--epsilon",
    type=float,
    metavar="NUMBER",
    help="Train with differential privacy: the most that may be learned about one patient, all images"
    " together (8 is weak, 1 strong). Images become much worse; see docs/generators.md.",
)
@click.option(
    "--delta",
    type=float,
    metavar="NUMBER",
    help="With --epsilon: probability that the bound does not hold, 1e-5 by default; less than one in the"
    " number of patients.",
)
def train_generator(
    images: Path,
    labels: Path,
    renamed: tuple[str, ...],
    split: str | None,
    column: str | None,
    output: Path,
    recipe: str | None,
    prediction: str | None,
    pipeline: Path | None,
    epsilon: float | None,
    delta: float | None,
    kind: Modality | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Train a generator of synthetic images.

    Train it on a training split only: the gate needs patients that no model was trained on. Sample sheets
    appear in the folder MODEL.training during training. After Ctrl-C, the same command resumes. Several GPUs:
    accelerate launch --no-python medsanitize train generator ...
    """
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra
    from medsanitize.verifiers.reid.labels import read_labels

    if pipeline is not None and prediction is not None:
        raise UsageError(
            "--prediction has no effect with --pipeline: the denoiser keeps its prediction target",
            "Leave one of them out",
        )
    _require_epsilon(epsilon, delta)
    check_extra("generate" if epsilon is None else "dp")
    from medsanitize.generators.diffusion.privacy_statement import privacy_cost, privacy_statement
    from medsanitize.generators.diffusion.recipes import prediction_for, recipe_for
    from medsanitize.generators.diffusion.train import train_generator as train_model
    from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget

    budget = None if epsilon is None else PrivacyBudget(epsilon, _DELTA if delta is None else delta)
    chosen = recipe_for(recipe, prediction_for(prediction))
    rows = read_labels(labels, images, columns_of(renamed), split).of_kind(kind)
    with long_running(log_json) as (progress, cancellation):
        result = train_model(rows, column, chosen, pipeline, output, progress, cancellation, budget)
    code = 1 if result.excluded else 0
    # Of several processes under accelerate, only the main one has a digest and prints.
    if not result.digest:
        return code
    counts = result.counts
    lines = [
        f"A generator with the recipe {chosen.name}: {counts['fit_images']:,} images of"
        f" {counts['fit_patients']:,} patients, {len(result.classes)} classes;"
        f" {counts['held_images']:,} images of {counts['held_patients']:,} held out for the evaluation.",
        *(f"Excluded: {count:,} ({reason})." for reason, count in result.excluded.items()),
        *privacy_statement(result.privacy),
        *((privacy_cost(result.privacy),) if result.privacy else ()),
        f"Digest of the model: {result.digest}",
    ]
    facts = {
        "kind": "generator",
        "recipe": chosen.name,
        "digest": result.digest,
        "counts": dict(counts),
        "classes": dict(result.classes),
        "excluded": dict(result.excluded),
        "last": dict(result.log[-1]) if result.log else {},
        "privacy": result.privacy,
        "exit_code": code,
    }
    print_result(as_json, facts, "\n".join(lines))
    return code
