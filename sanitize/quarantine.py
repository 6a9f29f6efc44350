"""The ways an object is refused or left out: a rule id and a place, never a value."""

from __future__ import annotations

from medsanitize.sanitize.result import ReviewItem


class Quarantined(Exception):
    """The object cannot be proved clean: it goes to quarantine under ``rule`` at ``place``.

    ``doubts`` are what a person may look at to decide otherwise.
    """

    def __init__(self, rule: str, place: str = "file", doubts: tuple[ReviewItem, ...] = ()) -> None:
        self.rule = rule
        self.place = place
        self.doubts = doubts
        super().__init__(rule, place)


class Excluded(Exception):
    """A rule of the policy leaves the object out of the release."""

    def __init__(self, rule: str, place: str = "file") -> None:
        self.rule = rule
        self.place = place
        super().__init__(rule, place)


def tag_text(tag: int) -> str:
    """``(gggg,eeee)`` as the standard writes it."""
    return f"({tag >> 16:04X},{tag & 0xFFFF:04X})"


def tag_path_text(path: tuple[int, ...]) -> str:
    """A tag path as ``(0040,A730)>(0040,A160)``; the data set itself is ``file``."""
    return ">".join(tag_text(tag) for tag in path) or "file"
