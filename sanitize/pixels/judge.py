"""Which of the lines found in a frame identify somebody."""

from __future__ import annotations

from typing import Protocol, TypeVar

from medsanitize.sanitize.pixels.boxes import TextBox
from medsanitize.sanitize.pixels.ocr import Frame, TextReader

Terms = TypeVar("Terms", contravariant=True)


class Cleaner(Protocol[Terms]):
    """What tells identifying text from other text; `TextCleaner` is one."""

    def identifying(self, text: str, terms: Terms, *, noisy: bool) -> bool:
        """Whether ``text`` identifies somebody; ``noisy`` when it was read by machine."""


def identifying(boxes: tuple[TextBox, ...], cleaner: Cleaner[Terms], terms: Terms) -> tuple[TextBox, ...]:
    """The boxes that identify somebody, each line judged alone and with what belongs to it.

    Parameters
    ----------
    boxes : tuple of TextBox
        All that was found in one frame.
    cleaner : Cleaner
    terms
        What is known of the patient, the study and the run.

    Returns
    -------
    tuple of TextBox
        Those to blank, in the order given, with their bounds as found (`grow` says what to blank).
    """
    return tuple(box for box in boxes if cleaner.identifying(box.text, terms, noisy=True))


def remaining(reader: TextReader, frame: Frame, cleaner: Cleaner[Terms], terms: Terms) -> tuple[TextBox, ...]:
    """What still identifies in a frame after blanking: empty when the blanking is proved."""
    return identifying(reader.read(frame), cleaner, terms)
