"""Tasks that worker processes can import."""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.stages.audit import Audited, Target, audit_batch


def double(_: Worker, batch: Sequence[int]) -> list[int]:
    return [2 * number for number in batch]


def die_of_seven(_: Worker, batch: Sequence[int]) -> list[int]:
    if 7 in batch:
        os._exit(3)
    return list(batch)


def die(_: Worker, batch: Sequence[int]) -> list[int]:
    os._exit(len(batch))


def take(_: Worker, batch: Sequence[float]) -> list[float]:
    """Take the seconds that each item states."""
    for seconds in batch:
        time.sleep(seconds)
    return list(batch)


def take_costs(_: Worker, batch: Sequence[tuple[float, float]]) -> int:
    """Take the second of two numbers of each item, its true seconds beside the estimate."""
    for _estimate, seconds in batch:
        time.sleep(seconds)
    return len(batch)


def write_slowly(_: Worker, batch: Sequence[Path]) -> list[int]:
    """Take a while for each item, and record that it was started."""
    return [_write_slowly(path) for path in batch]


def _write_slowly(path: Path) -> int:
    path.touch()
    time.sleep(0.5)
    return 0


def audit_with_a_viewer_that_crashes(worker: Worker, batch: Sequence[Target]) -> list[Audited]:
    """The audit, with a viewer that crashes on Aperio slides as native code does."""
    if any(one.slide is not None and one.slide.stated.vendor == "aperio" for one in batch):
        signal.raise_signal(signal.SIGSEGV)
    return audit_batch(worker, batch)


def kill_the_others(_: Worker, batch: Sequence[int]) -> list[int]:
    """Kill the idle workers: one of them waits on the pipe, the others for its lock."""
    time.sleep(0.5)
    for one in _others():
        os.kill(one, signal.SIGKILL)
    return list(batch)


def _others() -> list[int]:
    """The processes forked from the same parent as this one."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and _parent_of(pid) == os.getppid()]


def _parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def die_in_the_middle_of_an_answer(_: Worker, batch: Sequence[int]) -> list[int]:
    """Be killed with half of the result written, like a worker out of memory."""
    if 7 in batch:
        frame = sys._getframe()
        while "result_queue" not in frame.f_locals:
            assert frame.f_back is not None
            frame = frame.f_back
        answers = frame.f_locals["result_queue"]
        answers._wlock.acquire()
        os.write(answers._writer.fileno(), struct.pack("!i", 1000) + b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    return list(batch)


def ignore_sigterm(told: Connection) -> None:
    """Report readiness, and ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    told.send(True)
    time.sleep(60)
