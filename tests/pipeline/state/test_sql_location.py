"""SQL statements on the state exist only in pipeline/state."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PIPELINE = Path(__file__).parents[3] / "pipeline"
_STATEMENT = re.compile(
    r"\s*(SELECT\s.+\sFROM|INSERT\s+(OR\s|INTO)|UPDATE\s.+\sSET|DELETE\s+FROM|CREATE\s+(TABLE|INDEX)|PRAGMA)\b"
)
_CALLS = {"execute", "executemany", "executescript", "cursor"}


def _others() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PIPELINE.rglob("*.py")):
        if PIPELINE / "state" not in path.parents:
            yield path.relative_to(PIPELINE), ast.parse(path.read_text(encoding="utf-8"))


def test_no_module_outside_pipeline_state_executes_sql() -> None:
    wrong = [
        f"{path}:{node.lineno} calls {node.attr}"
        for path, tree in _others()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and (node.attr in _CALLS or node.attr == "db")
    ]
    assert wrong == []


def test_no_module_outside_pipeline_state_contains_sql() -> None:
    wrong = [
        f"{path}:{node.lineno} holds a statement"
        for path, tree in _others()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _STATEMENT.match(node.value)
    ]
    assert wrong == []


def test_no_module_outside_pipeline_state_imports_sqlite() -> None:
    wrong = [
        str(path)
        for path, tree in _others()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and any(one.name == "sqlite3" for one in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "sqlite3")
    ]
    assert wrong == []
