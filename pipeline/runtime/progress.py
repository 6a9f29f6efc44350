"""The progress protocol; the default implementation discards everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """Receives stages and counts of a run, never names or values."""

    def stage(self, name: str, total: int | None) -> None:
        """Start a stage; ``total`` is the number of objects ahead, if known."""

    def advance(self, objects: int) -> None:
        """Count further objects as done."""

    def finished(self, timing: StageTiming) -> None:
        """End a stage."""

    def message(self, text: str) -> None:
        """Show a message to the user."""


class NoProgress:
    """Discards all progress."""

    def stage(self, name: str, total: int | None) -> None:
        """Do nothing."""

    def advance(self, objects: int) -> None:
        """Do nothing."""

    def finished(self, timing: StageTiming) -> None:
        """Do nothing."""

    def message(self, text: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class StageTiming:
    """One stage: CPU seconds (this process and its workers), wall seconds, number of objects."""

    name: str
    cpu_seconds: float
    wall_seconds: float
    objects: int
