"""Aperio SVS of ScanScope and GT450 scanners: the description is rebuilt from its technical values.

OpenSlide reads a file as Aperio if the first description begins with ``Aperio``. Levels are tiled, the second
page, if in strips, is the thumbnail, other pages in strips are label and macro. ScanScope names these in the
second line of the description, GT450 marks them only by NewSubfileType 1 and 9.
"""

from __future__ import annotations

import re

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import DESCRIPTION, SUBFILE, PyramidTiff
from medsanitize.sanitize.formats.tiff.writer import ascii_value, integer_values, tiff_file
from medsanitize.sanitize.formats.tiff_directory import Directory
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.label import label_page, label_size
from medsanitize.sanitize.wsi.macro import keep_macro, macro_page
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiff_pages import ImageShape, copy_page, is_reduction, read_shape

NAME = "aperio"
_GEOMETRY = re.compile(
    r"\d{1,7}x\d{1,7}(?: \[\d{1,7},\d{1,7} \d{1,7}x\d{1,7}\])?(?: \(\d{1,5}x\d{1,5}\))?"
    r"(?: ?-> ?\d{1,7}x\d{1,7})?(?: (?:JPEG|J2K|J2000|LZW)(?:/[A-Z0-9]{1,8})?(?: Q=\d{1,3}(?:\.\d{1,2})?)?)?"
)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,12})?")
# The other keys include user, date and time, file name and serial number.
_KEYS = ("AppMag", "MPP", "OriginalWidth", "OriginalHeight")
_SCANNERS = ("GT450 DX", "GT450", "AT2", "CS2", "AT Turbo", "LV1", "VERSA")
_MACRO = 9
_LABEL_OR_MACRO = frozenset([1, _MACRO])


def recognizes(view: SlideView) -> bool:
    """Return whether the first description begins with ``Aperio``."""
    return view.said(DESCRIPTION).startswith("Aperio")


def plan_edits(view: SlideView, rules: WholeSlides, name: SlideName) -> EditPlan:
    """Plan the released slide: the levels and the thumbnail with new descriptions.

    Raises
    ------
    Quarantined
        ``slide-without-levels``; the structure is inconsistent; for the macro, see
        `medsanitize.sanitize.wsi.macro.keep_macro`.
    """
    tiff = view.tiff
    cleaner = view.cleaner(rules)
    base = read_shape(tiff, tiff.directories[0])
    if not base.tiled:
        raise Quarantined("slide-without-levels", "structure")
    pages: list[OutputPage] = []
    levels: list[tuple[int, int]] = []
    counts: dict[str, int] = {}
    macros: list[Directory] = []
    for index, directory in enumerate(tiff.directories):
        shape = read_shape(tiff, directory)
        role = _role(index, shape, base)
        # Whatever its name, the second page is the thumbnail for readers, never the macro.
        if role == "drop" and index > 1 and _is_macro(tiff, directory, shape):
            macros.append(directory)
        if role == "drop" or (role == "thumbnail" and rules.thumbnail == "drop"):
            counts["X:slide-picture"] = counts.get("X:slide-picture", 0) + 1
            continue
        described = _description(tiff, directory, rules)
        pages.append(copy_page(tiff, directory, cleaner, also={DESCRIPTION: ascii_value(described)}))
        counts["C:slide-description"] = counts.get("C:slide-description", 0) + 1
        if role == "level":
            levels.append((shape.width, shape.height))
    # Directly after a single level, readers would take the label (and below the macro) for the thumbnail.
    if rules.label == "replace" and len(pages) > 1:
        width, height = label_size(name.instance)
        described = f"Aperio Image Library\nlabel {width}x{height}"
        pages.append(label_page(tiff.dialect, name.instance, described))
        counts["C:slide-label"] = 1
    macro = keep_macro(tiff, macros, rules, levels, counts, fits=len(pages) > 1)
    if macro is not None:
        described = f"Aperio Image Library\nmacro {macro.width}x{macro.height}"
        marks = {DESCRIPTION: ascii_value(described), SUBFILE: integer_values(tiff.dialect, 4, [_MACRO])}
        pages.append(macro_page(tiff.dialect, macro, marks))
    keys = _keys(tiff.text(tiff.directories[0], DESCRIPTION))
    said = (_float(keys.get("MPP")), _float(keys.get("AppMag")))
    facts = SlideFacts(NAME, tuple(levels), *said, macros=(macro.digest,) if macro else ())
    return EditPlan((tiff_file(".svs", tiff.dialect, pages),), facts, counts | cleaner.rules)


def _role(index: int, shape: ImageShape, base: ImageShape) -> str:
    if shape.tiled:
        return "level" if is_reduction(shape, base) else "drop"
    if index == 1 and shape.subfile not in _LABEL_OR_MACRO and is_reduction(shape, base):
        return "thumbnail"
    return "drop"


def _is_macro(tiff: PyramidTiff, directory: Directory, shape: ImageShape) -> bool:
    """Return whether a page in strips is named ``macro`` or, without a name, marked as one."""
    lines = tiff.text(directory, DESCRIPTION).split("\n")
    name = lines[1].split(" ")[0].strip().lower() if len(lines) > 1 else ""
    return not shape.tiled and (name == "macro" or (not name and shape.subfile == _MACRO))


def _keys(description: str) -> dict[str, str]:
    """Return the ``key=value`` pairs after the first ``|``."""
    pairs = (part.split("=", 1) for part in description.split("|")[1:] if "=" in part)
    return {key.strip(): value.strip() for key, value in pairs}


def _description(tiff: PyramidTiff, directory: Directory, rules: WholeSlides) -> str:
    """Build a description from the source's geometry, magnification and resolution only."""
    given = tiff.text(directory, DESCRIPTION)
    head = given.split("|", 1)[0]
    found = _GEOMETRY.search(head)
    lines = "Aperio Image Library\r\n" + (found.group() if found else "")
    keys = _keys(given)
    kept = [(key, keys[key]) for key in _KEYS if _NUMBER.fullmatch(keys.get(key, ""))]
    scanner = next((one for one in _SCANNERS if keys.get("ScannerType") == one or one in head), None)
    if rules.scanner == "model" and scanner:
        kept.append(("ScannerType", scanner))
    return "|".join([lines, *(f"{key} = {value}" for key, value in kept)])


def _float(value: str | None) -> float | None:
    return float(value) if value and _NUMBER.fullmatch(value) else None
