"""Exceptions of the package.

MedsanitizeError
├── UsageError            2  invalid command line or paths
│   ├── PolicyError       2  invalid policy
│   ├── KeyMaterialError  2  missing, weak or exposed key
│   └── UnreadablePicture 2  image of a comparison that cannot be decoded
├── IntegrityError        4  a file does not match its digest, or a state is damaged
└── EnvironmentFailure    5  disk, memory or a store failed; the same command can be retried
    └── FoldersInUse      5  another run uses the same state or output folder

The numbers are exit codes. The docstring of each class is its message template. Messages say what happened
and what to do; they never contain element values of an image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class MedsanitizeError(Exception):
    """{what}. {remedy}."""

    exit_code: ClassVar[int] = 2

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = what.rstrip(".")
        self.remedy = remedy.rstrip(".")
        super().__init__(self.what, self.remedy)

    def __str__(self) -> str:
        # Docstrings are absent under python -OO.
        template = (type(self).__doc__ or "{what}. {remedy}.").strip()
        text = template.format(what=self.what, remedy=self.remedy)
        # Without a remedy the template leaves a second full stop.
        return text.removesuffix(" .") if not self.remedy else text


class UsageError(MedsanitizeError):
    """{what}. {remedy}."""

    exit_code = 2


class KeyMaterialError(UsageError):
    """{what}. {remedy}."""


class UnreadablePicture(UsageError):
    """{what}. {remedy}.

    Attributes
    ----------
    rule : str
        Why the image cannot be read.
    location : str
        Where: ``file``, ``header``, ``pixels`` or ``slide``.
    """

    def __init__(self, rule: str, location: str = "file") -> None:
        self.rule = rule
        self.location = location
        super().__init__(f"An image cannot be read ({location}: {rule})", "Exclude it, or replace the file")

    def __str__(self) -> str:
        return f"{self.what}. {self.remedy}."

    def __reduce__(self) -> tuple[type[UnreadablePicture], tuple[str, str]]:
        """Pickle ``rule`` and ``location``, which are not the arguments that Exception pickles."""
        return type(self), (self.rule, self.location)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem of a policy: position (1-based), what is wrong, and what to write instead."""

    line: int
    column: int
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.message}. {self.remedy}."


class PolicyError(UsageError):
    """{what}. {remedy}."""

    def __init__(self, what: str, problems: tuple[Problem, ...]) -> None:
        # In the order of the text.
        self.problems = tuple(sorted(problems))
        super().__init__(what, "Correct the lines named below")

    def __str__(self) -> str:
        return "\n".join([f"{self.what}:", *(f"  {problem}" for problem in self.problems)])


class IntegrityError(MedsanitizeError):
    """{what}. {remedy}."""

    exit_code = 4


class ModelRefused(MedsanitizeError):
    """{what}. {remedy}."""

    exit_code = 3


class EnvironmentFailure(MedsanitizeError):
    """{what}. {remedy}."""

    exit_code = 5


class FoldersInUse(EnvironmentFailure):
    """{what}. {remedy}."""
