"""The process of a library ends with its parent, and why one does not start is told apart."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from medsanitize.errors import UsageError
from medsanitize.federation.libraries.process import LibraryFailed, open_library

MISSING = UsageError("The library is not installed", "Install it")
# A party that asks its library for something endless.
PARTY = """
import sys
from pathlib import Path
from medsanitize.errors import UsageError
from medsanitize.federation.libraries.process import open_library
folder = Path(sys.argv[1])
with open_library(folder, "library", folder / "steps.py", missing=UsageError("", "")) as library:
    print(library.child.process.pid, flush=True)
    library.call("wait", {"told": str(folder / "told")}, [], seconds=600, returned=0)
"""


def library(folder: Path, steps: str) -> Path:
    (folder / "library").mkdir()
    (folder / "steps.py").write_text(f"import os, signal, time\ndef steps():\n    {steps}\n")
    return folder


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def is_running(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_library_ends_with_the_party_that_was_killed(tmp_path: Path) -> None:
    waits = "lambda facts, parts: (open(facts['told'], 'x').close(), time.sleep(600))"
    folder = library(tmp_path, f"return {{'wait': {waits}}}")
    command = [sys.executable, "-c", PARTY, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as party:
        assert party.stdout is not None
        child = int(party.stdout.readline())
        assert within(20, (folder / "told").exists)
        party.kill()
    assert within(20, lambda: not is_running(child))


def test_a_library_that_is_killed_while_it_starts_is_not_called_missing(tmp_path: Path) -> None:
    folder = library(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(LibraryFailed), open_library(folder, "library", folder / "steps.py", missing=MISSING):
        pass


def test_a_library_that_does_not_load_is_called_missing(tmp_path: Path) -> None:
    folder = library(tmp_path, "raise ImportError")
    with pytest.raises(UsageError), open_library(folder, "library", folder / "steps.py", missing=MISSING):
        pass


def test_a_library_that_never_starts_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medsanitize.federation.libraries import process

    monkeypatch.setattr(process, "_START_SECONDS", 0.5)
    folder = library(tmp_path, "time.sleep(600)")
    with pytest.raises(LibraryFailed), open_library(folder, "library", folder / "steps.py", missing=MISSING):
        pass
