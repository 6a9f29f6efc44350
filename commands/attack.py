"""The command attack: privacy attacks on releases, models and embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.attack_generator import generator
from medsanitize.commands.attack_models import decoder, gradients, membership
from medsanitize.commands.command import FILE, aligned, command, long_running, print_result
from medsanitize.commands.options import COLUMN, KIND, columns_of

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.attack_embeddings import EmbeddingAttack
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.linkage.dataset_attack import Linkage


@click.group()
def attack() -> None:
    """Run privacy attacks against a release, models, or schemes that share embeddings."""


for one in (gradients, membership, decoder, generator):
    attack.add_command(one)


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
@KIND
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
    kind: Modality | None,
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
        release, background, labels, background_labels, columns, model, policy, output, kind
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


@command("embeddings", "medsanitize attack embeddings --scheme flake --scheme ckks-scores", group=attack)
@click.option(
    "--scheme",
    "schemes",
    type=click.Choice(["flake", "masks", "ckks-scores", "private-overlap"]),
    multiple=True,
    help="Scheme to attack, may be repeated; by default all, private-overlap only with --party.",
)
@click.option("--images", type=FILE, metavar="ROOT", help="Folder of the table's files; default: phantoms.")
@click.option("--labels", type=FILE, metavar="TABLE", help="CSV or Parquet table of files and patients.")
@COLUMN
@KIND
@click.option("--split", help="Rows of this split only; without it, all rows.")
@click.option("--model", type=FILE, help="Folder of a retrieval model; by default ImageNet features.")
@click.option("--party", type=FILE, metavar="FOLDER", help="Party with the library of private comparisons.")
def embeddings(
    schemes: tuple[Any, ...],
    images: Path | None,
    labels: Path | None,
    renamed: tuple[str, ...],
    kind: Modality | None,
    split: str | None,
    model: Path | None,
    party: Path | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Recover embeddings from what schemes for their comparison give away.

    flake and masks are the schemes of Federated GestaltMatcher, ckks-scores are encrypted queries, and
    private-overlap is the private comparison of this program, attacked in the same way. The images are split
    among three parties; a quarter of the patients are the attacker's own. Exit code 3: the private comparison
    gives more away than chance. Images that cannot be read are counted, and the exit code is then 1.
    """
    from medsanitize.errors import UsageError
    from medsanitize.federation.psi.install import PSI
    from medsanitize.pipeline.jobs.attack_embeddings import EmbeddingAttackRequest, run_embedding_attack

    if (images is None) != (labels is None):
        raise UsageError("--images and --labels belong together", "Give both, or neither for phantoms")
    wanted = schemes or ("flake", "masks", "ckks-scores", *(["private-overlap"] if party else []))
    request = EmbeddingAttackRequest(
        wanted,
        images,
        labels,
        columns_of(renamed),
        split,
        model,
        kind,
        PSI.of(party) if party else None,
    )
    with long_running(log_json) as (progress, cancellation):
        result = run_embedding_attack(request, progress, cancellation)
    code = 3 if result.broken_comparisons else 1 if result.excluded else 0
    print_result(as_json, {**result.to_json(), "exit_code": code}, "\n".join(_attack_lines(result)))
    return code


def _attack_lines(result: EmbeddingAttack) -> list[str]:
    images = "phantoms" if result.cohort == "phantoms" else "images"
    claims = list(dict.fromkeys(one.claim for one in result.attacks))
    head = ("scheme", "attacker", "known", "recovered", "95 % interval", "chance", "error", "claim")
    table = [head]
    for one in result.attacks:
        share, chance = (f"{100 * value:.1f} %" for value in (one.share, one.chance))
        interval = f"{100 * one.lower:.1f} to {100 * one.upper:.1f} %"
        claim = f"({claims.index(one.claim) + 1})"
        known, error = str(one.known), f"{one.relative_error:.2g}"
        table.append((one.scheme, one.attacker, known, share, interval, chance, error, claim))
    lines = [
        f"{result.embeddings:,} embeddings of {images}, {result.dimension} numbers each, at {result.parties}"
        f" parties ({result.model}). The attacker has {result.others:,} of other patients.",
        "An embedding is recovered if the true one is the nearest to the estimate. Error: relative, median.",
        "",
        *aligned(table),
        "",
        *(f"({place}) {claim}" for place, claim in enumerate(claims, 1)),
    ]
    if any(one.scheme == "ckks-scores" for one in result.attacks):
        by = result.encrypted_by or "not run (extra 'ckks'): errors of its size were added to the scores"
        lines.append(f"Encryption of the scores: {by}. Known: the queries, images of the asking hospital.")
    if result.broken_comparisons:
        lines.append("The private comparison of this program gives more away than chance: report it.")
    if result.excluded:
        lines.append(f"Excluded: {sum(result.excluded.values()):,} images; --json says why.")
    return lines
