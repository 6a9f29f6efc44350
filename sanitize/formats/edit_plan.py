"""What a slide becomes: files made of literal bytes and of runs copied from the source's files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.sanitize.pieces import OutFile

if TYPE_CHECKING:
    from medsanitize.sanitize.formats.tiff.page import OutputPage


@dataclass(frozen=True, slots=True)
class TiffFile(OutFile):
    """A released TIFF; ``pages`` are what its pieces were made from."""

    pages: tuple[OutputPage, ...] = ()


@dataclass(frozen=True, slots=True)
class SlideFacts:
    """What the manifest and the report say of a slide: nothing that came from free text.

    ``mpp`` is micrometres a pixel, ``objective`` the magnification; None where the file does not say.
    ``macros`` are digests of the pictures of the whole glass that stay, of an AFI one a channel (empty where
    none does).
    """

    vendor: str
    levels: tuple[tuple[int, int], ...]
    mpp: float | None = None
    objective: float | None = None
    scanner: str = ""
    stain: str = ""
    macros: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EditPlan:
    """The edit script of one slide, the facts about it, and how often each rule applied.

    ``names`` are (name in the source, name in the release) of further files that people know by name.
    """

    files: tuple[OutFile, ...]
    facts: SlideFacts
    rules: dict[str, int]
    names: tuple[tuple[str, str], ...] = ()
