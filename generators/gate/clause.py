"""One clause of a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Met = Literal["met", "not met", "not made", "alarm"]


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of the verdict.

    Attributes
    ----------
    name
        What it is about.
    state
        ``not made`` is never as good as ``met``; an ``alarm`` is told and decides nothing.
    sentence
        What was found, with the numbers.
    """

    name: str
    state: Met
    sentence: str
