"""Processes behind a worker pool: only the parent handles stop signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from medsanitize.pipeline.engines.forkserver import fork_context

_POOL_AFTER_A_SIGNAL = """
import os, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver, resource_tracker
from medsanitize.pipeline.engines.forkserver import fork_context

context = fork_context()
helpers = (resource_tracker._resource_tracker._pid, forkserver._forkserver._forkserver_pid)
for pid in helpers:
    os.kill(pid, int(sys.argv[1]))
with ProcessPoolExecutor(1, context) as pool:
    parent = pool.submit(os.getppid).result()
print((resource_tracker._resource_tracker._pid, parent) == helpers)
"""


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "helpers")
    return import_module("engine_tasks")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU])
def test_the_forkserver_survives_a_signal_to_all_processes(number: int) -> None:
    command = [sys.executable, "-c", _POOL_AFTER_A_SIGNAL, str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("True", "")


def test_stop_signals_are_unblocked_after_helpers_have_started() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    fork_context()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_worker_that_ignores_sigterm_is_killed_by_its_pool(tasks: ModuleType) -> None:
    context = fork_context()
    ready, told = context.Pipe(duplex=False)
    worker = context.Process(target=tasks.ignore_sigterm, args=(told,))
    worker.start()
    assert ready.poll(60)
    worker.terminate()
    worker.join(20)
    assert worker.exitcode == -signal.SIGKILL
