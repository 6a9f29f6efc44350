"""The manual matches the commands, rules, policies and schemas."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from shutil import copy
from types import ModuleType

import pytest
from medsanitize.pipeline.reporting.rule_help import reason_for
from medsanitize.policies.load import loads
from pydicom.data import get_testdata_file

from tests.helpers.documents import PAGES, code_blocks, merge_policies

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("commands")


def test_the_commands_page_is_up_to_date(generator: ModuleType) -> None:
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


def test_every_rule_of_the_code_has_a_meaning_in_the_reference() -> None:
    rules = loaded("rules")
    unknown = reason_for("no rule")
    assert rules.change_subjects() - set(rules.CHANGES) == set()
    assert rules.audit_rules() - set(rules.AUDIT) == set()
    assert rules.dropped_rules() - set(rules.DROPPED) == set()
    assert [rule for rule in sorted(rules.quarantine_rules()) if reason_for(rule) == unknown] == []


def test_reference_of_rules_lists_rules_of_every_kind() -> None:
    page = loaded("rules").page()
    for rule in ("burned-in-text-risk", "consent", "private", "audit:name", "audit:malformed-..."):
        assert f"| `{rule}` |" in page, rule


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_policy_of_the_manual_loads(page: Path) -> None:
    for text in code_blocks(page, "yaml"):
        loads(merge_policies(text), base=Path("/data/project"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_of_the_manual_compiles(page: Path) -> None:
    for text in code_blocks(page, "python"):
        compile(text, page.name, "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_the_manual_resolve(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "export").mkdir()
    copy(get_testdata_file("CT_small.dcm", download=False), tmp_path / "export" / "scan.dcm")
    monkeypatch.chdir(tmp_path)
    (block,) = code_blocks(ROOT / "README.md", "python")
    exec(compile(block, "README.md", "exec"), {})  # noqa: S102
    assert len(list((tmp_path / "clean").rglob("*.dcm"))) == 1


def test_the_conformance_page_is_up_to_date() -> None:
    written = DOCS / "conformance.md"
    assert written.read_text(encoding="utf-8") == loaded("conformance").page()


def test_the_manifest_page_is_up_to_date() -> None:
    generator = loaded("manifest")
    assert (DOCS / "manifest.md").read_text(encoding="utf-8") == generator.page(), (
        "Run: python docs/manifest.py"
    )
