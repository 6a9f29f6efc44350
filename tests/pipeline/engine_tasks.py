"""Tasks that worker processes can import."""

from __future__ import annotations

import os
from collections.abc import Sequence

from medsanitize.pipeline.worker import Worker


def double(_: Worker, batch: Sequence[int]) -> list[int]:
    return [2 * number for number in batch]


def die_of_seven(_: Worker, batch: Sequence[int]) -> list[int]:
    if 7 in batch:
        os._exit(3)
    return list(batch)


def die(_: Worker, batch: Sequence[int]) -> list[int]:
    os._exit(len(batch))
