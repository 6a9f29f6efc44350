"""The commands: parse, call, print, exit code. The work is done in the rooms."""

from __future__ import annotations

import functools
import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize import __version__

if TYPE_CHECKING:
    from medsanitize.pipeline.outcome import RunResult
    from medsanitize.pipeline.run import Options
    from medsanitize.policies.model import Policy

PRESETS = ("ps3.15-basic", "research", "hipaa-safe-harbor")
_FILE = click.Path(path_type=Path)
_COMMON = (
    click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object on stdout."),
    click.option("--log-json", is_flag=True, help="Write messages and progress as JSON lines on stderr."),
)


def _command(group: click.Group, name: str, example: str) -> Callable[[Callable[..., int]], click.Command]:
    """Register a command that returns its exit code, with --json, --log-json and an example."""

    def register(function: Callable[..., int]) -> click.Command:
        @functools.wraps(function)
        def guarded(*, log_json: bool, **arguments: Any) -> None:
            _exit(lambda: function(log_json=log_json, **arguments), arguments["as_json"], log_json)

        wrapped: Callable[..., Any] = guarded
        for option in reversed(_COMMON):
            wrapped = option(wrapped)
        return group.command(name, epilog=f"\b\nExample:\n  {example}")(wrapped)

    return register


def _exit(work: Callable[[], int], as_json: bool, log_json: bool) -> None:
    """Run a command's work; whatever happens becomes a sentence and an exit code, never a traceback."""
    from medsanitize.errors import MedsanitizeError
    from medsanitize.pipeline.outcome import exit_code
    from medsanitize.pipeline.stop import Stopped

    try:
        code = work()
    except (MedsanitizeError, Stopped) as error:
        code = exit_code(error)
        _tell_error(str(error), code, as_json, log_json)
    except KeyboardInterrupt as error:
        code = exit_code(error)
        _tell_error("Stopped on request", code, as_json, log_json)
    except MemoryError:
        code = 5
        _tell_error(
            "Memory is used up. Use fewer workers, then run the same command again", code, as_json, log_json
        )
    except click.ClickException:
        raise
    except Exception as error:  # noqa: BLE001  a traceback could show the value of an element
        code = exit_code(error)
        _tell_error(
            f"A defect of the program: {type(error).__name__} {_where(error)}", code, as_json, log_json
        )
    sys.exit(code)


def _where(error: BaseException) -> str:
    """Module and line where an exception arose; never its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f"in {trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"


def _tell_error(text: str, code: int, as_json: bool, log_json: bool) -> None:
    facts = {"type": "error", "message": text, "exit_code": int(code)}
    if as_json:
        print(json.dumps(facts))
    print(json.dumps(facts) if log_json else f"medsanitize: {text}", file=sys.stderr)


def _print(as_json: bool, facts: dict[str, Any], text: str) -> None:
    click.echo(json.dumps({"type": "result", **facts}) if as_json else text)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="medsanitize")
def cli() -> None:
    """Turn an export of medical images into a dataset that may be published, with the evidence."""


# -- policies and keys --------------------------------------------------------------------


@_command(cli, "init", "medsanitize init policy.yaml --preset research --name chest-ct")
@click.argument("policy", type=_FILE, default=Path("policy.yaml"))
@click.option("--preset", type=click.Choice(PRESETS), default="research", show_default=True)
@click.option("--name", default="my-release", show_default=True, help="Name of the release.")
def init(policy: Path, preset: Any, name: str, *, as_json: bool, **_: Any) -> int:
    """Write a commented policy to begin with; an existing file is never overwritten."""
    from medsanitize.errors import UsageError
    from medsanitize.policies.template import template

    text = template(preset, name)
    try:
        with policy.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError("A file of this name exists", "Name another file") from None
    except OSError:
        raise UsageError(
            "The policy cannot be written", "Name a file in a folder that may be written"
        ) from None
    _print(as_json, {"policy": str(policy)}, f"Wrote {policy}. Edit it, then: medsanitize validate {policy}")
    return 0


@_command(cli, "validate", "medsanitize validate policy.yaml")
@click.argument("policy", type=_FILE)
def validate(policy: Path, *, as_json: bool, **_: Any) -> int:
    """Check a policy; all problems at once, each with line, column and remedy."""
    from medsanitize.errors import PolicyError
    from medsanitize.policies.digest import policy_digest
    from medsanitize.policies.load import load

    try:
        loaded = load(policy)
    except PolicyError as error:
        if not as_json:
            raise
        problems = [
            {"line": one.line, "column": one.column, "message": one.message, "remedy": one.remedy}
            for one in error.problems
        ]
        click.echo(json.dumps({"type": "result", "valid": False, "problems": problems, "exit_code": 2}))
        return 2
    digest = policy_digest(loaded)
    _print(
        as_json,
        {"valid": True, "policy_digest": digest, "exit_code": 0},
        f"The policy is valid. Digest {digest}",
    )
    return 0


@_command(cli, "schema", "medsanitize schema > medsanitize.schema.json")
def schema(*, as_json: bool, **_: Any) -> int:
    """Print the JSON Schema of policies, for editors."""
    from medsanitize.policies.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=None if as_json else 2, sort_keys=True))
    return 0


@_command(cli, "keygen", "medsanitize keygen release.key")
@click.argument("file", type=_FILE)
@click.option(
    "--signing", is_flag=True, help="Make an Ed25519 signing key; its public part lands in FILE.pub."
)
def keygen(file: Path, signing: bool, *, as_json: bool, **_: Any) -> int:
    """Make a release key (or, with --signing, a signing key) of mode 0600; nothing is overwritten."""
    if signing:
        from medsanitize.release.attestation import generate_signing_key

        generate_signing_key(file)
    else:
        from medsanitize.policies.secrets import generate_release_key

        generate_release_key(file)
    _print(as_json, {"file": str(file)}, f"Wrote {file}. Keep it safe: who holds it can link the release.")
    return 0


# -- the run ------------------------------------------------------------------------------

_POLICY = click.argument("policy", type=_FILE)
_WORKERS = click.option(
    "--workers", type=click.IntRange(1, 1024), help="Processes to use; by default one a core."
)
_REGISTRY = click.option("--registry", type=_FILE, help="Folder of the registry, in place of the policy's.")


def _load(policy: Path, registry: Path | None) -> Policy:
    from medsanitize.policies.load import load

    loaded = load(policy)
    if registry is None:
        return loaded
    section = loaded.registry.model_copy(update={"path": registry.absolute()})
    return loaded.model_copy(update={"registry": section})


def _go(policy: Policy, options: Options, *, planned: bool, log_json: bool) -> RunResult:
    from medsanitize.pipeline.console import close, progress_for
    from medsanitize.pipeline.stop import on_signals

    progress = progress_for(log_json)
    try:
        with on_signals() as stop:
            if planned:
                from medsanitize.pipeline.plan import plan

                return plan(policy, options, progress=progress, stop=stop)
            from medsanitize.pipeline.run import run

            return run(policy, options, progress=progress, stop=stop)
    finally:
        close(progress)


def _show(result: RunResult, as_json: bool, more: dict[str, Any] | None = None, title: str = "") -> int:
    from medsanitize.pipeline.console import show_result

    if as_json:
        click.echo(json.dumps({**result.as_json(), **(more or {})}))
    else:
        show_result(result, title=title)
    return result.exit_code


@_command(cli, "run", "medsanitize run policy.yaml --workers 4")
@_POLICY
@_WORKERS
@_REGISTRY
@click.option("--approve", metavar="DIGEST", help="Publish the staged release of this digest.")
@click.option("--inventory-only", is_flag=True, help="Take the inventory that shards share, then stop.")
@click.option(
    "--shard", metavar="I/N", help="Sanitise part I of N only; run without it to merge and publish."
)
def run(
    policy: Path,
    workers: int | None,
    registry: Path | None,
    approve: str | None,
    inventory_only: bool,
    shard: str | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Turn the inputs of a policy into a release, or say why there is none.

    Stopped or killed, the same command resumes.
    """
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.run import Options
    from medsanitize.pipeline.shards import Shard

    if inventory_only and shard:
        raise UsageError(
            "--inventory-only and --shard exclude each other", "Take the inventory first, then run shards"
        )
    options = Options(workers, approve, inventory_only, Shard.parse(shard) if shard else None)
    return _show(_go(_load(policy, registry), options, planned=False, log_json=log_json), as_json)


@_command(cli, "plan", "medsanitize plan policy.yaml")
@_POLICY
@_WORKERS
@_REGISTRY
def plan(policy: Path, workers: int | None, registry: Path | None, *, as_json: bool, log_json: bool) -> int:
    """Show what a run would do, and everything the preset decides; nothing is written."""
    from medsanitize.pipeline.run import Options
    from medsanitize.policies.write import dumps

    loaded = _load(policy, registry)
    result = _go(loaded, Options(workers), planned=True, log_json=log_json)
    settings = loaded.model_dump(mode="json", exclude_none=True)
    code = _show(result, as_json, {"settings": settings})
    if not as_json:
        click.echo("\nThe policy with everything the preset decides:\n")
        click.echo(dumps(loaded))
    return code


@_command(cli, "review", "medsanitize review policy.yaml --decisions decisions.json")
@_POLICY
@click.option("--decisions", type=_FILE, metavar="FILE", help="Take back what was decided on the page.")
def review(policy: Path, decisions: Path | None, *, as_json: bool, **_: Any) -> int:
    """Make a page of what is in doubt, in quarantine and about to be released, for a person to decide.

    The page lies in the state folder and shows values of patients: it is for the holder alone. With
    --decisions, what was decided and approved there is read back, and the next run follows it.
    """
    from medsanitize.pipeline.review import make_review, take_decisions
    from medsanitize.policies.load import load

    loaded = load(policy)
    if decisions is not None:
        taken = take_decisions(loaded, decisions)
        facts: dict[str, Any] = {"decisions": taken.decisions, "objects": taken.objects}
        told = f"{taken.decisions:,} decisions taken; {taken.objects:,} objects will be sanitised again."
        told += " The release is approved." if taken.approved and not taken.objects else ""
        told += f"\nNow run again: medsanitize run {policy}"
        _print(as_json, {**facts, "approved": taken.approved, "exit_code": 0}, told)
        return 0
    from medsanitize.pipeline.stop import on_signals

    with on_signals() as stop:
        made = make_review(loaded, stop, f"medsanitize review {policy} --decisions decisions.json")
    facts = {"ending": made.ending, "digest": made.digest, "doubts": made.doubts, "sampled": made.sampled}
    facts |= {"quarantined": made.quarantined, "left_out": made.left_out}
    told = (
        f"{made.doubts:,} in doubt, {made.quarantined:,} quarantined, {made.sampled:,} in the sample."
        f"\nOpen in a browser: {made.pages[0]}"
        "\nIt shows values of patients: it is for the holder alone, and belongs where it lies."
    )
    pages = [str(page) for page in made.pages]
    _print(as_json, {"pages": pages, **facts, "exit_code": 0}, told)
    return 0


@_command(cli, "demo", "medsanitize demo /tmp/demo")
@click.argument("folder", type=_FILE)
@_WORKERS
def demo(folder: Path, workers: int | None, *, as_json: bool, log_json: bool) -> int:
    """Make a small hospital export with planted identifiers in FOLDER, and release it."""
    from medsanitize.pipeline.demo_run import prepare_demo, show_demo, surviving
    from medsanitize.pipeline.run import Options
    from medsanitize.policies.load import load

    prepared = prepare_demo(folder)
    result = _go(load(prepared.policy), Options(workers), planned=False, log_json=log_json)
    survivors = surviving(prepared, result)
    if as_json:
        facts = {"planted": len(prepared.planted), "surviving": survivors}
        click.echo(json.dumps({**result.as_json(), **facts}))
    else:
        show_demo(prepared, result, survivors)
    return 0 if result.release and not survivors else result.exit_code or 3


# -- releases -----------------------------------------------------------------------------


@_command(cli, "verify", "medsanitize verify release --key signing.key.pub")
@click.argument("release", type=_FILE)
@click.option("--key", type=_FILE, help="Public key of the signer.")
def verify(release: Path, key: Path | None, *, as_json: bool, **_: Any) -> int:
    """Find every changed, missing or added byte of a release, and check its signature."""
    from medsanitize.release.verify import verify as verify_release

    found = verify_release(release, key=key)
    code = 0 if found.status == "intact" else 4
    problems = [{"file": file, "fault": fault} for file, fault in found.problems]
    lines = [str(found), *(f"  {one['fault']}: {one['file']}" for one in problems)]
    facts = {"status": found.status, "signer": found.signer, "problems": problems, "exit_code": code}
    _print(as_json, facts, "\n".join(lines))
    return code


@_command(cli, "audit", "medsanitize audit release --policy policy.yaml")
@click.argument("release", type=_FILE)
@click.option("--policy", type=_FILE, help="Search for the identifiers in this policy's state, too.")
def audit(release: Path, policy: Path | None, *, as_json: bool, **_: Any) -> int:
    """Read a release again with an independent reader, and search it for what should not be there."""
    from medsanitize.pipeline.ledger import audit_with_state

    found = audit_with_state(release, policy)
    findings = [{"file": file, "place": one.place, "rule": one.rule} for file, one in found.findings]
    code = 0 if found.passed else 3
    lines = [
        f"{found.objects} objects and {found.files} files read; known identifiers: {found.identifiers}.",
        *(f"  {one['rule']} at {one['place']} in {one['file']}" for one in findings),
        "Nothing was found." if found.passed else f"{len(findings)} findings.",
    ]
    facts = {"objects": found.objects, "files": found.files, "identifiers": str(found.identifiers)}
    _print(as_json, {**facts, "findings": findings, "exit_code": code}, "\n".join(lines))
    return code


@_command(cli, "wipe", "medsanitize wipe archive/S1.svs archive/S2.ndpi --yes")
@click.argument("slides", type=_FILE, nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask before the files are overwritten.")
def wipe(slides: tuple[Path, ...], yes: bool, *, as_json: bool, **_: Any) -> int:
    """Overwrite everything but the tissue in your own copies of slides (TIFF formats), in place.

    Label and macro are gone for good. What is wiped is no release: comments inside tiles stay, and nothing
    was checked. Release slides with run.
    """
    from medsanitize.pipeline.wipe import wipe_slides

    if not yes:
        click.confirm(f"Overwrite {len(slides)} files in place? This cannot be undone", abort=True, err=True)
    done = wipe_slides(slides)
    refused = sum(done.refused.values())
    code = 1 if refused else 0
    lines = [
        f"{done.wiped} slides wiped, {refused} refused and left as they were. None of them is a release."
    ]
    lines += [f"  {count}  {rule}" for rule, count in done.refused.items()]
    _print(as_json, {"wiped": done.wiped, "refused": done.refused, "exit_code": code}, "\n".join(lines))
    return code


@_command(cli, "ledger", "medsanitize ledger policy.yaml --uids uids.csv --patients patients.csv")
@_POLICY
@click.option("--uids", type=_FILE, help="CSV for every UID replaced (id_old,id_new).")
@click.option("--patients", type=_FILE, help="CSV for every PatientID replaced (id_old,id_new).")
def ledger(policy: Path, uids: Path | None, patients: Path | None, *, as_json: bool, **_: Any) -> int:
    """Export the link between identifiers and pseudonyms, to its holder alone."""
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.ledger import export_ledger
    from medsanitize.policies.load import load

    if uids is None and patients is None:
        raise UsageError("Nothing to export", "Give --uids FILE, --patients FILE or both")
    counts = export_ledger(load(policy), uids=uids, patients=patients)
    _print(as_json, counts, ", ".join(f"{count:,} rows of {name}" for name, count in counts.items()))
    return 0


@cli.group()
def registry() -> None:
    """Keep the digests of earlier releases, so that new ones can be compared with them."""


_REGISTRY_FOLDER = click.option(
    "--registry", "folder", type=_FILE, required=True, help="Folder of the registry."
)


@_command(registry, "add", "medsanitize registry add release --registry registry")
@click.argument("release", type=_FILE)
@_REGISTRY_FOLDER
def registry_add(release: Path, folder: Path, *, as_json: bool, **_: Any) -> int:
    """Verify a published release and add its digests."""
    from medsanitize.release.registry import Registry

    entry = Registry(folder).add(release)
    text = f"Added {entry.name} {entry.version}: {entry.objects:,} objects."
    _print(as_json, {"name": entry.name, "version": entry.version, "objects": entry.objects}, text)
    return 0


@_command(registry, "list", "medsanitize registry list --registry registry")
@_REGISTRY_FOLDER
def registry_list(folder: Path, *, as_json: bool, **_: Any) -> int:
    """List the releases in a registry."""
    from dataclasses import asdict

    from medsanitize.release.registry import Registry

    entries = Registry(folder).list()
    lines = [f"{entry.name} {entry.version} ({entry.mode}): {entry.objects:,} objects" for entry in entries]
    facts = {"releases": [asdict(entry) for entry in entries]}
    _print(as_json, facts, "\n".join(lines) or "The registry is empty.")
    return 0


@_command(registry, "remove", "medsanitize registry remove chest-ct 1.0 --registry registry")
@click.argument("name")
@click.argument("version")
@_REGISTRY_FOLDER
def registry_remove(name: str, version: str, folder: Path, *, as_json: bool, **_: Any) -> int:
    """Forget a release, and list the releases that lean on it."""
    from dataclasses import asdict

    from medsanitize.release.registry import Registry

    affected = Registry(folder).remove(name, version)
    lines = [f"Removed {name} {version}. Releases that lean on it: {len(affected)}"]
    lines += [f"  {one.entry.name} {one.entry.version}: {one.shared:,} shared objects" for one in affected]
    _print(as_json, {"affected": [asdict(one) for one in affected]}, "\n".join(lines))
    return 0


def main() -> None:
    """Entry point. Warnings and logs of libraries may quote element values, so they are silenced."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    cli()


if __name__ == "__main__":
    main()
