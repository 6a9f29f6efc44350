"""Commands on a policy: run, plan, review, ledger; and demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE, command, login_name, long_running, print_result

if TYPE_CHECKING:
    from medsanitize.pipeline.reporting.exit_report import ExitReport
    from medsanitize.pipeline.run import Options
    from medsanitize.pipeline.runtime.result import RunResult
    from medsanitize.policies.model import Policy

POLICY = click.argument("policy", type=FILE)
WORKERS = click.option(
    "--workers", type=click.IntRange(1, 1024), help="Processes to use; by default one per core."
)
REGISTRY = click.option("--registry", type=FILE, help="Folder of the registry; overrides the policy.")


def _load(policy: Path, registry: Path | None, engine: str | None = None) -> Policy:
    """Load a policy, and apply the overrides of the command line."""
    from medsanitize.policies.load import load

    loaded = load(policy)
    if registry is not None:
        section = loaded.registry.model_copy(update={"path": registry.absolute()})
        loaded = loaded.model_copy(update={"registry": section})
    if engine is not None:
        kind = loaded.engine.model_copy(update={"kind": engine})
        loaded = loaded.model_copy(update={"engine": kind})
    return loaded


def _run_or_plan(
    policy: Policy, options: Options, *, planned: bool, log_json: bool, account: ExitReport | None = None
) -> RunResult:
    with long_running(log_json) as (progress, stop):
        if planned:
            from medsanitize.pipeline.plan import plan

            result = plan(policy, options, progress=progress, cancellation=stop)
        else:
            from medsanitize.pipeline.run import run

            result = run(policy, options, progress=progress, cancellation=stop, exit_report=account)
    if log_json:
        from medsanitize.pipeline.reporting.json_log import log_result

        log_result(result)
    return result


def _print_run(result: RunResult, as_json: bool, more: dict[str, Any] | None = None, title: str = "") -> int:
    from medsanitize.pipeline.reporting.console import show_result

    if as_json:
        click.echo(json.dumps({**result.as_json(), **(more or {})}))
    else:
        show_result(result, title=title)
    return result.exit_code


@command("run", "medsanitize run policy.yaml --workers 4")
@POLICY
@WORKERS
@click.option("--engine", type=click.Choice(["local", "ray"]), help="Engine; overrides the policy.")
@REGISTRY
@click.option("--approve", metavar="DIGEST", help="Publish the staged release if it has this digest.")
@click.option("--inventory-only", is_flag=True, help="Build the inventory for a sharded run and exit.")
@click.option(
    "--shard", metavar="I/N", help="Sanitize only part I of N; a run without it merges and publishes."
)
@click.option("--return-file", type=FILE, help="Also write the result to this file, as JSON, whatever it is.")
def run(
    policy: Path,
    workers: int | None,
    engine: str | None,
    registry: Path | None,
    approve: str | None,
    inventory_only: bool,
    shard: str | None,
    return_file: Path | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """De-identify the inputs of a policy and publish them as a release, or report why not.

    After an interruption, the same command resumes. The result is also written to return.json and
    metrics.prom in the state folder.
    """
    from medsanitize.pipeline.engines.forkserver import start_forkserver

    start_forkserver()
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.reporting.exit_report import check_return_file, exit_report_to
    from medsanitize.pipeline.run import Options
    from medsanitize.pipeline.state.shards import Shard

    with exit_report_to(return_file) as account:
        if inventory_only and shard:
            raise UsageError(
                "--inventory-only and --shard exclude each other", "Take the inventory first, then run shards"
            )
        options = Options(workers, approve, inventory_only, Shard.parse(shard) if shard else None)
        loaded = _load(policy, registry, engine)
        check_return_file(account, (*loaded.inputs, loaded.output))
        result = _run_or_plan(loaded, options, planned=False, log_json=log_json, account=account)
    return _print_run(result, as_json)


@command("plan", "medsanitize plan policy.yaml")
@POLICY
@WORKERS
@REGISTRY
def plan(policy: Path, workers: int | None, registry: Path | None, *, as_json: bool, log_json: bool) -> int:
    """Show what a run would do, and the complete policy with its preset; nothing is written."""
    from medsanitize.pipeline.engines.forkserver import start_forkserver

    start_forkserver()
    from medsanitize.pipeline.run import Options
    from medsanitize.policies.dump import dumps
    from medsanitize.policies.site_lists import without_entries

    loaded = _load(policy, registry)
    result = _run_or_plan(loaded, Options(workers), planned=True, log_json=log_json)
    shown = without_entries(loaded)
    settings = shown.model_dump(mode="json", exclude_none=True)
    code = _print_run(result, as_json, {"settings": settings})
    if not as_json:
        click.echo("\nThe policy with everything the preset decides:\n")
        click.echo(dumps(shown))
    return code


@command("preview", "medsanitize preview policy.yaml export/IM0001")
@POLICY
@click.argument("file", type=FILE)
def preview(policy: Path, file: Path, *, as_json: bool, **_: Any) -> int:
    """Show one object of an export before and after, as a run would change it; nothing is written.

    The output contains PHI.
    """
    from medsanitize.api.preview import Previewer

    shown = Previewer(policy)(file)
    findings = [{"location": one.location, "rule": one.rule} for one in shown.findings]
    rows = [
        {"tag": one.tag, "name": one.name, "state": one.state, "before": one.before, "after": one.after}
        for one in shown.header
    ]
    facts = {"outcome": shown.outcome, "kind": shown.kind, "findings": findings, "header": rows}
    lines = [f"{shown.kind}: {shown.outcome}", *(f"{one.location}: {one.rule}" for one in shown.findings)]
    marks = {"same": " ", "changed": "~", "removed": "-", "added": "+"}
    for one in shown.header:
        values = f"{one.before} -> {one.after}" if one.state == "changed" else one.before or one.after
        lines.append(f"{marks[one.state]} {'  ' * one.depth}{one.tag} {one.name}: {values}")
    print_result(as_json, {**facts, "notes": list(shown.notes), "exit_code": 0}, "\n".join(lines))
    return 0


@command("review", "medsanitize review policy.yaml --decisions decisions.json")
@POLICY
@click.option("--decisions", type=FILE, metavar="FILE", help="Apply the decisions exported from the page.")
@click.option("--reviewer", metavar="NAME", help="Who decides; by default the name of the login.")
@click.option(
    "--scope",
    type=click.Choice(["alike", "series", "device"]),
    help="Let each decision of the file hold for all items with the same text at the same place, or for that"
    " place in the whole series or in all images of the type of device; quarantine then holds for all their"
    " objects.",
)
@click.option("--log", type=FILE, metavar="FILE", help="Write a new CSV file of who decided what.")
def review(
    policy: Path,
    decisions: Path | None,
    reviewer: str | None,
    scope: str | None,
    log: Path | None,
    *,
    as_json: bool,
    **_: Any,
) -> int:
    """Create an HTML page to review uncertain detections, quarantined objects and a sample.

    The page contains PHI; do not copy it out of the state folder. With --decisions, the decisions and the
    approval made on the page are stored, and the next run applies them. Several persons can decide at the
    same time, each on a page of his own; of two decisions, the more severe one holds.
    """
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.review.pages import apply_decisions, make_review
    from medsanitize.pipeline.runtime.signals import cancel_on_signals
    from medsanitize.policies.load import load

    loaded = load(policy)
    if log is not None:
        return _write_log(loaded, log, as_json)
    if scope is not None and decisions is None:
        raise UsageError("--scope needs --decisions", "Name the file of decisions")
    reviewer = login_name() if reviewer is None else reviewer
    if decisions is not None:
        applied = apply_decisions(loaded, decisions, reviewer, scope)
        facts: dict[str, Any] = {"decisions": applied.decisions, "objects": applied.objects}
        text = f"{applied.decisions:,} decisions stored; {applied.objects:,} objects will be sanitized again."
        text += " The release is approved." if applied.approved and not applied.objects else ""
        text += f"\nNow run again: medsanitize run {policy}"
        print_result(as_json, {**facts, "approved": applied.approved, "exit_code": 0}, text)
        return 0

    with cancel_on_signals() as stop:
        made = make_review(loaded, stop, f"medsanitize review {policy} --decisions decisions.json", reviewer)
    facts = {
        "ending": made.ending,
        "digest": made.digest,
        "review_items": made.review_items,
        "sampled": made.sampled,
    }
    facts |= {"quarantined": made.quarantined, "left_out": made.left_out}
    text = (
        f"{made.review_items:,} review items, {made.quarantined:,} quarantined,"
        f" {made.sampled:,} in the sample."
        f"\nOpen in a browser: {made.pages[0]}"
        "\nIt contains PHI; do not copy it out of the state folder."
    )
    pages = [str(page) for page in made.pages]
    print_result(as_json, {"pages": pages, **facts, "exit_code": 0}, text)
    return 0


def _write_log(policy: Policy, target: Path, as_json: bool) -> int:
    from dataclasses import astuple, fields

    from medsanitize.pipeline.jobs.private_csv import write_private_csv
    from medsanitize.pipeline.review.decision_log import decision_log
    from medsanitize.pipeline.state.judgments import LoggedDecision

    head = [one.name for one in fields(LoggedDecision)]
    count = write_private_csv(
        target, head, ([str(fact) for fact in astuple(one)] for one in decision_log(policy))
    )
    print_result(as_json, {"decisions": count, "exit_code": 0}, f"Wrote {count:,} decisions to {target}.")
    return 0


@command("demo", "medsanitize demo /tmp/demo")
@click.argument("folder", type=FILE)
@click.option(
    "--synthetic",
    is_flag=True,
    help="Instead, train a generator on radiographs of phantoms, and release its images in their place if the"
    " privacy gate passes.",
)
@click.option(
    "--two-hospitals",
    is_flag=True,
    help="Instead, release the exports of two hospitals with common patients, and let one ask the other, over"
    " TLS on this machine, which of its images are common. Installs the library of party install.",
)
@click.option(
    "--wheels", type=FILE, help="Folder of wheels for --two-hospitals, for a machine without a connection."
)
@click.option(
    "--federation",
    is_flag=True,
    help="Instead, train a retrieval model on phantoms of three hospitals under secure aggregation, each a"
    " process of this machine, and compare it with the trainings of each alone and of all images together.",
)
@WORKERS
def demo(
    folder: Path,
    workers: int | None,
    *,
    synthetic: bool,
    two_hospitals: bool,
    federation: bool,
    wheels: Path | None,
    as_json: bool,
    log_json: bool,
) -> int:
    """Create a small synthetic hospital export with planted identifiers in FOLDER, and release it."""
    if synthetic + two_hospitals + federation > 1:
        from medsanitize.errors import UsageError

        raise UsageError(
            "There are several demos to run", "Name one of --synthetic, --two-hospitals and --federation"
        )
    if federation:
        return _federation_demo(folder, as_json, log_json)
    if two_hospitals:
        return _two_hospitals_demo(folder, workers, wheels, as_json, log_json)
    if synthetic:
        return _synthetic_demo(folder, workers, as_json, log_json)
    from medsanitize.pipeline.engines.forkserver import start_forkserver

    start_forkserver()
    from medsanitize.pipeline.demo.prepare import count_surviving_identifiers, prepare_demo, show_demo
    from medsanitize.pipeline.run import Options
    from medsanitize.policies.load import load

    prepared = prepare_demo(folder)
    result = _run_or_plan(load(prepared.policy), Options(workers), planned=False, log_json=log_json)
    survivors = count_surviving_identifiers(prepared, result)
    if as_json:
        facts = {"planted": len(prepared.planted), "surviving": survivors}
        click.echo(json.dumps({**result.as_json(), **facts}))
    else:
        show_demo(prepared, result, survivors)
    return 0 if result.release and not survivors else result.exit_code or 3


def _synthetic_demo(folder: Path, workers: int | None, as_json: bool, log_json: bool) -> int:
    from medsanitize.pipeline.engines.forkserver import start_forkserver

    start_forkserver()
    from dataclasses import asdict

    from medsanitize.pipeline.demo import synthetic
    from medsanitize.pipeline.demo.prepare import count_surviving_identifiers, show_demo
    from medsanitize.pipeline.run import Options
    from medsanitize.policies.load import load

    sizes = synthetic.SyntheticSizes()
    prepared = synthetic.prepare_synthetic_demo(folder, sizes)
    with long_running(log_json) as (progress, cancellation):
        synthetic.train_models(folder, sizes, progress, cancellation)
    policy = load(prepared.policy)
    result = _run_or_plan(policy, Options(workers), planned=False, log_json=log_json)
    verdict = synthetic.verdict_of(policy)
    with long_running(log_json) as (progress, cancellation):
        explanation = synthetic.explain_first(folder, result, progress, cancellation)
    survivors = count_surviving_identifiers(prepared, result)
    if as_json:
        facts = {
            "planted": len(prepared.planted),
            "surviving": survivors,
            "verdict": None if verdict is None else {**asdict(verdict), "grid": ""},
            "explanation": None if explanation is None else explanation.to_json(),
        }
        click.echo(json.dumps({**result.as_json(), **facts}))
    else:
        show_demo(prepared, result, survivors)
        synthetic.show_synthetic_demo(prepared, verdict, explanation, result.release)
    return 0 if result.release and not survivors else result.exit_code or 3


def _two_hospitals_demo(
    folder: Path, workers: int | None, wheels: Path | None, as_json: bool, log_json: bool
) -> int:
    from medsanitize.pipeline.engines.forkserver import start_forkserver

    start_forkserver()
    from medsanitize.pipeline.demo import two_hospitals
    from medsanitize.pipeline.run import Options
    from medsanitize.policies.load import load

    prepared = two_hospitals.prepare_two_hospitals(folder)
    with long_running(log_json) as (progress, cancellation):
        progress.stage("install the library of both parties", None)
        two_hospitals.install_for_both(prepared, wheels)
        cancellation.check()
    for one in (prepared.asking, prepared.answering):
        result = _run_or_plan(load(one.policy), Options(workers), planned=False, log_json=log_json)
        if result.release is None:
            return _print_run(result, as_json)
    with long_running(log_json) as (progress, _):
        progress.stage("compare the releases", None)
        learned = two_hospitals.compare_hospitals(prepared)
    shared = len(prepared.shared)
    facts = {
        "shared": shared,
        "found": learned.right,
        "others": learned.patients - learned.right,
        "images": learned.images,
        "result": learned.result,
        "learned_sizes": dict(zip(two_hospitals.NAMES, learned.sizes, strict=True)),
        "transcript": str(learned.transcript),
    }
    code = 0 if (learned.right, learned.patients, learned.images) == (shared, shared, shared) else 3
    text = "\n".join(two_hospitals.result_lines(prepared, learned))
    print_result(as_json, {**facts, "exit_code": code}, text)
    return code


def _federation_demo(folder: Path, as_json: bool, log_json: bool) -> int:
    from medsanitize.pipeline.demo import federation

    prepared = federation.prepare_federation(folder)
    with long_running(log_json) as (progress, cancellation):
        compared = federation.compare_trainings(prepared, progress, cancellation)
    text = "\n".join(federation.compared_lines(compared))
    print_result(as_json, federation.facts_of(compared), text)
    return int(compared.told["exit_code"])


@command("ledger", "medsanitize ledger policy.yaml --uids uids.csv --patients patients.csv")
@POLICY
@click.option("--uids", type=FILE, help="New CSV file for all replaced UIDs (id_old,id_new).")
@click.option("--patients", type=FILE, help="New CSV file for all replaced patient IDs (id_old,id_new).")
@click.option("--files", type=FILE, help="New CSV file with the outcome of each file of the inputs.")
def ledger(
    policy: Path, uids: Path | None, patients: Path | None, files: Path | None, *, as_json: bool, **_: Any
) -> int:
    """Export the link between identifiers and pseudonyms, or the account of all files, as CSV.

    Every file that it writes contains PHI.
    """
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.jobs.export_ledger import export_ledger
    from medsanitize.policies.load import load

    if uids is None and patients is None and files is None:
        raise UsageError("Nothing to export", "Give --uids FILE, --patients FILE or --files FILE")
    counts = export_ledger(load(policy), uids=uids, patients=patients, files=files)
    print_result(as_json, counts, ", ".join(f"{count:,} rows of {name}" for name, count in counts.items()))
    return 0
