"""The register of requirements of PS3.15 Annex E: what each asks, the answer, and the tests that hold it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, cast

Answer = Literal["met", "not applicable", "not met"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement of PS3.15 Annex E.

    Attributes
    ----------
    id : str
        Section and paragraph, with a letter for a further requirement of the same paragraph.
    section : str
    paragraph : int
        Counted within the section of edition 2025e, list items included.
    shalls, shoulds : int
        How many "shall" and "should" of the paragraph it covers; 0 for what binds without these words.
    text : str
        What is required, in our words.
    answer : Answer
    why : str
        How it is met, or why it is not.
    tests : tuple of str
        Node ids of the tests that hold the answer.
    """

    id: str
    section: str
    paragraph: int
    shalls: int
    shoulds: int
    text: str
    answer: Answer
    why: str
    tests: tuple[str, ...]


@cache
def requirements() -> tuple[Requirement, ...]:
    """Return all requirements in the order of the standard."""
    text = (files(__package__) / "requirements.csv").read_text(encoding="utf-8")
    return tuple(
        Requirement(
            row["id"],
            row["section"],
            int(row["paragraph"]),
            int(row["shalls"]),
            int(row["shoulds"]),
            row["requirement"],
            cast(Answer, row["answer"]),
            row["why"],
            tuple(row["tests"].split()),
        )
        for row in csv.DictReader(text.splitlines())
    )
