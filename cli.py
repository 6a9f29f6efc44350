"""The command line: one group, which imports the module of a command when the command is called."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click
from medsanitize import __version__
from medsanitize.offline import use_temporary_folder

# Module of each command in `commands`, and the first sentence of its help.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "ask": (
        "ask",
        "Ask another hospital about IMAGES without showing them: their class, or whether it knows the"
        " patients.",
    ),
    "attack": ("attack", "Run privacy attacks against a release, models, or schemes that share embeddings."),
    "attributes": (
        "policy",
        "Show what a policy does with each attribute, and why.",
    ),
    "audit": (
        "release",
        "Audit a release with an independent reader: search it for identifiers and unexpected data.",
    ),
    "conformance": (
        "release",
        "Print the DICOM conformance statement of a release, with the options of PS3.15 that were applied.",
    ),
    "demo": (
        "run",
        "Create a small synthetic hospital export with planted identifiers in FOLDER, and release it.",
    ),
    "desk": (
        "desk",
        "Open the web application: from an export to an approved release, in a browser.",
    ),
    "diff": (
        "release",
        "Show what changed from one release to another: objects and patients added, removed or changed.",
    ),
    "doctor": (
        "doctor",
        "Show versions, extras, models, resources and folders, and the connections that POLICY makes.",
    ),
    "evaluate": (
        "evaluate",
        "Evaluate a re-identification model: P@1, mAP@R, AUC, and error rates at a threshold.",
    ),
    "explain": (
        "explain",
        "Explain a classifier's prediction for IMAGE with similar synthetic images.",
    ),
    "export": ("release", "Export a release for other programs: the objects with what their headers say."),
    "federation": (
        "federation",
        "Train or calibrate models with other hospitals, who see neither images nor statistics of each"
        " other.",
    ),
    "identities": ("identities", "Decide which patient IDs are one person."),
    "index": ("overlap", "Create the fingerprint index of a dataset, for repeated comparisons with overlap."),
    "init": ("policy", "Write a commented policy to start from; an existing file is never overwritten."),
    "inventory": (
        "policy",
        "Count what the inputs of a policy contain: patients, studies, modalities, makers, formats.",
    ),
    "keygen": (
        "policy",
        "Generate a release key (or a signing key) of mode 0600; an existing file is never overwritten.",
    ),
    "ledger": (
        "run",
        "Export the link between identifiers and pseudonyms, or the account of all files, as CSV.",
    ),
    "lists": (
        "site_lists",
        "Edit the lists of the site in the state folder: never-words are always removed, safe words stay.",
    ),
    "overlap": (
        "overlap",
        "Report whether datasets share patients: releases, folders of images, or indexes of them.",
    ),
    "party": ("party", "Take part in private comparisons with other hospitals."),
    "plan": ("run", "Show what a run would do, and the complete policy with its preset; nothing is written."),
    "preview": (
        "run",
        "Show one object of an export before and after, as a run would change it; nothing is written.",
    ),
    "query": (
        "release",
        "Query a release in SQL: what its headers say, by object and by series, and its manifest.",
    ),
    "policy": ("import_policy", "Make a policy from the rules of another de-identification program."),
    "registry": (
        "release",
        "Manage the registry: digests of earlier releases, with which new ones are compared.",
    ),
    "release": (
        "card",
        "Describe a release: numbers of its patients with differential privacy.",
    ),
    "review": (
        "run",
        "Create an HTML page to review uncertain detections, quarantined objects and a sample.",
    ),
    "run": ("run", "De-identify the inputs of a policy and publish them as a release, or report why not."),
    "schema": ("policy", "Print the JSON Schema of policies, for editors."),
    "send": ("send", "Verify a release and send its DICOM objects to a PACS."),
    "status": ("policy", "Show how far the release of a policy is, and the next step."),
    "synthesize": (
        "synthesize",
        "Generate synthetic images that match no training patient, or state what is needed.",
    ),
    "train": (
        "train",
        "Train models on your own images, from a table of images and patients.",
    ),
    "validate": (
        "policy",
        "Check a policy, and report all problems at once, each with line, column and remedy.",
    ),
    "values": (
        "values",
        "List every value that is left in a release, or in the staged objects of a policy, with its count.",
    ),
    "verify": (
        "release",
        "Verify a release: find every changed, missing or added file, and check the signature.",
    ),
    "wipe": (
        "release",
        "Overwrite everything but the tissue in your own copies of slides (TIFF formats), in place.",
    ),
    "words": ("words", "Propose never-words and safe words of the site, from the texts of an export."),
}


class _Commands(click.Group):
    """A group that lists commands without importing their modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        # Not imported: help and completion must be fast.
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
    """De-identify exports of medical images, and publish them as releases with evidence."""


def main() -> None:
    """Run the command line (entry point)."""
    # Warnings and logs of libraries may quote element values.
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    cli(obj=use_temporary_folder)
