"""Shared parts of the tests of the examples: the real command line, and stand-ins for schedulers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from medsanitize.cli import cli

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent


def parse(words: list[str]) -> dict[str, Any]:
    """Parse a command with the real command line; an unknown command or option is an error."""
    found: click.Command = cli
    context = click.Context(cli, help_option_names=["-h", "--help"])
    while isinstance(found, click.Group):
        name, command, words = found.resolve_command(context, words)
        assert command is not None
        found = command
    with found.make_context(name, words, parent=context) as parsed:
        return parsed.params


def write_fake_command(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o755)
