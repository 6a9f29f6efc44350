"""The table of stage results declares all writers and readers of each entry."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from medsanitize.pipeline.state import stage_results
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.result_types import Replaced, Walk
from medsanitize.pipeline.state.stage_results import ENTRIES
from medsanitize.sanitize.pseudonyms import derive_sub_keys

PIPELINE = Path(stage_results.__file__).parents[1]
NAMES = {one.name: name for name, one in vars(stage_results).items() if one in ENTRIES}
UNTYPED = {"get", "put", "plain", "put_plain", "remove"}


def _users() -> dict[str, set[str]]:
    """Pipeline modules outside of state by the entries that they import."""
    users: dict[str, set[str]] = {}
    for path in PIPELINE.rglob("*.py"):
        name = ".".join(path.relative_to(PIPELINE).with_suffix("").parts)
        if not name.startswith("state."):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("stage_results"):
                    for one in node.names:
                        users.setdefault(one.name, set()).add(name)
    return users


def test_every_entry_declares_its_writers_and_readers() -> None:
    users = _users()
    stated = {NAMES[one.name]: {*one.written_by, *one.read_by} for one in ENTRIES}
    assert {name: users.get(name, set()) for name in stated} == stated


def test_entry_names_are_unique() -> None:
    assert len({one.name for one in ENTRIES}) == len(ENTRIES)


def test_no_other_module_uses_entry_names() -> None:
    wrong = []
    for path in PIPELINE.rglob("*.py"):
        if path.parent.name != "state":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in UNTYPED
                    and "state" in ast.unparse(node.func.value)
                ):
                    wrong.append(f"{path.name}:{node.lineno}")
    assert wrong == []


@pytest.fixture
def state() -> State:
    return State(None, derive_sub_keys(bytes(range(32)), scope="release:test"))


def test_a_result_is_read_back_as_stored(state: State) -> None:
    stage_results.WALK.store(state, Walk(3, "digest"))
    stage_results.REPLACED.store(state, Replaced(2, 1, {"a": 2}))
    stage_results.SYNTHETIC.store(state, None)
    assert stage_results.WALK.load(state) == Walk(3, "digest")
    assert stage_results.REPLACED.load(state) == Replaced(2, 1, {"a": 2})
    assert stage_results.SYNTHETIC.is_stored(state)
    assert stage_results.SYNTHETIC.load(state) is None
