"""The commands: parse, call, print, exit code. The work is done in the rooms."""

from __future__ import annotations

import logging
import warnings

from medsanitize.cli import (
    attacks,
    doctor,
    evaluation,
    explain,
    overlap,
    policies,
    releases,
    runs,
    sending,
    synthesis,
    training,
)
from medsanitize.cli.frame import cli
from medsanitize.offline import use_temporary_folder

__all__ = [
    "attacks",
    "cli",
    "doctor",
    "evaluation",
    "explain",
    "main",
    "overlap",
    "policies",
    "releases",
    "runs",
    "sending",
    "synthesis",
    "training",
]


def main() -> None:
    """Entry point. Warnings and logs of libraries may quote element values, so they are silenced."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    cli(obj=use_temporary_folder)
