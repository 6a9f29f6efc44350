"""The command lists: never-words and safe words of the site."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from medsanitize.commands.command import FILE, command, print_result

_FILE = "FILE"


@command("lists", "medsanitize lists policy.yaml --never words.txt")
@click.argument("policy", type=FILE)
@click.option("--never", type=FILE, metavar=_FILE, help="Add the lines of this file to the never-words.")
@click.option("--safe", type=FILE, metavar=_FILE, help="Add the lines of this file to the safe words.")
@click.option("--not-never", type=FILE, metavar=_FILE, help="Remove its lines from the never-words.")
@click.option("--not-safe", type=FILE, metavar=_FILE, help="Remove its lines from the safe words.")
@click.option("--show", is_flag=True, help="Print the entries. They may name persons.")
def lists(
    policy: Path,
    never: Path | None,
    safe: Path | None,
    not_never: Path | None,
    not_safe: Path | None,
    *,
    show: bool,
    as_json: bool,
    **_: Any,
) -> int:
    """Edit the lists of the site in the state folder: never-words are always removed, safe words stay.

    All policies with this state folder use them, in addition to text.deny_list and text.allow_list. The
    file - is the standard input, so that no word is in the arguments of a process. A changed list makes the
    next run sanitize all objects again; the decisions of a review stay.
    """
    from medsanitize.pipeline.jobs.edit_site_lists import edit_site_lists, site_lists
    from medsanitize.policies.load import load

    loaded = load(policy)
    counts = edit_site_lists(
        loaded,
        add_never=_words(never),
        add_safe=_words(safe),
        remove_never=_words(not_never),
        remove_safe=_words(not_safe),
    )
    facts: dict[str, Any] = asdict(counts)
    text = (
        f"{counts.added:,} added, {counts.removed:,} removed; {counts.never:,} never-words and"
        f" {counts.safe:,} safe words in the state folder."
        f"\nWith those of the policy, {counts.never_in_force:,} and {counts.safe_in_force:,} are in force."
    )
    if show:
        found = site_lists(loaded)
        facts |= {"never_words": list(found.deny), "safe_words": list(found.allow)}
        for heading, entries in (("Never-words", found.deny), ("Safe words", found.allow)):
            text += f"\n{heading}:" + "".join(f"\n  {one}" for one in entries)
    if counts.added or counts.removed:
        text += f"\nNow run again: medsanitize run {policy}"
    print_result(as_json, {**facts, "exit_code": 0}, text)
    return 0


def _words(path: Path | None) -> tuple[str, ...]:
    """Return the lines of a file, or of the standard input, without comments."""
    from medsanitize.errors import UsageError
    from medsanitize.policies.site_lists import line_entry

    if path is None:
        return ()
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise UsageError("A file of words cannot be read as UTF-8 text", "Correct its path") from None
    return tuple(filter(None, map(line_entry, text.splitlines())))
