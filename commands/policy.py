"""Commands on policies and keys: init, validate, schema, keygen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from medsanitize.commands.command import FILE, command, print_result

PRESETS = ("ps3.15-basic", "research", "hipaa-safe-harbor")
PRESET = click.option("--preset", type=click.Choice(PRESETS), default="research", show_default=True)
NAME = click.option("--name", default="my-release", show_default=True, help="Name of the release.")


@command("init", "medsanitize init policy.yaml --preset research --name chest-ct")
@click.argument("policy", type=FILE, default=Path("policy.yaml"))
@PRESET
@NAME
def init(policy: Path, preset: Any, name: str, *, as_json: bool, **_: Any) -> int:
    """Write a commented policy to start from; an existing file is never overwritten."""
    from medsanitize.policies.template import policy_template

    write_new_policy(policy, policy_template(preset, name))
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
