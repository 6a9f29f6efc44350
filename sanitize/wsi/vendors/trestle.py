"""Trestle: TIFF whose Software is MedScan, with overlaps and magnification in every description.

The macro image is a separate file with the suffix ``.Full`` in the same folder; it is not released.
"""

from __future__ import annotations

import re

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import DESCRIPTION, PyramidTiff
from medsanitize.sanitize.formats.tiff.writer import ascii_value, tiff_file
from medsanitize.sanitize.formats.tiff_directory import Directory
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiff_pages import copy_page, read_shape

NAME = "trestle"
_SOFTWARE = 305
_KEPT_KEYS = {
    "Background Color": re.compile(r"[0-9A-Fa-f]{6}"),
    "White Balance": re.compile(r"\d{1,3}"),
    "Objective Power": re.compile(r"\d{1,3}(\.\d{1,2})?"),
    "JPEG Quality": re.compile(r"\d{1,3}"),
    "OverlapsXY": re.compile(r"(?: ?\d{1,5}){1,64}"),
}


def recognizes(view: SlideView) -> bool:
    """Return whether Software begins with ``MedScan``."""
    return view.said(_SOFTWARE).startswith("MedScan")


def plan_edits(view: SlideView, rules: WholeSlides, _name: SlideName) -> EditPlan:
    """Plan the released slide: the tiled pages, each with the numbers that geometry and magnification need.

    Raises
    ------
    Quarantined
        ``slide-without-levels``, or the structure is inconsistent.
    """
    tiff = view.tiff
    cleaner = view.cleaner(rules)
    pages: list[OutputPage] = []
    levels: list[tuple[int, int]] = []
    for directory in tiff.directories:
        shape = read_shape(tiff, directory)
        if not shape.tiled:
            continue
        also = {_SOFTWARE: ascii_value("MedScan"), DESCRIPTION: ascii_value(_description(tiff, directory))}
        pages.append(copy_page(tiff, directory, cleaner, also=also))
        levels.append((shape.width, shape.height))
    if not pages:
        raise Quarantined("slide-without-levels", "structure")
    counts = {"C:slide-description": len(pages)}
    left = len(tiff.directories) - len(pages) + len(view.files) - 1
    if left:
        counts["X:slide-picture"] = left
    power = _pairs(tiff, tiff.directories[0]).get("Objective Power")
    facts = SlideFacts(NAME, tuple(levels), None, float(power) if power else None)
    return EditPlan((tiff_file(".tif", tiff.dialect, pages),), facts, counts | cleaner.rules)


def _pairs(tiff: PyramidTiff, directory: Directory) -> dict[str, str]:
    """Return the allowed keys of a description whose values have the expected form."""
    parts = (part.split("=", 1) for part in tiff.text(directory, DESCRIPTION).split(";") if "=" in part)
    given = {key.strip(): value.rstrip() for key, value in parts}
    return {key: given[key] for key, form in _KEPT_KEYS.items() if form.fullmatch(given.get(key, ""))}


def _description(tiff: PyramidTiff, directory: Directory) -> str:
    return ";".join(f"{key}={value}" for key, value in _pairs(tiff, directory).items())
