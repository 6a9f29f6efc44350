"""The final console output of a run."""

from __future__ import annotations

import pytest
from medsanitize.pipeline.reporting.console import show_result
from medsanitize.pipeline.runtime.result import RunResult

OUTCOMES = {"released": 12, "dropped": 1, "quarantined": 0}


@pytest.mark.parametrize("ending", ["published", "already_published", "shard_done"])
def test_released_objects_are_reported_as_released(ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_result(RunResult(ending, 13, OUTCOMES))
    assert "13 objects: 12 released, 1 dropped, 0 quarantined" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["refused", "awaiting_approval", "planned"])
def test_unreleased_objects_are_not_reported_as_released(
    ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_result(RunResult(ending, 13, OUTCOMES))
    assert "13 objects: 12 fit for release, 1 dropped, 0 quarantined" in capsys.readouterr().out
