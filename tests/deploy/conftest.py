"""What the tests of the examples share: the real command line, a small project, stand-ins for schedulers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from medsanitize.cli import cli
from medsanitize.policies.model import Policy

from tests.pipeline.conftest import prepare, tree, write_ct

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent


def parse(words: list[str]) -> dict[str, Any]:
    """What the command line makes of a command's words; a wrong name or option is an error."""
    found: click.Command = cli
    context = click.Context(cli, help_option_names=["-h", "--help"])
    while isinstance(found, click.Group):
        name, command, words = found.resolve_command(context, words)
        assert command is not None
        found = command
    with found.make_context(name, words, parent=context) as parsed:
        return parsed.params


@pytest.fixture
def project(tmp_path: Path) -> Policy:
    for number in range(6):
        write_ct(tmp_path / "export" / f"i{number}.dcm", number, f"P{number % 3}", number % 3)
    return prepare(tmp_path)


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, str]:
    """The release of the same project from one run."""
    base = tmp_path / "whole"
    for number in range(6):
        write_ct(base / "export" / f"i{number}.dcm", number, f"P{number % 3}", number % 3)
    policy = prepare(base)
    command = [BIN / "medsanitize", "run", base / "policy.yaml", "--workers", "1"]
    subprocess.run(command, check=True, capture_output=True, cwd="/")
    return tree(policy.output)


def stand_in(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o755)
