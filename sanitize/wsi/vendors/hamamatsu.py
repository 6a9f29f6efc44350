"""Hamamatsu NDPI: one JPEG per page with an index of its restart markers; macro and map have a negative lens.

OpenSlide takes a page for a level if its lens (tag 65421) is positive, and reads the index of restart markers
(tags 65426 and 65432), whose positions move when segments of the JPEG header are removed.
"""

from __future__ import annotations

import struct

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.tiff.page import FieldValue, OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import NDPI_FLAG, PyramidTiff, looks_like_tiff
from medsanitize.sanitize.formats.tiff.writer import ascii_value, integer_values, tiff_file
from medsanitize.sanitize.formats.tiff_directory import LONG, Directory
from medsanitize.sanitize.pieces import Copy, Piece
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.macro import keep_macro, macro_page
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiff_pages import copy_page, read_shape
from medsanitize.sanitize.wsi.tiles import TileCleaner

NAME = "hamamatsu"
_LENS, _STARTS, _STARTS_HIGH, _MODEL = 65421, 65426, 65432, 272
_POSITION_TAGS = (65422, 65423, 65424)
_FLOAT, _SLONG = 11, 9
# The map, which shows where was scanned, has -2.
_MACRO = -1.0
_MODELS = ("NanoZoomer", "C9600-12", "C10730-12", "C12740", "C13210", "C13220", "C13239-01", "C16300")
_COUNT = "C:slide-description"


def recognizes(view: SlideView) -> bool:
    """Return whether the TIFF is of the NDPI variant."""
    return looks_like_tiff(view.data) and view.tiff.dialect.kind == "ndpi"


def plan_edits(view: SlideView, rules: WholeSlides, _name: SlideName) -> EditPlan:
    """Plan the released slide: the levels with lens, position and restart index, without texts.

    Raises
    ------
    Quarantined
        ``slide-without-levels``; the structure is inconsistent; for the macro, see
        `medsanitize.sanitize.wsi.macro.keep_macro`.
    """
    tiff = view.tiff
    cleaner = view.cleaner(rules)
    pages: list[OutputPage] = []
    levels: list[tuple[int, int]] = []
    lenses: list[float] = []
    counts: dict[str, int] = {}
    macros: list[Directory] = []
    for directory in tiff.directories:
        power = _lens(tiff, directory)
        if power == _MACRO:
            macros.append(directory)
        if power is None or power <= 0:
            counts["X:slide-picture"] = counts.get("X:slide-picture", 0) + 1
            continue
        pages.append(_page(tiff, directory, cleaner, rules))
        shape = read_shape(tiff, directory)
        levels.append((shape.width, shape.height))
        lenses.append(power)
    if not pages:
        raise Quarantined("slide-without-levels", "structure")
    counts[_COUNT] = len(pages)
    macro = keep_macro(tiff, macros, rules, levels, counts)
    if macro is not None:
        lens = FieldValue(_FLOAT, 1, struct.pack("<f", _MACRO))
        marks = {NDPI_FLAG: integer_values(tiff.dialect, LONG, [1]), _LENS: lens}
        pages.append(macro_page(tiff.dialect, macro, marks))
    said = (_mpp(tiff, tiff.directories[0]), max(lenses))
    kept = (macro.digest,) if macro else ()
    # Focal planes repeat the size of their level.
    facts = SlideFacts(NAME, tuple(dict.fromkeys(levels)), *said, macros=kept)
    return EditPlan((tiff_file(".ndpi", tiff.dialect, pages),), facts, counts | cleaner.rules)


def _lens(tiff: PyramidTiff, directory: Directory) -> float | None:
    field = directory.fields.get(_LENS)
    if field is None or (field.type, field.count) != (_FLOAT, 1):
        return None
    # NDPI is always little-endian.
    value: float = struct.unpack("<f", tiff.raw(field))[0]
    return value


def _page(tiff: PyramidTiff, directory: Directory, cleaner: TileCleaner, rules: WholeSlides) -> OutputPage:
    also = {NDPI_FLAG: integer_values(tiff.dialect, LONG, [1])}
    for tag in (_LENS, *_POSITION_TAGS):
        field = directory.fields.get(tag)
        if field is not None and field.count == 1 and field.type in (_FLOAT, _SLONG):
            also[tag] = FieldValue(field.type, 1, tiff.raw(field))
    model = tiff.text(directory, _MODEL)
    if rules.scanner == "model" and model in _MODELS:
        also[_MODEL] = ascii_value(model)
    page = copy_page(tiff, directory, cleaner, also=also)
    # The restart index is relative to the one strip that holds the page's JPEG.
    if len(page.segments) != 1:
        raise Quarantined("tiff-structure", "structure")
    page.values.update(_starts(tiff, directory, page.segments[0]))
    return page


def _starts(tiff: PyramidTiff, directory: Directory, strip: tuple[Piece, ...]) -> dict[int, FieldValue]:
    """Return the index of restart markers, moved by what was removed before the image data.

    An index that is inconsistent is left out: readers then search the markers themselves.
    """
    import numpy as np

    low, high = (tiff.numbers(directory, tag) for tag in (_STARTS, _STARTS_HIGH))
    copies = [piece for piece in strip if isinstance(piece, Copy)]
    if not len(low) or len(copies) != len(strip) or (len(high) and len(high) != len(low)):
        return {}
    places = low + (high << np.uint64(32) if len(high) else np.uint64(0))
    cut = copies[-1].offset - copies[0].offset - sum(copy.length for copy in copies[:-1])
    size = sum(copy.length for copy in copies)
    if (
        int(places[0]) < cut
        or int(places[-1]) - cut >= size
        or not bool((np.diff(places.astype(np.int64)) > 0).all())
    ):
        return {}
    moved = places - np.uint64(cut)
    found = {_STARTS: FieldValue(LONG, len(moved), (moved & np.uint64(0xFFFFFFFF)).astype("<u4").tobytes())}
    if len(high):
        found[_STARTS_HIGH] = FieldValue(LONG, len(moved), (moved >> np.uint64(32)).astype("<u4").tobytes())
    return found


def _mpp(tiff: PyramidTiff, directory: Directory) -> float | None:
    """Return micrometers per pixel from XResolution, which NDPI gives in pixels per centimeter."""
    field = directory.fields.get(282)
    if field is None or (field.type, field.count) != (5, 1) or tiff.number(directory, 296) != 3:
        return None
    over, under = struct.unpack("<II", tiff.raw(field))
    return 10000 * under / over if over and under else None
