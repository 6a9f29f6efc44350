"""Fixtures of the audit's tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def made() -> ModuleType:
    """The maker of clean released objects, beside this file."""
    spec = importlib.util.spec_from_file_location("released", Path(__file__).with_name("released.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
