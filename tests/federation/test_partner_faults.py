"""Killed processes, fuzzed messages and a recorded transcript, at real parties: short runs of the benchmarks.

The whole ones: ``python benchmarks/partner_faults.py OUT`` and ``python benchmarks/near_faults.py OUT``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.party, pytest.mark.verify, pytest.mark.slow]
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def faults(benchmark: str, out: Path, **counts: object) -> subprocess.CompletedProcess[str]:
    given = [text for name, value in counts.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, str(BENCHMARKS / benchmark), str(out), *given]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_killed_party_never_makes_a_wrong_verdict(tmp_path: Path) -> None:
    done = faults("partner_faults.py", tmp_path, kills=6, folder_kills=2, messages=0)
    assert (done.returncode, "0 found" in done.stdout) == (0, True), done.stdout


def test_fuzzed_messages_neither_crash_nor_hang_the_server(tmp_path: Path) -> None:
    done = faults("partner_faults.py", tmp_path, kills=0, folder_kills=0, messages=100)
    assert (done.returncode, "| an honest comparison afterwards | right |" in done.stdout) == (0, True), (
        done.stdout
    )


@linux
def test_a_killed_party_or_library_of_a_near_comparison_leaves_nothing_behind(
    tmp_path: Path, near_library: Path
) -> None:
    done = faults("near_faults.py", tmp_path, kills=8, again=4, messages=0, library=near_library)
    assert (done.returncode, "Left behind: nothing" in done.stdout) == (0, True), done.stdout


@linux
def test_fuzzed_messages_of_a_near_comparison_neither_crash_nor_hang_a_party(
    tmp_path: Path, near_library: Path
) -> None:
    done = faults("near_faults.py", tmp_path, kills=0, messages=60, library=near_library)
    assert (done.returncode, "an honest comparison afterwards: right" in done.stdout) == (0, True), (
        done.stdout
    )
