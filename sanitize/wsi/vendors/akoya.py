"""Akoya (PerkinElmer) QPTIFF: every page has an XML description; label and overview are pages as well.

Readers identify pages by their order and by ``ImageType``.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import DESCRIPTION, PyramidTiff, looks_like_tiff
from medsanitize.sanitize.formats.tiff.writer import ascii_value, tiff_file
from medsanitize.sanitize.formats.tiff_directory import Directory
from medsanitize.sanitize.formats.xml import NUMBER, child_text, decode_utf16, parse_xml, write_element
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.stains import known_channel
from medsanitize.sanitize.wsi.tiff_pages import copy_page, read_shape
from medsanitize.sanitize.wsi.vendors.generic import read_mpp

NAME = "akoya"
_SOFTWARE, _ROOT = 305, "PerkinElmer-QPI-ImageDescription"
_KEPT_TYPES = frozenset(["FullResolution", "ReducedResolution"])
_COLOR = re.compile(r"\d{1,3},\d{1,3},\d{1,3}")
_OBJECTIVE = re.compile(r"(\d{1,3}(?:\.\d)?)x")
_FLAG = re.compile(r"True|False", re.IGNORECASE)
_FORMS = {
    "DescriptionVersion": NUMBER,
    "ImageType": re.compile("|".join([*sorted(_KEPT_TYPES), "Thumbnail"])),
    "IsUnmixedComponent": _FLAG,
    "ExposureTime": NUMBER,
    "SignalUnits": NUMBER,
    "Color": _COLOR,
    "Objective": _OBJECTIVE,
}


def recognizes(view: SlideView) -> bool:
    """Return whether the first description is a QPI description."""
    if not looks_like_tiff(view.data):
        return False
    tiff = view.tiff
    return _ROOT.encode() in _raw(tiff, tiff.directories[0])[:4096]


def plan_edits(view: SlideView, rules: WholeSlides, _name: SlideName) -> EditPlan:
    """Plan the released slide: full and reduced pages and the thumbnail, each with a new XML description.

    Raises
    ------
    Quarantined
        ``slide-without-levels``, or the XML or the structure is inconsistent.
    """
    tiff = view.tiff
    cleaner = view.cleaner(rules)
    pages: list[OutputPage] = []
    levels: dict[tuple[int, int], None] = {}
    objective = None
    for directory in tiff.directories:
        described = parse_xml(_raw(tiff, directory)) if DESCRIPTION in directory.fields else None
        kind = child_text(described, "ImageType") if described is not None else ""
        if described is None or not (
            kind in _KEPT_TYPES or (kind == "Thumbnail" and rules.thumbnail == "keep")
        ):
            continue
        also = {DESCRIPTION: ascii_value(_xml(described)), _SOFTWARE: ascii_value("PerkinElmer-QPI")}
        pages.append(copy_page(tiff, directory, cleaner, also=also))
        shape = read_shape(tiff, directory)
        if kind in _KEPT_TYPES:
            # Each channel is a page: the sizes repeat.
            levels[shape.width, shape.height] = None
        found = _OBJECTIVE.fullmatch(child_text(described, "Objective"))
        objective = objective or (float(found[1]) if found else None)
    if not levels:
        raise Quarantined("slide-without-levels", "structure")
    left = len(tiff.directories) - len(pages)
    counts = {"C:slide-description": len(pages)} | ({"X:slide-picture": left} if left else {})
    facts = SlideFacts(NAME, tuple(levels), read_mpp(tiff, tiff.directories[0]), objective)
    return EditPlan((tiff_file(".qptiff", tiff.dialect, pages),), facts, counts | cleaner.rules)


def _raw(tiff: PyramidTiff, directory: Directory) -> bytes:
    field = directory.fields.get(DESCRIPTION)
    # Decoded before it is cut at its NUL: every other byte of UTF-16 may be one.
    return decode_utf16(tiff.raw(field)).split(b"\0", 1)[0] if field is not None else b""


def _xml(described: Element) -> str:
    kept = "".join(
        write_element(name, None, value)
        for name, form in _FORMS.items()
        if form.fullmatch(value := child_text(described, name))
    )
    channel = child_text(described, "Name")
    if known_channel(channel):
        kept += write_element("Name", None, channel)
    return f'<?xml version="1.0" encoding="utf-8"?>{write_element(_ROOT, None, kept)}'
