"""Generic pyramidal TIFF: tiled pages that are reductions of the first one, without a description."""

from __future__ import annotations

import struct

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import PyramidTiff, looks_like_tiff
from medsanitize.sanitize.formats.tiff.writer import tiff_file
from medsanitize.sanitize.formats.tiff_directory import Directory
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiff_pages import copy_page, is_reduction, read_shape

NAME = "generic-tiff"
_MICROMETERS = {2: 25400.0, 3: 10000.0}
"""Micrometers per ResolutionUnit (tag 296): inch, centimeter."""


def recognizes(view: SlideView) -> bool:
    """Return whether the file is a TIFF whose first page is tiled; to be tried after all vendors."""
    return looks_like_tiff(view.data) and read_shape(*_first(view)).tiled


def plan_edits(view: SlideView, rules: WholeSlides, _name: SlideName) -> EditPlan:
    """Plan the released slide: the tiled pages with the tags that decoding needs, and their resolution.

    Raises
    ------
    Quarantined
        ``slide-without-levels``, or the structure is inconsistent.
    """
    return plan_pyramid(view, rules, NAME)


def plan_pyramid(view: SlideView, rules: WholeSlides, vendor: str) -> EditPlan:
    """Plan the released slide: the tiled pages that are reductions of the first one.

    Parameters
    ----------
    view : SlideView
    rules : WholeSlides
        The policy's section ``wsi``.
    vendor : str
        Name of the format in the manifest.

    Raises
    ------
    Quarantined
        ``slide-without-levels``, or the structure is inconsistent.
    """
    tiff = view.tiff
    cleaner = view.cleaner(rules)
    base = read_shape(tiff, tiff.directories[0])
    if not base.tiled:
        raise Quarantined("slide-without-levels", "structure")
    pages: list[OutputPage] = []
    levels: list[tuple[int, int]] = []
    for directory in tiff.directories:
        shape = read_shape(tiff, directory)
        if shape.tiled and is_reduction(shape, base):
            pages.append(copy_page(tiff, directory, cleaner))
            levels.append((shape.width, shape.height))
    left = len(tiff.directories) - len(pages)
    counts = {"X:slide-picture": left} if left else {}
    facts = SlideFacts(vendor, tuple(levels), read_mpp(tiff, tiff.directories[0]))
    return EditPlan((tiff_file(".tif", tiff.dialect, pages),), facts, counts | cleaner.rules)


def read_mpp(tiff: PyramidTiff, directory: Directory) -> float | None:
    """Return micrometers per pixel from XResolution, None if it is absent or has no unit."""
    field = directory.fields.get(282)
    # TIFF 6.0: without the tag, the unit is the inch.
    unit = _MICROMETERS.get(tiff.number(directory, 296, 2) or 0)
    if field is None or (field.type, field.count) != (5, 1) or unit is None:
        return None
    over, under = struct.unpack(tiff.dialect.order + "II", tiff.raw(field))
    return unit * under / over if over and under else None


def _first(view: SlideView) -> tuple[PyramidTiff, Directory]:
    tiff = view.tiff
    return tiff, tiff.directories[0]
