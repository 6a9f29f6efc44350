"""The language model is loaded without libraries that it does not need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from medsanitize.sanitize.text.ner import _is_of_torch, model_folder

pytest.importorskip("presidio_analyzer")
pytest.importorskip("torch")

_ASK = """
import sys
from medsanitize.sanitize.text.ner import EntityFinder
found = EntityFinder("en_core_web_sm")("Seen by Margaret Thompson in Boston")
assert found, "no name was found"
assert "torch" not in sys.modules
import torch
print(torch.zeros(1).item())
"""


def test_names_are_found_without_torch_which_can_be_imported_later(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ASK], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0.0"), done.stderr[-500:]


def test_the_packaged_model_needs_no_torch() -> None:
    folder = model_folder("en_core_web_sm")
    assert folder is not None
    assert not _is_of_torch(folder)


@pytest.mark.parametrize("meta", [{"pipeline": ["transformer", "ner"]}, {"requirements": ["torch>=2"]}, []])
def test_a_model_that_may_need_torch_gets_it(meta: object, tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    assert _is_of_torch(tmp_path)


def test_a_folder_of_transformers_gets_torch(tmp_path: Path) -> None:
    assert _is_of_torch(tmp_path)
