"""What is blanked in the frames of one object: by the policy, and by the decisions of its review."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.rendering import Picture
from medsanitize.sanitize.context import ReviewDecision
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from medsanitize.sanitize.quarantine import Quarantined

Confirm = Callable[[TextBox, Picture], bool]
"""Whether a second reader reads the same in a rendering."""

Judge = Callable[[tuple[TextBox, ...]], tuple[TextBox, ...]]
"""Returns those of the lines of one rendering that identify a person."""

FrameAreas = Mapping[int, tuple[Area, ...]]
"""Index of a frame -> areas in it."""

_LOCATION = re.compile(r"pixels(?:/frame (\d{1,9})(?:/box (\d{1,9}),(\d{1,9}),(\d{1,9}),(\d{1,9}))?)?")


@dataclass(frozen=True, slots=True)
class CleaningOptions:
    """What to blank.

    Attributes
    ----------
    judge : Judge
        Selects identifying lines.
    everything : bool
        Blank all text.
    fixed : tuple of Area
        Areas to blank in every frame, regardless of their content.
    decisions : tuple of ReviewDecision
        Decisions of the review on this object.
    confirms : callable, optional
        A line that it does not confirm counts as unread.
    found : dict
        Areas to blank in single frames, with their margins.
    """

    judge: Judge
    everything: bool = False
    fixed: tuple[Area, ...] = ()
    decisions: tuple[ReviewDecision, ...] = ()
    confirms: Confirm | None = None
    found: FrameAreas = field(default_factory=dict)


def split_decisions(
    decisions: Sequence[ReviewDecision],
) -> tuple[tuple[Area, ...], dict[int, list[Area]], bool]:
    """Split decisions into areas to keep, areas to blank by frame, and whether to blank all text."""
    kept: list[Area] = []
    added: dict[int, list[Area]] = {}
    everything = False
    for decision in decisions:
        found = _LOCATION.fullmatch(decision.location)
        if found is None:
            continue
        if decision.verdict == "quarantine":
            raise Quarantined("refused-in-review", "pixels")
        frame, *bounds = found.groups()
        if bounds[0] is None:
            everything = everything or decision.verdict == "blank"
            continue
        area = (int(bounds[0]), int(bounds[1]), int(bounds[2]), int(bounds[3]))
        if decision.verdict == "keep":
            kept.append(area)
        else:
            added.setdefault(int(frame) - 1, []).append(area)
    return tuple(kept), added, everything
