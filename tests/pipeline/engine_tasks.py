"""Tasks that worker processes can import."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from medsanitize.pipeline.audit_stage import Audited, Target, audit_batch
from medsanitize.pipeline.worker import Worker


def double(_: Worker, batch: Sequence[int]) -> list[int]:
    return [2 * number for number in batch]


def die_of_seven(_: Worker, batch: Sequence[int]) -> list[int]:
    if 7 in batch:
        os._exit(3)
    return list(batch)


def die(_: Worker, batch: Sequence[int]) -> list[int]:
    os._exit(len(batch))


def linger(_: Worker, batch: Sequence[Path]) -> list[int]:
    """Take a while over each item, and note that it was begun."""
    return [_linger(path) for path in batch]


def _linger(path: Path) -> int:
    path.touch()
    time.sleep(0.5)
    return 0


def audit_with_a_viewer_that_crashes(worker: Worker, batch: Sequence[Target]) -> list[Audited]:
    """The audit, with a viewer that dies of Aperio's slides as native code does."""
    if any(one.slide is not None and one.slide.stated.vendor == "aperio" for one in batch):
        signal.raise_signal(signal.SIGSEGV)
    return audit_batch(worker, batch)
