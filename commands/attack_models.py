"""Attacks on what models share and remember: gradients, members, embeddings; the group is in ``attack``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE, aligned, command, long_running, print_result
from medsanitize.commands.options import COLUMN, KIND, columns_of

if TYPE_CHECKING:
    from medsanitize.generators.quality.interval import Estimate
    from medsanitize.pipeline.jobs.attack_decoder import DecoderAttack
    from medsanitize.pipeline.jobs.attack_gradients import GradientAttack
    from medsanitize.pipeline.jobs.attack_membership import MembershipAttack
    from medsanitize.verifiers.reid.images.image import Modality


def _model_and_pictures(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options --model and --output of attacks that reconstruct images."""
    model = click.option(
        "--model", type=FILE, help="Folder of a retrieval model; by default ImageNet features."
    )
    output = click.option(
        "--output",
        type=FILE,
        metavar="FOLDER",
        help="New folder for report.json and pictures of originals and reconstructions: they show patients.",
    )
    return model(output(function))


def _images_of_patients(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options of a table of images, in the place of phantoms."""
    options = (
        click.option(
            "--images", type=FILE, metavar="ROOT", help="Folder of the table's files; default: phantoms."
        ),
        click.option(
            "--labels", type=FILE, metavar="TABLE", help="CSV or Parquet table of files and patients."
        ),
        COLUMN,
        KIND,
        click.option("--split", help="Rows of this split only; without it, all rows."),
    )
    for option in reversed(options):
        function = option(function)
    return function


_CLASS = click.option("--class", "column", metavar="COLUMN", help="Column of the table with the classes.")


@command(
    "gradients",
    "medsanitize attack gradients --batch 1 --batch 8 --epsilon 8 --output private",
)
@_images_of_patients
@_CLASS
@click.option(
    "--recipe",
    default="paper",
    show_default=True,
    help="Network: that of the recipe paper or tiny of train classifier, or perceptron (linear first layer).",
)
@click.option(
    "--batch",
    "batches",
    type=click.IntRange(1, 32),
    multiple=True,
    default=(1,),
    show_default=True,
    help="Images of a step at a site; may be repeated.",
)
@click.option(
    "--sites",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="Sites whose sum of gradients is seen in the setting aggregated; 1 leaves it out.",
)
@click.option(
    "--epsilon",
    type=float,
    metavar="NUMBER",
    help="Attack steps of a training with differential privacy too, for each patient at delta 1e-5.",
)
@click.option(
    "--attacked",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help="Images to reconstruct in each setting, each of another patient; at least one step.",
)
@click.option(
    "--size",
    type=click.IntRange(32, 224),
    default=32,
    show_default=True,
    help="Width and height of the images in pixels.",
)
@click.option(
    "--iterations",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="Steps of the search for the images.",
)
@_model_and_pictures
def gradients(
    images: Path | None,
    labels: Path | None,
    renamed: tuple[str, ...],
    kind: Modality | None,
    column: str | None,
    split: str | None,
    recipe: str,
    batches: tuple[int, ...],
    sites: int,
    epsilon: float | None,
    attacked: int,
    size: int,
    iterations: int,
    model: Path | None,
    output: Path | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Reconstruct images from the gradients of one training step of a classifier.

    Improved deep leakage from gradients: what a server learns in federated training. Settings: unprotected,
    aggregated over sites, clipped for each patient, and, with --epsilon, clipped with noise. SSIM of the
    reconstructions is compared with that of images of other patients and of their mean. Images that cannot be
    used are counted, and the exit code is then 1.
    """
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.jobs.attack_gradients import GradientAttackRequest, run_gradient_attack
    from medsanitize.pipeline.jobs.attacked_images import ImageTable

    if (images is None) != (column is None):
        raise UsageError("--images and --class belong together", "Give both, or neither for phantoms")
    request = GradientAttackRequest(
        table=ImageTable(images, labels, columns_of(renamed), split, kind),
        column=column or "",
        recipe=recipe,
        batches=tuple(sorted(set(batches))),
        sites=sites,
        epsilon=epsilon,
        attacked=attacked,
        size=size,
        iterations=iterations,
        model=model,
        output=output,
    )
    with long_running(log_json) as (progress, cancellation):
        result = run_gradient_attack(request, progress, cancellation)
    code = 1 if result.excluded else 0
    print_result(as_json, {**result.to_json(), "exit_code": code}, "\n".join(_gradient_lines(result)))
    return code


def _gradient_lines(result: GradientAttack) -> list[str]:
    table: list[tuple[str, ...]] = [
        (
            "setting",
            "batch",
            "images",
            "SSIM",
            "other patients",
            "their mean",
            "above",
            "identified",
            "re-identified",
        )
    ]
    for one in result.settings:
        alike, found = one.resemblance, one.reidentified
        table.append(
            (
                one.setting,
                str(one.batch),
                str(alike.images),
                *(_with_interval(each) for each in (alike.reconstructed, alike.others, alike.mean)),
                "yes" if alike.above_chance else "no",
                f"{one.identified.found} of {one.identified.images} (guess {100 * one.chance:.0f} %)",
                f"{found.found} of {found.images}" if found else "not measured",
            )
        )
    genuine = result.genuine
    lines = [
        f"Gradients of {result.parameters:,} weights (recipe {result.recipe}, random weights), images of"
        f" {result.size} x {result.size} pixels of {result.cohort}; aggregated: over {result.sites} sites.",
        "SSIM: mean of the best-matched reconstructions; above: whether it exceeds both guesses, image by"
        " image. Identified: nearest to an image of their step among those of all patients. 95 % intervals.",
        "",
        *aligned(table),
        "",
        f"Re-identified: nearest of the images of {result.patients:,} patients; the originals themselves"
        f" find {f'{genuine.found} of {genuine.images}' if genuine else 'nobody: patients have one image'}.",
    ]
    for one in result.settings:
        if one.privacy:
            lines.append(
                f"private, batch {one.batch}: epsilon {one.privacy['spent']['pld']:.2f} at delta"
                f" {one.privacy['delta']:.0e} after {one.privacy['steps']:,} steps, noise multiplier"
                f" {one.privacy['noise_multiplier']:.2f}."
            )
    if not any(one.privacy for one in result.settings):
        lines.append("Noise: not measured; give --epsilon.")
    if result.excluded:
        lines.append(f"Excluded: {sum(result.excluded.values()):,} images; --json says why.")
    return lines


def _with_interval(one: Estimate) -> str:
    return f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})"


@command(
    "membership",
    "medsanitize attack membership --images scans --labels labels.csv --class finding --epsilon 8",
)
@_images_of_patients
@_CLASS
@click.option(
    "--references",
    type=click.IntRange(2, 256),
    default=16,
    show_default=True,
    help="Reference models of each attacked one.",
)
@click.option(
    "--epsilon",
    type=float,
    metavar="NUMBER",
    help="Attack a classifier with differential privacy too, for each patient at delta 1e-5.",
)
@click.option("--output", type=FILE, metavar="FOLDER", help="New folder for report.json.")
def membership(
    images: Path | None,
    labels: Path | None,
    renamed: tuple[str, ...],
    kind: Modality | None,
    column: str | None,
    split: str | None,
    references: int,
    epsilon: float | None,
    output: Path | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Infer which patients trained a classifier.

    The robust membership inference attack (RMIA): a classifier of the recipe frozen is trained on a random
    half of the patients, and reference models on other halves. The attacker has images of a patient and asks
    whether the patient is among those of the classifier. Images that cannot be used are counted, and the exit
    code is then 1.
    """
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.jobs.attack_membership import MembershipAttackRequest, run_membership_attack
    from medsanitize.pipeline.jobs.attacked_images import ImageTable

    if (images is None) != (column is None):
        raise UsageError("--images and --class belong together", "Give both, or neither for phantoms")
    table = ImageTable(images, labels, columns_of(renamed), split, kind)
    request = MembershipAttackRequest(table, column or "", references, epsilon, output)
    with long_running(log_json) as (progress, cancellation):
        result = run_membership_attack(request, progress, cancellation)
    code = 1 if result.excluded else 0
    print_result(as_json, {**result.to_json(), "exit_code": code}, "\n".join(_membership_lines(result)))
    return code


def _membership_lines(result: MembershipAttack) -> list[str]:
    table: list[tuple[str, ...]] = [
        ("model", "AUC", "members found at 0.1 %", "at 1 %", "above", "accuracy: members", "others")
    ]
    for one in result.models:
        found, (low, high) = one.membership, one.membership.auc_interval
        table.append(
            (
                one.name,
                f"{found.auc:.3f} ({low:.3f} to {high:.3f})",
                *(
                    f"{100 * rate.share:.1f} % ({100 * rate.lower:.1f} to {100 * rate.upper:.1f})"
                    for rate in found.rates
                ),
                "yes" if found.above_chance else "no",
                f"{one.accuracy_members:.3f}",
                f"{one.accuracy_others:.3f}",
            )
        )
    lines = [
        f"Classifiers of half of {result.patients:,} patients ({result.images:,} images of"
        f" {result.cohort}), {result.references} reference models each.",
        "Members found: share of them at a rate of other patients taken for members; 95 % intervals.",
        "",
        *aligned(table),
        "",
    ]
    for one in result.models:
        for rate in one.membership.rates:
            if not rate.false_positives:
                lines.append(
                    f"{one.name}, {100 * rate.false_positive_rate:g} %: of so few others none may be taken"
                    " for a member."
                )
        if one.privacy:
            lines.append(
                f"{one.name}: epsilon {one.privacy['spent']['pld']:.2f} at delta {one.privacy['delta']:.0e}."
            )
    if not any(one.privacy for one in result.models):
        lines.append("Differential privacy: not measured; give --epsilon.")
    if result.excluded:
        lines.append(f"Excluded: {sum(result.excluded.values()):,} images; --json says why.")
    return lines


@command("decoder", "medsanitize attack decoder --known phantoms --output private")
@_images_of_patients
@click.option(
    "--known",
    type=click.Choice(["patients", "phantoms"]),
    default="patients",
    show_default=True,
    help="Images that the attacker trains the decoder on: of other patients of the table, or of phantoms.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1, 10_000),
    default=40,
    show_default=True,
    help="How often the decoder sees each image.",
)
@_model_and_pictures
def decoder(
    images: Path | None,
    labels: Path | None,
    renamed: tuple[str, ...],
    kind: Modality | None,
    split: str | None,
    known: Any,
    epochs: int,
    model: Path | None,
    output: Path | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Reconstruct images from embeddings by a decoder network.

    The decoder is trained on images of other people. Of at most a third of the patients, who have several
    images, one embedding is decoded, and the model searches the reconstruction among their other images.
    Images that cannot be used are counted, and the exit code is then 1.
    """
    from medsanitize.pipeline.jobs.attack_decoder import DecoderAttackRequest, run_decoder_attack
    from medsanitize.pipeline.jobs.attacked_images import ImageTable

    table = ImageTable(images, labels, columns_of(renamed), split, kind)
    request = DecoderAttackRequest(table, known, epochs, model, output)
    with long_running(log_json) as (progress, cancellation):
        result = run_decoder_attack(request, progress, cancellation)
    code = 1 if result.excluded else 0
    print_result(as_json, {**result.to_json(), "exit_code": code}, "\n".join(_decoder_lines(result)))
    return code


def _decoder_lines(result: DecoderAttack) -> list[str]:
    alike = result.resemblance
    known = "phantoms" if result.known == "phantoms" else "other patients"
    table: list[tuple[str, ...]] = [("", "patient found", "95 % interval")]
    for name, one in (("reconstruction", result.decoded), ("original, same size", result.genuine)):
        interval = f"{100 * one.lower:.1f} to {100 * one.upper:.1f} %"
        table.append((name, f"{one.found} of {one.images} ({100 * one.share:.1f} %)", interval))
    table.append(("guess", f"{100 * result.chance:.1f} %", ""))
    lines = [
        f"Embeddings of {result.cohort} ({result.model}, {result.dimension} numbers), decoded into"
        f" {result.size} x {result.size} pixels by a network trained on {result.trained_on:,} images of"
        f" {known}.",
        "",
        *aligned(table),
        "",
        f"SSIM with the original: {_with_interval(alike.reconstructed)}; of an image of another person"
        f" {_with_interval(alike.others)}; of their mean {_with_interval(alike.mean)}. 95 % intervals.",
    ]
    if result.excluded:
        lines.append(f"Excluded: {sum(result.excluded.values()):,} images; --json says why.")
    return lines
