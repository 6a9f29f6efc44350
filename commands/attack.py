"""The command attack: privacy attacks on releases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from medsanitize.commands.command import FILE, command, long_running, print_result
from medsanitize.commands.options import COLUMN, columns_of

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.linkage.dataset_attack import Linkage


@click.group()
def attack() -> None:
    """Run privacy attacks against a release."""


@command("linkage", "medsanitize attack linkage release --background other --output internal", group=attack)
@click.argument("release", type=FILE)
@click.option(
    "--background",
    type=FILE,
    required=True,
    metavar="OTHER",
    help="Dataset available to the attacker; may be RELEASE itself.",
)
@click.option(
    "--labels", type=FILE, metavar="TABLE", help="Table of files and patients, if RELEASE is a folder."
)
@click.option("--background-labels", type=FILE, metavar="TABLE", help="The same for OTHER.")
@COLUMN
@click.option("--model", type=FILE, help="Folder of a retrieval model; by default ImageNet features.")
@click.option("--policy", type=FILE, help="Policy of RELEASE; checks the guidelines A1 to A7 as well.")
@click.option("--output", type=FILE, metavar="FOLDER", help="Folder for linkage.json and linkage.html.")
def linkage(
    release: Path,
    background: Path,
    labels: Path | None,
    background_labels: Path | None,
    renamed: tuple[str, ...],
    model: Path | None,
    policy: Path | None,
    output: Path | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Link patients by image similarity, and report the success rate Rs of Holub et al. 2023.

    RELEASE and OTHER are releases, with patients by pseudonym, or folders with a table (by default their
    labels.csv). Images that cannot be read are counted, and the exit code is then 1.
    """
    from medsanitize.pipeline.jobs.attack_release import LinkageAttackRequest, run_linkage

    columns = columns_of(renamed)
    request = LinkageAttackRequest(
        release, background, labels, background_labels, columns, model, policy, output
    )
    with long_running(log_json) as (progress, cancellation):
        result = run_linkage(request, progress, cancellation)
    code = 1 if result.excluded else 0
    print_result(as_json, {**result.to_json(), "exit_code": code}, "\n".join(_lines(result)))
    return code


def _lines(result: Linkage) -> list[str]:
    lines = [
        f"{result.release.images:,} images of {result.release.patients:,} patients attacked with"
        f" {'each other' if result.itself else f'{result.background.images:,} images'}."
    ]
    if result.excluded:
        lines.append(f"Excluded: {result.excluded:,} images; --output and --json say why.")
    for name, rates_of_region in (("whole images", result.whole), ("central crops", result.crop)):
        if rates_of_region is None:
            lines.append(f"Rs, {name}: not measured.")
        else:
            (low, high), rate = rates_of_region.interval, rates_of_region.rs
            lines.append(
                f"Rs, {name}: {rate.share:.3f} ({low:.3f} to {high:.3f}): {rate.errors:,} of {rate.of:,}"
                f" patients linked, at most {rate.upper:.3f} at 95 % confidence."
            )
    if result.without_crop:
        lines.append(f"Of {result.without_crop:,} images there is no central crop.")
    lines += [
        f"{guideline.code} {guideline.name}: {guideline.result}. {guideline.why}"
        for guideline in result.guidelines
    ]
    return lines
