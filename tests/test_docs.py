"""The manual says what the commands say themselves."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from medsanitize.pipeline.reporting.rule_help import reason_for

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_commands", DOCS / "commands.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_the_one_the_commands_generate(generator: ModuleType) -> None:
    assert (DOCS / "commands.md").read_text(encoding="utf-8") == generator.page()


def test_every_command_is_documented_with_a_sentence(generator: ModuleType) -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    for name, command in generator.commands(generator.cli):
        assert f"## {name}\n" in page
        assert command.help


def test_every_exit_code_is_in_the_table(generator: ModuleType) -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    for code, meaning in generator.MEANINGS.items():
        assert meaning.removeprefix("128 + N: ") in page, code


def test_every_rule_of_the_runbook_has_a_reason() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    table = page.split("| family |")[1].split("\n\n")[0]
    rules = [re.findall(r"`([a-z:.-]+)`", row.split("|")[2]) for row in table.splitlines()[2:]]
    unknown = reason_for("no rule")
    assert min(map(len, rules)) > 0
    assert not [rule for row in rules for rule in row if reason_for(rule) == unknown]
