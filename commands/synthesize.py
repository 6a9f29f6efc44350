"""The command synthesize."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE, command, long_running, print_result
from medsanitize.commands.options import columns_of, table_options

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.synthesize import Synthesis, SynthesisRequest

_EXIT_CODES = {"passed": 0, "insufficient_data": 1, "failed": 3}
_EXAMPLE = (
    "medsanitize synthesize generator --images scans --labels labels.csv --class finding"
    " --verifier model -n 1000 --output internal"
)


@command("synthesize", _EXAMPLE)
@click.argument("model", type=FILE)
@table_options
@click.option("--class", "label", metavar="COLUMN", default="", help="Column of the class, as in training.")
@click.option("--training", default="train", show_default=True, help="Training split of the generator.")
@click.option(
    "--holdout", default="holdout", show_default=True, help="Held-out split that no model was trained on."
)
@click.option(
    "--calibration",
    default="calibration",
    show_default=True,
    help="Held-out split used to calibrate the match threshold.",
)
@click.option(
    "--federated-calibration",
    type=FILE,
    metavar="FILE",
    help="Calibration of the gate by a federation, which is used in place of the calibration split if images"
    " score alike.",
)
@click.option("--verifier", type=FILE, required=True, help="Folder of a verification model.")
@click.option("--retrieval", type=FILE, help="Folder of a retrieval model; by default packaged features.")
@click.option("-n", "--count", type=click.IntRange(1, 1_000_000), required=True, help="Number of images.")
@click.option(
    "--balanced/--as-in-data",
    default=False,
    help="Equal numbers per class, or the shares of the training split.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option(
    "--residual",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=1e-3,
    show_default=True,
    help="Largest acceptable upper bound of the share of copies after matches are removed.",
)
@click.option(
    "--inconclusive",
    type=click.Choice(["accept", "refuse"]),
    default="refuse",
    show_default=True,
    help="What to do with attacks that the splits are too small for.",
)
@click.option(
    "--reidentification",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Limit of re-identification: how much more often than strangers images may match a training patient"
    " at a false match rate of 0.1 %.",
)
@click.option(
    "--unvetted",
    is_flag=True,
    help="Write images also if the gate does not pass: to the folder unvetted, and marked so.",
)
@click.option(
    "--tries",
    type=FILE,
    metavar="FILE",
    help="Record of the draws judged on these patients; by default beside the table, as LABELS.tries.",
)
@click.option(
    "--form",
    type=click.Choice(["png", "secondary-capture", "cr"]),
    default="png",
    show_default=True,
    help="PNG with a JSON file each, or DICOM.",
)
@click.option("--device", default="cpu", show_default=True, help="Device of the generator: cpu or cuda.")
@click.option("--output", type=FILE, required=True, metavar="FOLDER", help="A new folder.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use; by default one per core.")
def synthesize(
    model: Path,
    renamed: tuple[str, ...],
    workers: int | None,
    *,
    as_json: bool,
    log_json: bool,
    **options: Any,
) -> int:
    """Generate synthetic images that match no training patient, or state what is needed.

    Generates as many images as the residual requires, compares them with every training patient, and replaces
    those that match. Exit code 0: the gate passed, and all images are written; 1: images are missing, or
    there are too few patients or images for a verdict; 3: the gate failed. Images are written only if the
    gate passed, or with --unvetted. The page synthesis.html contains PHI. After an interruption, the same
    command resumes.
    """
    from medsanitize.pipeline.jobs.synthesize import run_synthesize
    from medsanitize.pipeline.runtime.machine import usable_cores

    request = _synthesis_request(model, renamed, options)
    # One process per GPU; on the CPU one per core.
    cores = 1 if request.device != "cpu" else usable_cores()
    with long_running(log_json) as (progress, cancellation):
        result = run_synthesize(request, progress, cancellation, workers=workers or cores)
    code = _EXIT_CODES[result.state] or int(result.shortfall > 0)
    print_result(as_json, {**result.facts(), "exit_code": code}, "\n".join(_lines(result)))
    return code


def _synthesis_request(model: Path, renamed: tuple[str, ...], options: dict[str, Any]) -> SynthesisRequest:
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra

    check_extra("generate")
    from medsanitize.pipeline.jobs.synthesize import SynthesisRequest
    from medsanitize.pipeline.synthesis.reference_images import ReferenceTable

    parts = (options["training"], options["holdout"], options["calibration"])
    table = ReferenceTable(options["images"], options["labels"], columns_of(renamed), options["label"], parts)
    names = (
        "verifier retrieval count balanced seed residual reidentification unvetted tries form device output"
        " federated_calibration"
    )
    accepts = options["inconclusive"] == "accept"
    settings = {name: options[name] for name in names.split()}
    return SynthesisRequest(model=model, table=table, inconclusive=accepts, **settings)


def _lines(result: Synthesis) -> list[str]:
    sampling, lines = result.drawn, [*result.said]
    if sampling:
        removed = int((~sampling.judged.kept).sum())
        lines.append(
            f"{len(sampling.first):,} images were generated and judged, {removed:,} of them removed;"
            f" {sampling.again:,} were generated to replace them, {sampling.refused:,} removed."
        )
    if result.blanked:
        lines.append(f"Text that the generator has learned was blanked in {result.blanked:,} images.")
    if result.with_text:
        lines.append(f"{result.with_text:,} images were left out: text in them could not be blanked.")
    if result.shortfall:
        lines.append(f"{result.shortfall:,} of the {sum(result.wanted):,} requested images are missing.")
    if not result.traced:
        lines.append(
            "The generator's folder does not confirm that it was trained on the training split only:"
            " other patients were not compared."
        )
    lines += [f"Excluded: {count:,} ({reason})." for reason, count in result.excluded.items()]
    if result.measured.unmeasured:
        lines.append(f"Quality was not measured: {result.measured.unmeasured}")
    elif result.measured.of_all:
        lines.append(
            "Quality is that of all generated images, removed ones included: few or none are written."
        )
    page = ", and synthesis.html, which contains PHI" if sampling else ""
    if not result.written:
        lines.append(f"Written: no image; verdict.json{page}.")
    elif result.vetted:
        lines.append(f"Written: {result.written:,} images, verdict.json{page}.")
    else:
        lines.append(
            f"Written: {result.written:,} images that were NOT VETTED, in the folder unvetted: do not release"
            f" them; verdict.json{page}."
        )
    return lines
