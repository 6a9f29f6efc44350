"""What a run tells of its progress, and to nobody by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """Hears of stages and counts; never of names or values."""

    def stage(self, name: str, total: int | None) -> None:
        """A stage begins; ``total`` objects are ahead where that is known."""

    def advance(self, objects: int) -> None:
        """So many more objects are done."""

    def finished(self, timing: StageTiming) -> None:
        """A stage of a run is over."""

    def message(self, text: str) -> None:
        """Something the person at the terminal should know."""


class NoProgress:
    """Says nothing."""

    def stage(self, name: str, total: int | None) -> None:
        """Nothing."""

    def advance(self, objects: int) -> None:
        """Nothing."""

    def finished(self, timing: StageTiming) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class StageTiming:
    """One stage: CPU seconds (this process and its workers), wall seconds, objects it handled."""

    name: str
    cpu_seconds: float
    wall_seconds: float
    objects: int
