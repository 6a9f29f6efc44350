"""Write docs/commands.md from the commands' own help: `python docs/commands.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from medsanitize.cli import cli
from medsanitize.pipeline.runtime.result import MEANINGS

PAGE = Path(__file__).parent / "commands.md"
_WIDTH = 100
_HEAD = """\
# Commands

This page is generated from the help texts of the commands: `python docs/commands.py`.

Results are printed to stdout, everything else to stderr. With `--json`, the result is one JSON object
on stdout. With `--log-json`, messages and progress are JSON lines on stderr;
[operations](operations.md#logs-and-metrics) describes their fields. Neither contains the file name of
an input or the value of an element.
"""
_RUN = """
`run --json` prints `ending` (`published`, `already_published`, `refused`, `awaiting_approval`,
`inventory_done`, `shard_done`), `objects`, `outcomes` (objects by outcome), `dropped` and `quarantined`
(objects by [rule](rules.md)), `actions` and `rules` (changes to attributes), `gates`, `stages` (`name`,
`cpu_seconds` of all processes, `wall_seconds`, `objects`), `release`, `report`, `digest` (the digest
that an approval is bound to) and `exit_code`.

If a gate refuses the release, the output folder is emptied, because the staged files may contain what
the gate found. The next run sanitizes all objects again. While approval is awaited, the staged release
is in `.staging`, readable only by its owner.

The result is also written to `return.json` (ending, exit code, error, counts) and `metrics.prom`
(Prometheus text) in the state folder. `--return-file` also covers failures before the run has its
folders; see [operations](operations.md#logs-and-metrics).

For a batch scheduler: `run POLICY --inventory-only` once, then `run POLICY --shard 1/8` to `8/8` as
separate jobs on machines that share the folders, then `run POLICY`, which merges the shards, processes
what a shard left over, audits and publishes. File locks are advisory: on a network file system without
locks, do not start two whole runs at the same time.
"""


def page() -> str:
    """The whole page."""
    codes = "".join(
        f"| {'128 + N' if code == 128 else int(code)} | {meaning.removeprefix('128 + N: ')} |\n"
        for code, meaning in MEANINGS.items()
    )
    parts = [_HEAD, "\n## Exit codes\n\n| code | meaning |\n|---|---|\n" + codes]
    for name, command in commands(cli):
        text = help_text(name, command)
        parts.append(f"\n## {name}\n\n```\n{text}\n```\n" + (_RUN if name == "run" else ""))
    return "".join(parts)


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name, in alphabetical order."""
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{above}{name} ")
        elif command is not None:
            yield f"{above}{name}", command


def help_text(name: str, command: click.Command) -> str:
    """What ``--help`` prints."""
    context = click.Context(
        command,
        info_name=f"medsanitize {name}",
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        help_option_names=["-h", "--help"],
    )
    return command.get_help(context)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
