"""Commands on policies and keys: init, validate, schema, keygen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from medsanitize.commands.command import FILE, aligned, command, long_running, print_result

PRESETS = ("ps3.15-basic", "research", "hipaa-safe-harbor")
PRESET = click.option("--preset", type=click.Choice(PRESETS), default="research", show_default=True)
NAME = click.option("--name", default="my-release", show_default=True, help="Name of the release.")


@command("init", "medsanitize init policy.yaml --preset research --name chest-ct")
@click.argument("policy", type=FILE, default=Path("policy.yaml"))
@PRESET
@NAME
@click.option(
    "--answer",
    "answers",
    multiple=True,
    metavar="QUESTION=CHOICE",
    help="Answer one of six questions instead of naming a preset: export (a folder), audience, dates,"
    " burned_in_text, faces, earlier. May be given several times.",
)
def init(policy: Path, preset: Any, name: str, answers: tuple[str, ...], *, as_json: bool, **_: Any) -> int:
    """Write a commented policy to start from; an existing file is never overwritten."""
    from medsanitize.policies.questions import draft_policy
    from medsanitize.policies.template import policy_template

    if answers:
        text = draft_policy(dict(one.partition("=")[::2] for one in answers), name=name)
    else:
        text = policy_template(preset, name)
    write_new_policy(policy, text)
    print_result(
        as_json, {"policy": str(policy)}, f"Wrote {policy}. Edit it, then: medsanitize validate {policy}"
    )
    return 0


def write_new_policy(policy: Path, text: str) -> None:
    """Write a policy to a new file."""
    from medsanitize.errors import UsageError

    try:
        # Mode "x": an existing policy is never overwritten.
        with policy.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError("A file of this name exists", "Name another file") from None
    except OSError:
        raise UsageError(
            "The policy cannot be written", "Name a file in a folder that may be written"
        ) from None


@command("validate", "medsanitize validate policy.yaml")
@click.argument("policy", type=FILE)
def validate(policy: Path, *, as_json: bool, **_: Any) -> int:
    """Check a policy, and report all problems at once, each with line, column and remedy."""
    from medsanitize.errors import PolicyError
    from medsanitize.policies.digest import policy_digest
    from medsanitize.policies.load import load
    from medsanitize.policies.site_lists import with_site_lists

    try:
        loaded = with_site_lists(load(policy))
    except PolicyError as error:
        # With --json, an invalid policy is a result, not an error message.
        if not as_json:
            raise
        problems = [
            {"line": one.line, "column": one.column, "message": one.message, "remedy": one.remedy}
            for one in error.problems
        ]
        click.echo(json.dumps({"type": "result", "valid": False, "problems": problems, "exit_code": 2}))
        return 2
    digest = policy_digest(loaded)
    print_result(
        as_json,
        {"valid": True, "policy_digest": digest, "exit_code": 0},
        f"The policy is valid. Digest {digest}",
    )
    return 0


@command("attributes", "medsanitize attributes policy.yaml StudyDescription")
@click.argument("policy", type=FILE)
@click.argument("search", nargs=-1)
def attributes(policy: Path, search: tuple[str, ...], *, as_json: bool, **_: Any) -> int:
    """Show what a policy does with each attribute, and why.

    SEARCH are words that tag, keyword, action or reason must contain.
    """
    from dataclasses import asdict

    from medsanitize.policies.load import load
    from medsanitize.sanitize.dicom.attribute_table import attribute_table

    found = attribute_table(load(policy).dicom, " ".join(search))
    rows = [(one.tag, one.keyword, one.action, one.effect, one.reason) for one in found]
    facts = {"attributes": [asdict(one) for one in found], "exit_code": 0}
    print_result(as_json, facts, "\n".join(aligned(rows)) if rows else "No attribute matches.")
    return 0


@command("inventory", "medsanitize inventory policy.yaml")
@click.argument("policy", type=FILE)
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use; by default one per core.")
def inventory(policy: Path, workers: int | None, *, as_json: bool, log_json: bool) -> int:
    """Count what the inputs of a policy contain: patients, studies, modalities, makers, formats.

    The counts are stored in the state folder; nothing else is written, and no key is needed.
    """
    from medsanitize.pipeline.engines.forkserver import start_forkserver

    start_forkserver()
    from medsanitize.pipeline.jobs.count_inputs import count_inputs
    from medsanitize.policies.load import load

    with long_running(log_json) as (progress, stop):
        found = count_inputs(load(policy), workers=workers, progress=progress, cancellation=stop)
    lines = [
        f"{found.files:,} files ({found.bytes / 1e6:,.1f} MB), {found.objects:,} objects of"
        f" {found.patients:,} patients in {found.studies:,} studies and {found.series:,} series.",
        f"A run takes about {max(found.estimate / 60, 1):,.0f} min on this machine.",
    ]
    for title, table in found.tables():
        lines += ["", title, *aligned([("  " + name, f"{count:,}") for name, count in table.items()])]
    print_result(as_json, {**found.as_json(), "exit_code": 0}, "\n".join(lines))
    return 0


@command("status", "medsanitize status policy.yaml")
@click.argument("policy", type=FILE)
def status(policy: Path, *, as_json: bool, **_: Any) -> int:
    """Show how far the release of a policy is, and the next step.

    It reads the folders of the policy alone: it needs no key, and a run in progress is not disturbed.
    """
    from medsanitize.pipeline.reporting.status import status_of
    from medsanitize.policies.load import load

    found = status_of(load(policy))
    lines = [f"{found.name} {found.version}: {found.state.replace('_', ' ')}. {found.reason}".rstrip()]
    if found.progress is not None:
        total = "" if found.progress.total is None else f" of {found.progress.total:,}"
        lines.append(f"Stage {found.progress.stage}: {found.progress.done:,}{total}")
    if found.outcomes:
        lines.append(", ".join(f"{count:,} {name}" for name, count in sorted(found.outcomes.items())))
    lines.append(f"Next: {found.next_step}.")
    print_result(as_json, {**found.as_json(), "exit_code": 0}, "\n".join(lines))
    return 0


@command("schema", "medsanitize schema > medsanitize.schema.json")
def schema(*, as_json: bool, **_: Any) -> int:
    """Print the JSON Schema of policies, for editors."""
    from medsanitize.policies.json_schema import json_schema

    click.echo(json.dumps(json_schema(), indent=None if as_json else 2, sort_keys=True))
    return 0


@command("keygen", "medsanitize keygen release.key")
@click.argument("file", type=FILE)
@click.option(
    "--signing", is_flag=True, help="Generate an Ed25519 signing key; its public key is written to FILE.pub."
)
def keygen(file: Path, signing: bool, *, as_json: bool, **_: Any) -> int:
    """Generate a release key (or a signing key) of mode 0600; an existing file is never overwritten."""
    if signing:
        from medsanitize.release.attestation import generate_signing_key

        generate_signing_key(file)
    else:
        from medsanitize.policies.release_key import generate_release_key

        generate_release_key(file)
    print_result(
        as_json, {"file": str(file)}, f"Wrote {file}. Keep it safe: it links the release to patients."
    )
    return 0
