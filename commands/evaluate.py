"""The command evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from medsanitize.commands.command import FILE, command, long_running, print_result
from medsanitize.commands.options import KIND, columns_of, table_options

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.evaluation.evaluate import Evaluation
    from medsanitize.verifiers.reid.images.image import Modality


@command("evaluate", "medsanitize evaluate --images scans --labels labels.csv --split test --model model")
@table_options
@KIND
@click.option("--split", help="Rows of this split only; without it, all rows.")
@click.option("--model", type=FILE, help="Folder of a retrieval model; by default ImageNet features.")
@click.option("--verifier", type=FILE, help="Folder of a verification model that scores the pairs.")
@click.option(
    "--false-match-rate",
    "target",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.01,
    show_default=True,
    help="Target false match rate over pairs of patients.",
)
@click.option(
    "--calibration",
    type=FILE,
    help="Calibration file of the same models, of other images or of a federation; by default the"
    " model's own.",
)
@click.option(
    "--output",
    type=FILE,
    metavar="FOLDER",
    help="Folder for results.json, evaluation.html and calibration.json (for overlap --calibration).",
)
def evaluate(
    images: Path,
    labels: Path,
    renamed: tuple[str, ...],
    split: str | None,
    model: Path | None,
    verifier: Path | None,
    target: float,
    output: Path | None,
    kind: Modality | None,
    calibration: Path | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Evaluate a re-identification model: P@1, mAP@R, AUC, and error rates at a threshold.

    Without --model, the packaged ImageNet features are evaluated. Images that cannot be read are excluded and
    counted, and the exit code is then 1.
    """
    from medsanitize.pipeline.jobs.evaluate_model import EvaluationRequest, run_evaluation

    columns = columns_of(renamed)
    request = EvaluationRequest(
        images, labels, columns, split, model, verifier, target, output, kind, calibration
    )
    with long_running(log_json) as (progress, cancellation):
        result = run_evaluation(request, progress, cancellation)
    code = 1 if result.excluded else 0
    print_result(
        as_json, {**result.to_json(), "exit_code": code}, "\n".join(_lines(result, output, calibration))
    )
    return code


def _verifier_lines(result: Evaluation) -> list[str]:
    """Retrieval with the verification model, alone and with the retrieval model."""
    from medsanitize.verifiers.reid.evaluation.evaluation_report import number

    ways = {
        "By the verifier's score": result.retrieval_by_score,
        "Search with both models, re-ranked": result.search,
    }
    return [
        f"{way}: P@1 {number(found.precision_at_1, found.intervals['precision_at_1'])},"
        f" mAP@R {number(found.map_at_r, found.intervals['map_at_r'])}"
        for way, found in ways.items()
        if found is not None
    ]


def _lines(result: Evaluation, output: Path | None, calibration: Path | None) -> list[str]:
    from medsanitize.pipeline.jobs.evaluate_model import CALIBRATION
    from medsanitize.pipeline.runtime.calibrations import read_given_calibration
    from medsanitize.verifiers.reid.evaluation.evaluation_report import excluded_lines, number

    search, pairs = result.retrieval, result.verification
    lines = [
        f"{result.images:,} images of {result.patients:,} patients; {search.queries:,} have a mate to find.",
        *excluded_lines(result.excluded),
        f"P@1          {number(search.precision_at_1, search.intervals['precision_at_1'])}",
        f"mAP@R        {number(search.map_at_r, search.intervals['map_at_r'])}",
        f"R-precision  {number(search.r_precision, search.intervals['r_precision'])}",
        *_verifier_lines(result),
        f"AUC          {number(pairs.auc, pairs.intervals['auc'])}, all pairs, score: {pairs.score}",
    ]
    made = pairs.decisions
    if made is None:
        lines.append("No threshold was set: too few patients have two images.")
    else:
        lines.append(
            f"At a false match rate of {made.target:g} (threshold set by: {made.calibrated_on}):"
            f" recall {made.recall:.4f}, specificity {made.specificity:.4f}, accuracy {made.accuracy:.4f},"
            f" precision {made.precision:.4f}, F1 {made.f1:.4f}."
        )
        if made.calibrated_on == "given" and calibration is not None:
            said = read_given_calibration(calibration).statement
            lines += [said] if said else []
        if made.unquoted:
            lines.append(f"The calibration of other images is not quoted: {made.unquoted}.")
        if made.insufficient_data:
            lines.append(f"That rate is an estimate without a bound: {made.insufficient_data}.")
    if output is not None:
        lines.append("Written: results.json and evaluation.html.")
        if (output / CALIBRATION).is_file():
            lines.append("calibration.json is for comparisons with the same models.")
        else:
            lines.append(
                "No calibration.json: a model was trained on these images, or no patient has two exposures."
            )
    return lines
