"""The commands overlap and index: shared patients of datasets."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE, command, long_running, print_result
from medsanitize.commands.options import COLUMN, KIND, columns_of

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.compare_datasets import OverlapRequest
    from medsanitize.pipeline.jobs.private_overlap import PartnerRow
    from medsanitize.verifiers.reid.calibration import OperatingPoint
    from medsanitize.verifiers.reid.overlap.compare import Comparison
    from medsanitize.verifiers.reid.overlap.overlap import Overlap

# Six datasets make fifteen comparisons; more are better done against a registry.
_DATASET_LETTERS = "abcdef"
# Exit codes: 3 is a refusal, as for gates; 1 asks for manual review.
_EXIT_CODES = {"exclusive": 0, "inconclusive": 1, "overlapping": 3}


def _labels_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options --labels-a, --labels-b and so on."""
    for letter in reversed(_DATASET_LETTERS):
        help_ = "CSV or Parquet table of files and patients of the first folder." if letter == "a" else None
        option = click.option(
            f"--labels-{letter}", type=FILE, metavar="TABLE", help=help_, hidden=letter > "c"
        )
        function = option(function)
    return function


@command("overlap", "medsanitize overlap release-2023 release-2024 --output internal")
@click.argument("datasets", type=FILE, nargs=-1)
@_labels_options
@click.option(
    "--labels", type=FILE, metavar="TABLE", help="Compare the splits of this table instead of datasets."
)
@click.option("--images", type=FILE, metavar="ROOT", help="Folder of the files of --labels.")
@COLUMN
@KIND
@click.option("--model", type=FILE, multiple=True, help="Folder of a retrieval model; one per modality.")
@click.option(
    "--verifier", type=FILE, multiple=True, help="Folder of a verification model; one per modality."
)
@click.option("--calibration", type=FILE, help="Calibration file of the deciding score (from evaluate).")
@click.option(
    "--false-match-rate",
    "target",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=1e-3,
    show_default=True,
    help="Target false match rate over pairs of patients.",
)
@click.option(
    "--output", type=FILE, metavar="FOLDER", help="Folder for pairs.parquet, pairs.html and overlap.json."
)
@click.option(
    "--with",
    "partners",
    multiple=True,
    metavar="PARTNER",
    help="Compare one release with that of a partner, privately: its name or address in --policy. Several"
    " give a table; --policy alone compares with all of its partners.",
)
@click.option("--policy", type=FILE, help="The policy with the agreements with partners.")
@click.option("--offline", type=FILE, metavar="FOLDER", help="Exchange the messages as files here.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use; by default one per core.")
def overlap(
    datasets: tuple[Path, ...], workers: int | None, *, as_json: bool, log_json: bool, **options: Any
) -> int:
    """Report whether datasets share patients: releases, folders of images, or indexes of them.

    Finds byte-identical, pixel-identical and near-duplicate images, then compares patients with a
    re-identification model. The verdict is exclusive (exit code 0), overlapping (3) or inconclusive (1), and
    states its error bound. The output folder contains PHI.

    With --with, one release is compared with the releases of other hospitals, and none shows another its
    images, digests or identifiers (see medsanitize party).
    """
    if options["partners"] or options["policy"] is not None:
        return _private_overlap(datasets, options, as_json=as_json, log_json=log_json)
    from medsanitize.pipeline.jobs.compare_datasets import run_overlap
    from medsanitize.pipeline.runtime.machine import usable_cores
    from medsanitize.verifiers.reid.overlap.result_files import result_json

    request = _overlap_request(datasets, options)
    with long_running(log_json) as (progress, cancellation):
        found = run_overlap(request, progress, cancellation, workers=workers or usable_cores())
    code = _EXIT_CODES[found.result]
    print_result(as_json, {**result_json(found), "exit_code": code}, "\n".join(_lines(found, request)))
    return code


@command("index", "medsanitize index release-2023 --output internal/release-2023")
@click.argument("dataset", type=FILE)
@click.option(
    "--labels", type=FILE, metavar="TABLE", help="CSV or Parquet table of files and patients of the folder."
)
@COLUMN
@KIND
@click.option("--model", type=FILE, multiple=True, help="Folder of a retrieval model; one per modality.")
@click.option(
    "--verifier", type=FILE, multiple=True, help="Folder of a verification model; one per modality."
)
@click.option("--output", type=FILE, metavar="INDEX", required=True, help="Folder for the index.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use; by default one per core.")
def index(dataset: Path, workers: int | None, *, as_json: bool, log_json: bool, **options: Any) -> int:
    """Create the fingerprint index of a dataset, for repeated comparisons with overlap.

    The index replaces the dataset in the command overlap, with the same models. An existing folder is never
    overwritten. The index contains PHI: it is not encrypted, and embeddings can be inverted to images.
    """
    from medsanitize.pipeline.jobs.compare_datasets import IndexRequest, run_index
    from medsanitize.pipeline.runtime.machine import usable_cores
    from medsanitize.verifiers.reid.overlap.models import ModelPaths

    models = ModelPaths(options["model"], options["verifier"])
    request = IndexRequest(
        dataset, options["labels"], columns_of(options["renamed"]), models, options["output"], options["kind"]
    )
    with long_running(log_json) as (progress, cancellation):
        fingerprint = run_index(request, progress, cancellation, workers=workers or usable_cores())
    facts = {
        "images": len(fingerprint.images) - fingerprint.non_images,
        "patients": len(fingerprint.names),
        "embeddings": {modality.value: len(one.images) for modality, one in fingerprint.vectors.items()},
        "unread": dict(fingerprint.unread),
        "exit_code": 0,
    }
    told = [f"{facts['images']:,} images of {facts['patients']:,} patients are in the index."]
    told += [f"Not compared in full: {reason}: {count:,}" for reason, count in fingerprint.unread.items()]
    print_result(as_json, facts, "\n".join(told))
    return 0


def _private_overlap(
    datasets: tuple[Path, ...], options: dict[str, Any], *, as_json: bool, log_json: bool
) -> int:
    """Compare one release with those of partners."""
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.jobs.private_overlap import PartnerRow, ask_partner, ask_partners
    from medsanitize.policies.load import load

    if len(datasets) != 1 or options["policy"] is None:
        raise UsageError(
            "A comparison with partners needs one release and --policy",
            "Write: medsanitize overlap RELEASE --with PARTNER --policy policy.yaml",
        )
    policy, where = load(options["policy"]), {"offline": options["offline"], "output": options["output"]}
    with long_running(log_json) as (progress, cancellation):
        if len(options["partners"]) == 1:
            name = options["partners"][0]
            row = PartnerRow(name, ask_partner(policy, datasets[0], name, **where, progress=progress))
            facts = partner_facts(row)
            print_result(as_json, facts, "\n".join(partner_lines(row)))
            return int(facts["exit_code"])
        rows = ask_partners(
            policy, datasets[0], options["partners"], **where, progress=progress, cancellation=cancellation
        )
    told = [partner_facts(one) for one in rows]
    result, code = overall_result(told)
    lines = [*partner_table(told), *(line for one in rows for line in partner_lines(one, one.partner))]
    print_result(as_json, {"result": result, "partners": told, "exit_code": code}, "\n".join(lines))
    return code


def partner_facts(row: PartnerRow) -> dict[str, Any]:
    """Return one comparison with a partner as JSON."""
    from medsanitize.pipeline.runtime.result import describe_error, exit_code

    found = row.found
    if found is None:
        facts = {"result": "not_compared", "message": row.failure, "exit_code": row.exit_code}
        return {"partner": row.partner, **facts}
    if found.verdict is None:
        waiting = {"result": "waiting", "session": found.session, "exit_code": 1}
        return {"partner": row.partner, **waiting}
    verdict, near = found.verdict, found.near
    result: str = verdict.result
    bound = verdict.bound
    code: int | None = None
    if found.near_error is not None and result != "overlapping":
        result, code = "not_compared", int(exit_code(found.near_error))
    if near is not None:
        bound = near.verdict.miss
        # An item in common stays one, whatever other images show.
        result = near.verdict.result if result != "overlapping" else result
    return {
        "partner": row.partner,
        "result": result,
        "sentence": verdict.sentence,
        "statement": verdict.statement,
        "counts": dict(found.counts),
        "items": dict(found.sizes),
        "partner_items": dict(found.answering_sizes),
        "bound": bound,
        "near": near.to_json() if near is not None else None,
        "near_message": None if found.near_error is None else describe_error(found.near_error),
        "written": found.written,
        "session": found.session,
        "exit_code": _EXIT_CODES[result] if code is None else code,
    }


def partner_lines(row: PartnerRow, folder: str = "") -> list[str]:
    """Return what is said of a comparison with a partner."""
    from medsanitize.pipeline.runtime.result import describe_error

    if row.found is None:
        return [f"{row.partner}: {row.failure}"]
    if row.found.verdict is None:
        return [f"Waiting for the next message of {row.partner} in the folder."]
    lines = [row.found.verdict.sentence, row.found.verdict.statement]
    if row.found.near is not None:
        lines += [row.found.near.verdict.sentence, row.found.near.verdict.statement]
    if row.found.near_error is not None:
        lines.append(f"Other images were not compared. {describe_error(row.found.near_error)}")
    name = f"{folder}/common.csv" if folder else "common.csv"
    return lines if row.found.written is None else [*lines, f"Written: {name}. It contains PHI."]


def overall_result(told: list[dict[str, Any]]) -> tuple[str, int]:
    """Return the worst result of several partners, and its exit code."""
    for result in ("overlapping", "not_compared", "waiting", "inconclusive"):
        codes = [int(one["exit_code"]) for one in told if one["result"] == result]
        if codes:
            return result, codes[0]
    return "exclusive", 0


def partner_table(told: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table with a row for each partner."""
    rows = [("partner", "result", "in common", "items here", "items there", "bound")]
    for one in told:
        numbers = (
            ", ".join(f"{count:,} {what}" for what, count in one.get(name, {}).items()) or "-"
            for name in ("counts", "items", "partner_items")
        )
        # Equal items are found without error; a near comparison bounds who was overlooked in other images.
        bound = f"{one['bound']:.2g}" if one.get("bound") is not None else "none"
        rows.append((one["partner"], one["result"].replace("_", " "), *numbers, bound))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows]  # fmt: skip


def _overlap_request(datasets: tuple[Path, ...], options: dict[str, Any]) -> OverlapRequest:
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.jobs.compare_datasets import OverlapRequest
    from medsanitize.verifiers.reid.overlap.models import ModelPaths

    table, images = options["labels"], options["images"]
    if (table is None) != (images is None) or bool(datasets) == (table is not None):
        raise UsageError(
            "Name either datasets, or --labels and --images", "For the splits of a table give the last two"
        )
    if len(datasets) > len(_DATASET_LETTERS) or (datasets and len(datasets) < 2):
        raise UsageError(
            f"Between two and {len(_DATASET_LETTERS)} datasets can be compared", "Compare them in turn"
        )
    labels = tuple(options[f"labels_{letter}"] for letter in _DATASET_LETTERS)
    if any(one is not None for one in labels[len(datasets) :]):
        raise UsageError("There is a table for a dataset that is not named", "Leave it out")
    return OverlapRequest(
        paths=datasets,
        labels=labels[: len(datasets)],
        table=table,
        images=images,
        columns=columns_of(options["renamed"]),
        models=ModelPaths(options["model"], options["verifier"]),
        calibration=options["calibration"],
        target=options["target"],
        output=options["output"],
        kind=options["kind"],
    )


def _format_threshold(point: OperatingPoint, within: float = inf) -> str:
    """Format a threshold with its rates and their bounds."""
    match, miss = point.false_match, point.false_non_match
    near = f" at a distance of {within:.4f} at most" if isfinite(within) else ""
    return (
        f"from {point.threshold:.4f}{near}: false match rate {match.share:.2g} (bound {match.upper:.2g}),"
        f" false non-match rate {miss.share:.2g} (bound {miss.upper:.2g})"
    )


def _threshold_lines(one: Comparison, *, several: bool) -> list[str]:
    """Describe the thresholds of a comparison and where their rates come from."""
    lines = []
    for modality, limit in sorted(one.evidence.thresholds.items()):
        between = f" between {one.titles[0]} and {one.titles[1]}" if several else ""
        lines.append(
            f"Thresholds for {modality.plural}{between}: false match rates of {limit.pairs:,} pairs of"
            " strangers within these datasets; false non-match rates of"
            f" {limit.permissive.false_non_match.of:,} patients with two images (calibrated on:"
            f" {limit.source})"
        )
        if limit.strict != limit.permissive:
            lines.append(f"  possibly same patient {_format_threshold(limit.permissive)}")
        lines.append(f"  same patient {_format_threshold(limit.strict, limit.strict_max_distance)}")
        lines += [f"The false match rate is {limit.insufficient_data}."] if limit.insufficient_data else []
        lines += [f"A stored calibration is not quoted: {limit.unquoted}."] if limit.unquoted else []
    return lines


def _calibration_lines(found: Overlap, request: OverlapRequest) -> list[str]:
    """Whose patients a federated calibration counted, where its rates are quoted."""
    from medsanitize.pipeline.runtime.calibrations import read_given_calibration

    sources = {limit.source for one in found.comparisons for limit in one.evidence.thresholds.values()}
    if request.calibration is None or "given" not in sources:
        return []
    said = read_given_calibration(request.calibration).statement
    return [said] if said else []


def _lines(found: Overlap, request: OverlapRequest) -> list[str]:
    from medsanitize.verifiers.reid.images.kinds import STATE_IT, UNKNOWN_KIND

    lines = [
        f"{side.title}: {len(side.images) - side.non_images:,} images of {len(side.names):,} patients."
        for side in found.datasets
    ]
    for one in found.comparisons:
        lines += _threshold_lines(one, several=len(found.comparisons) > 1)
    lines += [one.verdict.sentence for one in found.comparisons]
    lines += _calibration_lines(found, request)
    if unknown := sum(side.unread.get(UNKNOWN_KIND, 0) for side in found.datasets):
        lines.append(f"Not compared, of unknown kind: {unknown:,} images. {STATE_IT}.")
    if request.output is not None:
        lines.append("Written: pairs.parquet, pairs.html and overlap.json. They contain PHI.")
    return lines
