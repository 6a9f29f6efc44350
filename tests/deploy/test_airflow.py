"""The Airflow DAG: read with stand-ins for Airflow, its tasks with the real command."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from medsanitize.pipeline.state.shards import Shard
from medsanitize.policies.model import Policy

from tests.helpers.deploy import BIN, DEPLOY, parse, write_fake_command
from tests.helpers.hospital import tree


class FailedForGood(Exception):
    """Stands for AirflowFailException."""


class MayBeRepeated(Exception):
    """Stands for AirflowException."""


class Task:
    """Replaces an Airflow task: records the calls of a DAG and runs nothing."""

    calls: list[tuple[str, list[str]]]
    order: list[str]

    def __init__(self, function: Any, task_id: str = "") -> None:
        self.function, self.task_id = function, task_id

    def override(self, task_id: str) -> Task:
        return Task(self.function, task_id)

    def __call__(self, options: list[str]) -> Task:
        Task.calls.append((self.task_id, options))
        return self

    def expand(self, options: list[list[str]]) -> Task:
        Task.calls += [(self.task_id, one) for one in options]
        return self

    def __rshift__(self, later: Task) -> Task:
        Task.order += [self.task_id, later.task_id]
        return later


@pytest.fixture
def dag(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example, imported with stand-ins for Airflow; the calls of its DAG are in ``Task``."""
    names = ("airflow", "airflow.sdk", "airflow.sdk.exceptions")
    airflow, sdk, exceptions = (ModuleType(name) for name in names)
    vars(sdk).update(task=lambda **_: Task, dag=lambda **_: lambda function: function)
    vars(exceptions).update(AirflowException=MayBeRepeated, AirflowFailException=FailedForGood)
    for name, module in zip(names, (airflow, sdk, exceptions), strict=True):
        monkeypatch.setitem(sys.modules, name, module)
    Task.calls, Task.order = [], []
    module = ModuleType("medsanitize_release")
    path = DEPLOY / "airflow" / "medsanitize_release.py"
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), vars(module))  # noqa: S102
    return module


def test_the_dag_runs_inventory_shards_and_publication_in_order(dag: ModuleType) -> None:
    shards = [Shard.parse(options[1]) for task, options in Task.calls if task == "shard"]
    assert shards == [Shard(number, dag.SHARDS) for number in range(1, dag.SHARDS + 1)]
    assert Task.order == ["inventory", "shard", "shard", "publish"]
    for _, options in Task.calls:
        assert parse(["run", dag.POLICY, *options])["policy"] == Path(dag.POLICY)


def test_the_tasks_of_the_dag_make_the_release_of_one_run(
    dag: ModuleType, project: Policy, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    dag.POLICY = str(project.output.parent / "policy.yaml")
    done = [dag.medsanitize.function(options) for options in (["--inventory-only"], ["--shard", "1/1"], [])]
    assert [facts["ending"] for facts in done] == ["inventory_done", "shard_done", "published"]
    assert tree(project.output) == whole


@pytest.mark.parametrize(("code", "error"), [(5, MayBeRepeated), (3, FailedForGood)])
def test_a_task_is_retried_only_for_retryable_exit_codes(
    dag: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, error: type[Exception]
) -> None:
    facts = {"ending": "failed", "error": {"message": "why"}, "may_be_repeated": code == 5}
    write_fake_command(tmp_path / "bin", "medsanitize", f"echo '{json.dumps(facts)}' > $5; exit {code}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(error, match="failed: why"):
        dag.medsanitize.function([])


def test_a_task_without_an_exit_report_is_retried(
    dag: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fake_command(tmp_path / "bin", "medsanitize", "kill -9 $$")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert shutil.which("medsanitize")
    with pytest.raises(MayBeRepeated, match="-9"):
        dag.medsanitize.function([])
