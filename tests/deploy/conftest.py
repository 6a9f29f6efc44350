"""Shared parts of the tests of the examples: the real command line, a small project, scheduler stand-ins."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from medsanitize.policies.model import Policy

from tests.helpers.deploy import BIN
from tests.helpers.hospital import prepare, tree, write_ct


@pytest.fixture
def project(tmp_path: Path) -> Policy:
    for number in range(6):
        write_ct(tmp_path / "export" / f"i{number}.dcm", number, f"P{number % 3}", number % 3)
    return prepare(tmp_path)


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, str]:
    """The release of the same project from one run."""
    base = tmp_path / "whole"
    for number in range(6):
        write_ct(base / "export" / f"i{number}.dcm", number, f"P{number % 3}", number % 3)
    policy = prepare(base)
    command = [BIN / "medsanitize", "run", base / "policy.yaml", "--workers", "1"]
    subprocess.run(command, check=True, capture_output=True, cwd="/")
    return tree(policy.output)
