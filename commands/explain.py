"""The command explain: explanations by example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from medsanitize.commands.command import FILE, command, long_running, print_result

if TYPE_CHECKING:
    from medsanitize.generators.explain.explain import Explanation
    from medsanitize.generators.explain.relevance_judgments import Ranking


@command(
    "explain",
    "medsanitize explain scan.dcm --catalog release --model classifier --output internal",
)
@click.argument("image", type=FILE)
@click.option(
    "--catalog",
    type=FILE,
    required=True,
    metavar="RELEASE",
    help="Release from which the examples are taken.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Use the real images of the release as well; they show patients.",
)
@click.option(
    "--model",
    type=FILE,
    help="Folder of a classifier (train classifier); by default ImageNet features, no classes.",
)
@click.option(
    "--count", type=click.IntRange(1, 100), default=4, show_default=True, help="Number of examples."
)
@click.option(
    "--judgments",
    type=FILE,
    metavar="TABLE",
    help="Evaluate the ranking (nDCG) with a table of file, object_id, relevance; IMAGE is its folder.",
)
@click.option(
    "--output", type=FILE, metavar="FOLDER", help="Folder for the page, which shows IMAGE, and JSON."
)
def explain(
    image: Path,
    catalog: Path,
    everything: bool,
    model: Path | None,
    count: int,
    judgments: Path | None,
    output: Path | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Explain a classifier's prediction for IMAGE with similar synthetic images.

    The release is verified first. Objects that cannot be compared are counted, and the exit code is then 1.
    """
    from medsanitize.pipeline.jobs.explain import ExplanationRequest, run_explain, run_ranking

    request = ExplanationRequest(image, catalog, everything, model, count, output)
    with long_running(log_json) as (progress, cancellation):
        if judgments is not None:
            ranking = run_ranking(request, judgments, progress, cancellation)
        else:
            result = run_explain(request, progress, cancellation)
    if judgments is not None:
        print_result(as_json, {**ranking.to_json(), "exit_code": 0}, "\n".join(_ranking_lines(ranking)))
        return 0
    code = 1 if result.excluded else 0
    print_result(as_json, {**result.to_json(), "exit_code": code}, "\n".join(_lines(result)))
    return code


def _lines(result: Explanation) -> list[str]:
    answers = ", ".join(f"{one.name} {one.probability:.2f}" for one in result.answers)
    lines = [f"Prediction: {answers}." if answers else "The features have no classes."]
    lines.append(f"{result.images:,} images of the catalog compared by {result.model}.")
    lines += [f"Excluded: {count:,} ({reason})." for reason, count in result.excluded.items()]
    for one in result.by_features:
        prediction = "" if one.answer is None else f", {one.answer.name} {one.answer.probability:.2f}"
        lines.append(
            f"{one.rank:>3}  {one.path}  distance {one.distance:.4f}, SSIM {one.ssim:.4f}"
            f" (rank {one.structure_rank:,}){prediction}{'' if one.synthetic else ', a real image'}"
            f"{f', {one.repeats:,} more nearly identical' if one.repeats else ''}"
        )
    return lines


def _ranking_lines(result: Ranking) -> list[str]:
    lines = [f"{result.judgments:,} judgments for {result.images:,} images, ranked by {result.model}."]
    for at in result.at:
        one, other = at.features, at.structure
        lines.append(
            f"nDCG@{at.p:<3} {one.value:.3f} ({one.low:.3f} to {one.high:.3f}); by structure"
            f" {other.value:.3f} ({other.low:.3f} to {other.high:.3f}); by chance {at.chance:.3f}"
        )
    return lines
