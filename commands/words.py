"""The command words: drafts of the site's lists of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from medsanitize.commands.command import FILE, command, long_running, print_result


@command("words", "medsanitize words policy.yaml --min-patients 5")
@click.argument("policy", type=FILE)
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use; by default one per core.")
@click.option(
    "--min-patients",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Propose words of texts that occur with this number of patients.",
)
def words(policy: Path, workers: int | None, min_patients: int, *, as_json: bool, log_json: bool) -> int:
    """Propose never-words and safe words of the site, from the texts of an export.

    Writes two drafts into the state folder: deny-list.txt with staff, institutions and wards of the headers
    and kept words that are also names, allow-list.txt with removed words that do not look like names. Edit
    them, and name them in the policy as text.deny_list and text.allow_list. They contain PHI; nothing else is
    written, and no word is printed.
    """
    from medsanitize.pipeline.engines.forkserver import start_forkserver

    start_forkserver()
    from medsanitize.pipeline.jobs.propose_words import propose_words
    from medsanitize.policies.load import load

    with long_running(log_json) as (progress, stop):
        made = propose_words(
            load(policy),
            workers=workers,
            least_patients=min_patients,
            progress=progress,
            cancellation=stop,
        )
    facts: dict[str, Any] = {"objects": made.objects, "patients": made.patients}
    facts |= {"deny": made.deny, "allow": made.allow}
    facts |= {"deny_path": str(made.deny_path), "allow_path": str(made.allow_path), "exit_code": 0}
    text = (
        f"{made.deny:,} never-words and {made.allow:,} safe words proposed"
        f" from {made.objects:,} objects of {made.patients:,} patients."
        f"\nEdit these files, and name them in the policy as text.deny_list and text.allow_list:"
        f"\n{made.deny_path}\n{made.allow_path}"
        "\nThey contain PHI; keep them private."
    )
    print_result(as_json, facts, text)
    return 0
