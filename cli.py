"""The command line: one group, whose commands are loaded when they are asked for."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click
from medsanitize import __version__
from medsanitize.offline import use_temporary_folder

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "attack": ("attack", "Attack a release, to know what another would find."),
    "audit": (
        "release",
        "Read a release again with an independent reader, and search it for what should not be there.",
    ),
    "demo": ("run", "Make a small hospital export with planted identifiers in FOLDER, and release it."),
    "doctor": (
        "doctor",
        "Show versions, extras, models, resources and folders, and which connections POLICY makes.",
    ),
    "evaluate": (
        "evaluate",
        "Measure how well images tell who their patient is: P@1, mAP@R, AUC, errors at a threshold.",
    ),
    "explain": (
        "explain",
        "Explain what a classifier says of IMAGE by the synthetic images that it sees in the same way.",
    ),
    "index": ("overlap", "Look at a dataset once, and keep what was seen for overlap."),
    "init": ("policy", "Write a commented policy to begin with; an existing file is never overwritten."),
    "keygen": (
        "policy",
        "Make a release key (or, with --signing, a signing key) of mode 0600; nothing is overwritten.",
    ),
    "ledger": ("run", "Export the link between identifiers and pseudonyms, to its holder alone."),
    "overlap": (
        "overlap",
        "Tell whether datasets share patients: releases, plain folders of images, or indexes of them.",
    ),
    "plan": ("run", "Show what a run would do, and everything the preset decides; nothing is written."),
    "registry": (
        "release",
        "Keep the digests of earlier releases, so that new ones can be compared with them.",
    ),
    "review": (
        "run",
        "Make a page of what is in doubt, in quarantine and about to be released, for a person to decide.",
    ),
    "run": ("run", "Turn the inputs of a policy into a release, or say why there is none."),
    "schema": ("policy", "Print the JSON Schema of policies, for editors."),
    "send": ("send", "Verify a release and send its DICOM objects to a PACS."),
    "synthesize": (
        "synthesize",
        "Make synthetic images that match no patient of the training images, or say that it cannot be told.",
    ),
    "train": (
        "train",
        "Train models on your own images, from a table that says which image is of which patient.",
    ),
    "validate": ("policy", "Check a policy; all problems at once, each with line, column and remedy."),
    "verify": (
        "release",
        "Find every changed, missing or added byte of a release, and check its signature.",
    ),
    "wipe": (
        "release",
        "Overwrite everything but the tissue in your own copies of slides (TIFF formats), in place.",
    ),
}
"""Name of a command -> its module in ``commands``, and the first sentence of its help."""


class _Commands(click.Group):
    """A group that imports a command's module when it is called, and lists commands without."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"medsanitize.commands.{COMMANDS[cmd_name][0]}")
        found: click.Command = getattr(module, cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        limit = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, click.Command(name, help=COMMANDS[name][1]).get_short_help_str(limit))
                    for name in self.list_commands(ctx)
                ]
            )


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="medsanitize")
def cli() -> None:
    """Turn an export of medical images into a dataset that may be published, with the evidence."""


def main() -> None:
    """Entry point. Warnings and logs of libraries may quote element values, so they are silenced."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    cli(obj=use_temporary_folder)
