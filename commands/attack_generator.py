"""The command ``attack generator``: what a generator remembers of its training images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from medsanitize.commands.command import FILE, aligned, command, long_running, print_result
from medsanitize.commands.options import COLUMN, columns_of

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.attack_generator import Found, GeneratorAttack


@command(
    "generator",
    "medsanitize attack generator model --images scans --labels labels.csv --class finding --output private",
)
@click.argument("model", type=FILE)
@click.option(
    "--images",
    type=FILE,
    metavar="ROOT",
    help="Folder of the table's files; without it, the attack is blind.",
)
@click.option(
    "--labels", type=FILE, metavar="TABLE", help="Table of the images that the generator was trained on."
)
@COLUMN
@click.option("--class", "label", metavar="COLUMN", default="", help="Column of the class, as in training.")
@click.option("--training", default="train", show_default=True, help="Training split of the generator.")
@click.option(
    "--holdout",
    default="",
    help="Split of other patients, besides those whom the training itself held out.",
)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(20, 10_000),
    default=500,
    show_default=True,
    help="Number of images to sample.",
)
@click.option("--device", default="cpu", show_default=True, help="Device of the generator: cpu or cuda.")
@click.option(
    "--output",
    type=FILE,
    metavar="FOLDER",
    help="New folder for report.json and pictures of samples beside training images: they show patients.",
)
def generator(
    model: Path,
    images: Path | None,
    labels: Path | None,
    renamed: tuple[str, ...],
    label: str,
    training: str,
    holdout: str,
    count: int,
    device: str,
    output: Path | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Extract training images from a generator, and infer which patients trained it.

    After Carlini et al. 2023: samples that the generator repeats are taken for memorized images. With the
    table, the patients whom samples show are counted, of training and of others, noised images are restored,
    and the denoising loss tells training patients from others. Images that cannot be used are counted, and
    the exit code is then 1.
    """
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.jobs.attack_generator import GeneratorAttackRequest, run_generator_attack
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra
    from medsanitize.pipeline.synthesis.reference_images import ReferenceTable

    check_extra("generate")
    if (images is None) != (labels is None):
        raise UsageError("--images and --labels belong together", "Give both, or neither for a blind attack")
    table = None
    if images is not None and labels is not None:
        table = ReferenceTable(images, labels, columns_of(renamed), label, (training, holdout, ""))
    request = GeneratorAttackRequest(model, table, count, device, output)
    with long_running(log_json) as (progress, cancellation):
        result = run_generator_attack(request, progress, cancellation)
    code = 1 if result.excluded else 0
    print_result(as_json, {**result.to_json(), "exit_code": code}, "\n".join(_lines(result)))
    return code


def _lines(result: GeneratorAttack) -> list[str]:
    repeated, found = result.repeated, result.found
    lines = [
        f"{result.samples:,} samples of {result.size} x {result.size} pixels.",
        f"Repeated: {repeated.samples:,} samples in {repeated.groups:,} groups, the largest of"
        f" {repeated.largest:,}.",
    ]
    if result.privacy:
        lines.append(f"Differential privacy: epsilon {result.privacy['spent']['pld']:.2f} by its statement.")
    if found is None:
        lines.append("Whether these show patients was not measured: give --images and --labels.")
    else:
        lines += [f"Groups that show a training image: {repeated.confirmed:,}.", "", *_found_lines(found)]
    if result.excluded:
        lines.append(f"Excluded: {sum(result.excluded.values()):,} images; --json says why.")
    return lines


def _found_lines(found: Found) -> list[str]:
    one, who = found.extraction, found.membership
    (low, high), of = found.share, f"of {found.patients:,} and {found.others:,}"
    (least, most), auc = found.matching_interval, who.auc_interval
    table: list[tuple[str, ...]] = [
        ("", "training patients", "other patients", "p-value", "95 % interval"),
        (
            f"extracted, {of}",
            str(one.extracted),
            str(one.extracted_others),
            f"{found.chance:.2g}",
            f"{100 * low:.1f} to {100 * high:.1f} % of training patients",
        ),
        (
            f"restored, of {one.hints:,} each",
            str(one.restored),
            str(one.restored_others),
            f"{one.chance:.2g}",
            "",
        ),
        (
            "samples that show one",
            str(found.matching),
            str(found.matching_others),
            "",
            f"{100 * least:.1f} to {100 * most:.1f} % of samples",
        ),
    ]
    lines = [
        *aligned(table),
        "",
        f"Membership by loss: AUC {who.auc:.3f} ({auc[0]:.3f} to {auc[1]:.3f}).",
    ]
    for rate in who.rates:
        lines.append(
            f"Members found at {100 * rate.false_positive_rate:g} % of others: {100 * rate.share:.1f} %"
            f" ({100 * rate.lower:.1f} to {100 * rate.upper:.1f})."
        )
    said = {True: "yes", False: "no"}
    lines.append(f"Above chance: extraction {said[one.veto]}, membership {said[who.above_chance]}.")
    return lines
