"""Edit plans of slides: released files made of literal bytes and of ranges copied from the source files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.sanitize.pieces import OutFile

if TYPE_CHECKING:
    from medsanitize.sanitize.formats.tiff.page import OutputPage


@dataclass(frozen=True, slots=True)
class TiffFile(OutFile):
    """A released TIFF, with the pages that its pieces were made from."""

    pages: tuple[OutputPage, ...] = ()


@dataclass(frozen=True, slots=True)
class SlideFacts:
    """Facts about a slide for manifest and report. No free text.

    Attributes
    ----------
    vendor : str
        Vendor of the file format.
    levels : tuple of (int, int)
        Size of each pyramid level, in pixels.
    mpp : float or None
        Resolution in micrometers per pixel; None if the file does not state it.
    objective : float or None
        Magnification; None if the file does not state it.
    scanner, stain : str
        Empty if not known.
    macros : tuple of str
        Digests of the macro images that are kept; one per channel for AFI.
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
    """The files to write for one slide, its facts, and the number of applications of each rule.

    ``names`` are pairs (name in the source, name in the release) of further files that users know.
    """

    files: tuple[OutFile, ...]
    facts: SlideFacts
    rules: dict[str, int]
    names: tuple[tuple[str, str], ...] = ()
