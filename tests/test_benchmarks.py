"""Benchmarks report only what they measured."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def scaling(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark, with runs that end immediately."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("scaling", "common", "files"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return import_module("scaling")


def test_a_run_that_ends_before_the_kill_is_not_recorded_as_killed(
    scaling: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = {"outcomes": {"released": 9}, "stages": []}
    ended = scaling.Spent(wall=1.0, cpu=1.0, reached=0.0, peak=1, killed=False, result=done)
    monkeypatch.setattr(scaling, "spend", lambda *_, **__: ended)

    with pytest.raises(SystemExit, match="before it could be killed"):
        scaling.one_run(tmp_path, tmp_path, 9, 1, kill=True)


def test_a_process_that_ends_by_itself_is_not_killed(
    scaling: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal arrives too late."""
    monkeypatch.setattr(scaling.sys, "executable", "/bin/echo")
    monkeypatch.setattr(scaling.json, "loads", lambda _: {})

    spent = scaling.spend(tmp_path / "policy.yaml", 1, lambda: True, kill=True)

    assert not spent.killed


@pytest.mark.parametrize(("sizes", "made"), [((1000, 10_000, 100_000), 0), ((100_000, 1_000_000), 1)])
def test_memory_is_compared_above_a_hundred_thousand_objects(
    scaling: ModuleType, sizes: tuple[int, ...], made: int
) -> None:
    figures = [scaling.Figures(size, 1, False, 1.0, 1.0, size, 1, 1, -1, 0.0, 0, {}, 0.0) for size in sizes]

    said = scaling.verdicts(figures)

    assert [kept for told, kept in said if told.startswith("Memory")] == [False] * made


def test_a_resumed_run_without_observed_work_is_not_recorded_as_free(
    scaling: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = {"outcomes": {"released": 9}, "stages": []}
    killed = scaling.Spent(wall=1.0, cpu=1.0, reached=1.0, peak=1, killed=True, result={})
    spent = iter([killed, scaling.Spent(wall=1.0, cpu=1.0, reached=0.0, peak=1, killed=False, result=done)])
    monkeypatch.setattr(scaling, "spend", lambda *_, **__: next(spent))

    with pytest.raises(SystemExit, match="seen at work"):
        scaling.one_run(tmp_path, tmp_path, 9, 1, kill=True)


@pytest.mark.parametrize(
    ("cpu", "until", "again", "kept"),
    [(104.0, 4.0, 0, True), (104.0, 6.0, 0, False), (104.0, 0.0, 700, False), (106.0, 4.0, 0, False)],
)
def test_a_resumed_run_is_compared_with_a_whole_one_and_by_repeated_work(
    scaling: ModuleType, cpu: float, until: float, again: int, kept: bool
) -> None:
    whole = scaling.Figures(10_000, 1, False, 1.0, 100.0, 1, 1, 1, -1, 0.0, 0, {}, 0.0)
    killed = scaling.Figures(10_000, 1, True, 1.0, cpu, 1, 1, 1, again, until, 5_000, {"sanitize": 40.0}, 0.0)

    said = scaling.verdicts([whole, killed])

    assert [one for told, one in said if told.startswith("A kill")] == [kept]
