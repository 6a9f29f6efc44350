"""The conformance statement answers what PS3.15 E.1.3 asks for, and the register holds what it says."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.policies.model import Policy
from medsanitize.policies.tables.requirements import Requirement, requirements
from medsanitize.policies.tables.standard import confidentiality_rows
from medsanitize.release.build import write_evidence
from medsanitize.release.conformance import conformance_statement, read_statement, treatment_of

Make = Callable[..., Any]
MakePolicy = Callable[..., Policy]

ROOT = Path(__file__).parent.parent.parent
SHALLS = {
    **{"E.1.1": 16, "E.1.2": 5, "E.1.3": 1, "E.2": 1, "E.3.1": 2, "E.3.2": 2, "E.3.3": 1, "E.3.4": 1},
    **{"E.3.5": 2, "E.3.6": 6, "E.3.7": 2, "E.3.8": 1, "E.3.9": 1, "E.3.10": 5, "E.3.11": 1},
}
"""How often "shall" stands in each section of Annex E (edition 2025e)."""


@cache
def functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module([], [])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def exists(node: str) -> bool:
    file, _, name = node.partition("::")
    return name in functions(ROOT / file)


def test_every_shall_of_the_annex_has_a_row() -> None:
    counted: Counter[str] = Counter()
    for one in requirements():
        counted[one.section] += one.shalls
    assert counted == SHALLS


def test_ids_are_unique() -> None:
    ids = [one.id for one in requirements()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("one", requirements(), ids=lambda one: one.id)
def test_a_requirement_has_an_answer_with_a_reason_or_a_test(one: Requirement) -> None:
    assert one.answer in ("met", "not applicable", "not met")
    assert one.tests if one.answer == "met" else one.why


@pytest.mark.parametrize("one", requirements(), ids=lambda one: one.id)
def test_the_named_tests_exist(one: Requirement) -> None:
    assert [node for node in one.tests if not exists(node)] == []


def test_a_test_that_does_not_exist_is_noticed() -> None:
    assert not exists("tests/release/test_conformance.py::test_nothing")
    assert not exists("tests/release/test_nothing.py::test_ids_are_unique")


@pytest.fixture
def statement(summary: Make, make_policy: MakePolicy) -> str:
    return conformance_statement(replace(summary(), treatment=treatment_of(make_policy("research"))))


def test_the_statement_answers_every_point_of_the_standard(statement: str) -> None:
    titles = [
        line.partition(" ")[2].partition(" ")[2] for line in statement.splitlines() if line[:3] == "## "
    ]
    assert titles == [
        "Objects",
        "Role",
        "Options",
        "Attributes removed, replaced, cleaned and kept",
        "Dummy values",
        "Encrypted Attributes Data Sets",
        "Referential integrity",
        "Attributes inserted",
        "Transfer syntaxes",
        "Manner of cleaning",
        "Safe private attributes",
        "Restrictions",
        "Requirements of Annex E",
    ]


def test_the_statement_names_every_row_of_the_table(statement: str) -> None:
    rows = [row.keyword for row in confidentiality_rows() if row.mask != "private"]
    assert [keyword for keyword in rows if f"{keyword} (" not in statement] == []


@pytest.mark.parametrize(
    "told",
    [
        "DICOM PS3.15 2026d",
        "CT Image Storage",
        "LensSpecification (0016,004E)",
        "OverlayData (60xx,3000)",
        "same number of whole days",
        "Philips PET Private Group: (7053,xx00), (7053,xx09)",
        "| E.2-12 | ",
    ],
)
def test_the_statement_tells_edition_objects_attributes_and_manner(told: str, statement: str) -> None:
    assert told in statement


def test_an_option_of_the_policy_that_no_object_needed_is_not_stated_as_applied(
    summary: Make, make_policy: MakePolicy
) -> None:
    changed = replace(summary(), treatment=treatment_of(make_policy("research")))
    assert "| 113101 | Clean Pixel Data Option | yes | no |" in conformance_statement(changed)


def test_without_the_option_the_statement_lists_no_private_attribute(
    summary: Make, make_policy: MakePolicy
) -> None:
    changed = replace(summary(), treatment=treatment_of(make_policy("ps3.15-basic")))
    statement = conformance_statement(changed)
    assert "All private attributes are removed." in statement
    assert "Philips PET Private Group" not in statement


def test_a_release_contains_its_statement_and_the_command_prints_it(staged: Path, summary: Make) -> None:
    write_evidence(staged, summary(), signing_key=None)

    printed = CliRunner().invoke(cli, ["conformance", str(staged)])

    assert printed.exit_code == 0
    assert printed.output == (staged / "conformance.md").read_text()
    assert printed.output == read_statement(staged)


def test_the_command_counts_the_answers(staged: Path, summary: Make) -> None:
    write_evidence(staged, summary(), signing_key=None)

    printed = CliRunner().invoke(cli, ["conformance", str(staged), "--json"])

    answers = json.loads(printed.output)["requirements"]
    assert answers["not met"] == sum(one.answer == "not met" for one in requirements())
    assert sum(answers.values()) == len(requirements())


def test_a_changed_statement_is_not_printed(staged: Path, summary: Make) -> None:
    write_evidence(staged, summary(), signing_key=None)
    (staged / "conformance.md").write_text("nothing")

    with pytest.raises(IntegrityError):
        read_statement(staged)


def test_a_folder_that_is_no_release_has_no_statement(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_statement(tmp_path)
