"""The command evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from medsanitize.commands.command import FILE, command, long_running, print_result
from medsanitize.commands.options import columns_of, table_options

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.evaluation.evaluate import Evaluation


@command("evaluate", "medsanitize evaluate --images scans --labels labels.csv --split test --model model")
@table_options
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
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Evaluate a re-identification model: P@1, mAP@R, AUC, and error rates at a threshold.

    Without --model, the packaged ImageNet features are evaluated. Images that cannot be read are excluded and
    counted, and the exit code is then 1.
    """
    from medsanitize.pipeline.jobs.evaluate_model import EvaluationRequest, run_evaluation

    request = EvaluationRequest(images, labels, columns_of(renamed), split, model, verifier, target, output)
    with long_running(log_json) as (progress, cancellation):
        result = run_evaluation(request, progress, cancellation)
    code = 1 if result.excluded else 0
    print_result(as_json, {**result.to_json(), "exit_code": code}, "\n".join(_lines(result, output)))
    return code


def _score_lines(result: Evaluation) -> list[str]:
    from medsanitize.verifiers.reid.evaluation.evaluation_report import number

    ranked = result.retrieval_by_score
    if ranked is None:
        return []
    first = number(ranked.precision_at_1, ranked.intervals["precision_at_1"])
    return [
        f"By the verifier's score: P@1 {first}, mAP@R {number(ranked.map_at_r, ranked.intervals['map_at_r'])}"
    ]


def _lines(result: Evaluation, output: Path | None) -> list[str]:
    from medsanitize.pipeline.jobs.evaluate_model import CALIBRATION
    from medsanitize.verifiers.reid.evaluation.evaluation_report import excluded_lines, number

    search, pairs = result.retrieval, result.verification
    lines = [
        f"{result.images:,} images of {result.patients:,} patients; {search.queries:,} have a mate to find.",
        *excluded_lines(result.excluded),
        f"P@1          {number(search.precision_at_1, search.intervals['precision_at_1'])}",
        f"mAP@R        {number(search.map_at_r, search.intervals['map_at_r'])}",
        f"R-precision  {number(search.r_precision, search.intervals['r_precision'])}",
        *_score_lines(result),
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
