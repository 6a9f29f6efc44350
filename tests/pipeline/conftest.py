"""A small hospital export made from pydicom's test files, and policies for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from medsanitize.policies.model import Policy

from tests.helpers.hospital import make_export, prepare


@pytest.fixture(scope="session")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export, made once; tests link to it and never write to it."""
    return make_export(tmp_path_factory.mktemp("hospital") / "export")


@pytest.fixture
def workplace(tmp_path: Path, export: Path) -> Callable[..., Policy]:
    """Make a policy in its own folder on a private copy of the export."""

    def make(name: str = "w", **sections: str) -> Policy:
        base = tmp_path / name
        if not (base / "export").exists():
            shutil.copytree(export, base / "export")
            os.utime(base / "export")
        return prepare(base, **sections)

    return make
