"""The workflows of the public host are valid, pin the actions that they use and persist no credential."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WORKFLOWS = Path(__file__).parents[1] / ".github" / "workflows"


@pytest.mark.skipif(not WORKFLOWS.is_dir(), reason="a source distribution has no workflows")
def test_the_workflows_follow_the_schema_of_the_host() -> None:
    pytest.importorskip("check_jsonschema", reason="needs the extra test")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]

    done = subprocess.run([*command, *sorted(WORKFLOWS.glob("*.yml"))], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not WORKFLOWS.is_dir(), reason="a source distribution has no workflows")
def test_the_workflows_pin_actions_and_persist_no_credential() -> None:
    tool = Path(sys.executable).with_name("zizmor")
    if not tool.exists():
        pytest.skip("needs the extra test")

    done = subprocess.run([tool, "--offline", "--no-progress", WORKFLOWS], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout
