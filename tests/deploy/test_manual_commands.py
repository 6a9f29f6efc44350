"""Every command shown in the manual exists in the real command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.deploy import ROOT, parse

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands_of(page: Path) -> Iterator[str]:
    """Lines of code blocks without a language that begin with the command's name."""
    for block in re.findall(r"^```(?:console|sh)?\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("medsanitize ") and "Usage:" not in line:
                yield line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_manual_exists(page: Path) -> None:
    for line in commands_of(page):
        words = shlex.split(line, comments=True)[1:]
        if not {"--help", "[OPTIONS]"} & set(words):
            parse(words)
