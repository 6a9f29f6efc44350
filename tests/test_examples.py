"""The example notebooks: stored without outputs, and executed cell by cell."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_outputs(notebook: Path) -> None:
    assert [cell for cell in code_cells(notebook) if cell["outputs"] or cell["execution_count"]] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scope: dict[str, Any] = {}
    for number, cell in enumerate(code_cells(notebook)):
        exec(compile("".join(cell["source"]), f"{notebook.name}, code cell {number}", "exec"), scope)  # noqa: S102
