"""Killed processes, fuzzed messages and a recorded transcript, at real parties: a short run of the benchmark.

The whole one: ``python benchmarks/partner_faults.py OUT``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.party, pytest.mark.slow]
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "partner_faults.py"


def faults(out: Path, kills: int, messages: int) -> subprocess.CompletedProcess[str]:
    counts = ("--kills", str(kills), "--folder-kills", str(kills // 3), "--messages", str(messages))
    command = [sys.executable, str(BENCHMARK), str(out), *counts]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_killed_party_never_makes_a_wrong_verdict(tmp_path: Path) -> None:
    done = faults(tmp_path, kills=6, messages=0)
    assert (done.returncode, "0 found" in done.stdout) == (0, True), done.stdout


def test_fuzzed_messages_neither_crash_nor_hang_the_server(tmp_path: Path) -> None:
    done = faults(tmp_path, kills=0, messages=100)
    assert (done.returncode, "| an honest comparison afterwards | right |" in done.stdout) == (0, True), (
        done.stdout
    )
