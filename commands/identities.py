"""The command identities: suspected double patients and the decisions on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from medsanitize.commands.command import FILE, command, print_result


@command("identities", "medsanitize identities policy.yaml --suspects suspects.csv")
@click.argument("policy", type=FILE)
@click.option("--suspects", type=FILE, help="New CSV file for the pairs to decide on; it contains PHI.")
@click.option(
    "--decisions",
    type=FILE,
    help="That file with the columns decision (same, different) and why filled in; recorded first.",
)
@click.option("--export", type=FILE, help="New CSV file for all recorded decisions; it contains PHI.")
def identities(
    policy: Path,
    suspects: Path | None,
    decisions: Path | None,
    export: Path | None,
    *,
    as_json: bool,
    **_: Any,
) -> int:
    """Decide which patient IDs are one person.

    Pairs of IDs that may be one person are suspected by the run. Decisions are kept encrypted in the state
    folder, and apply to every later run of releases that share pseudonyms.
    """
    from medsanitize.pipeline.jobs.decide_identities import decide_identities
    from medsanitize.policies.load import load

    counts = decide_identities(load(policy), suspects=suspects, decisions=decisions, export=export)
    sentence = (
        f"{counts['recorded']:,} decisions recorded, {counts['decided']:,} in the ledger, "
        f"{counts['undecided']:,} suspected pairs without a decision."
    )
    if counts["recorded"]:
        sentence += " Run the policy again; a finished release needs a new version."
    print_result(as_json, counts, sentence)
    return 0
