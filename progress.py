"""Progress and cancellation of long work, as every package of the project reports and checks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """Receives stages and counts, never names or values."""

    def stage(self, name: str, total: int | None) -> None:
        """Start a stage; ``total`` is the number of objects or steps ahead, if known."""

    def advance(self, objects: int) -> None:
        """Count further objects or steps as done."""

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


class Cancelled(Exception):
    """A signal cancelled a command; work stored so far is kept."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.remedy = "Give the same command again: it goes on where it can"
        super().__init__(number)

    def __str__(self) -> str:
        return f"Stopped on request. {self.remedy}"


class Cancellation:
    """Number of the signal that arrived, or 0; ``check`` raises where nothing is half done."""

    def __init__(self) -> None:
        self.number = 0

    def check(self) -> None:
        """Raise ``Cancelled`` if a signal arrived."""
        if self.number:
            raise Cancelled(self.number)
