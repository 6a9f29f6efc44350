"""Exceptions that quarantine or exclude an object; they carry a rule and a location, never a value."""

from __future__ import annotations

from medsanitize.sanitize.result import ReviewItem


class Quarantined(Exception):
    """The object cannot be proved clean and is quarantined.

    Parameters
    ----------
    rule : str
        Rule that applied.
    location : str
        Location at which it applied.
    review_items : tuple of ReviewItem
        Review items from which a person may decide otherwise.
    """

    def __init__(self, rule: str, location: str = "file", review_items: tuple[ReviewItem, ...] = ()) -> None:
        self.rule = rule
        self.location = location
        self.review_items = review_items
        super().__init__(rule, location)


class Excluded(Exception):
    """A rule of the policy excludes the object from the release (outcome ``dropped``)."""

    def __init__(self, rule: str, location: str = "file") -> None:
        self.rule = rule
        self.location = location
        super().__init__(rule, location)


def tag_text(tag: int) -> str:
    """Format a tag as ``(gggg,eeee)``."""
    return f"({tag >> 16:04X},{tag & 0xFFFF:04X})"


def tag_path_text(path: tuple[int, ...]) -> str:
    """Format a tag path as ``(0040,A730)>(0040,A160)``; the empty path, the data set itself, is ``file``."""
    return ">".join(tag_text(tag) for tag in path) or "file"
