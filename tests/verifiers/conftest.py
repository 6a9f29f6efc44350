"""Fixtures of the audit's tests."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.helpers import released_object


@pytest.fixture(scope="session")
def made() -> ModuleType:
    """The module that makes clean released objects."""
    return released_object
