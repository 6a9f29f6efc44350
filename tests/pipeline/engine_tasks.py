"""Tasks that worker processes can import."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

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


def audit_with_a_viewer_that_crashes(worker: Worker, batch: Sequence[Target]) -> list[Audited]:
    """The audit, with a viewer that dies of Aperio's slides as native code does."""
    if any(one.slide is not None and one.slide.stated.vendor == "aperio" for one in batch):
        signal.raise_signal(signal.SIGSEGV)
    return audit_batch(worker, batch)
