"""Ventana (Roche) BIF and TIF: iScan XML in the first page, EncodeInfo XML in the page of level 0.

OpenSlide recognizes levels by ``level=N mag=M``, requires iScan in the first page and stitches tiles by the
joints in EncodeInfo. The page named Label_Image shows the whole glass with its label.
"""

from __future__ import annotations

import re

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.tiff.page import FieldValue, OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import DESCRIPTION, PyramidTiff, looks_like_tiff
from medsanitize.sanitize.formats.tiff.writer import ascii_value, integer_values, tiff_file
from medsanitize.sanitize.formats.tiff_directory import Dialect, Directory
from medsanitize.sanitize.formats.xml import NUMBER, AllowedElement, copy_allowed, local_name, parse_xml
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiff_pages import copy_page, is_reduction, read_shape

NAME = "ventana"
_XMP = 700
_LEVEL = re.compile(r"level=\d{1,2} mag=\d{1,3}(?:\.\d{1,12})?(?: quality=\d{1,3})?")
_WORD = re.compile(r"RIGHT|LEFT|UP|DOWN")
_PAIR = re.compile(r"-?\d{1,9}(?:,-?\d{1,9}){1,3}")
_MODELS = re.compile(r"VENTANA (?:DP 200|DP 600|iScan HT|iScan Coreo|iScan)")
_MODES = re.compile(r"Brightfield|Fluorescence")


def _plain(*names: str) -> dict[str, re.Pattern[str]]:
    return dict.fromkeys(names, NUMBER)


_AREA = AllowedElement(
    _plain("AOIScanned", "Left", "Top", "Right", "Bottom", "OriginX", "OriginY", "AOIIndex", "Pos-X", "Pos-Y")
)
_AREAS = {f"AOI{number}": _AREA for number in range(64)}
_ISCAN = _plain(
    "ScanRes",
    "Magnification",
    "Mode",
    "FocusMode",
    "Z-layers",
    "Z-spacing",
    "ScanWhitePoint",
    "NumberOfFocusPoints",
) | {"ScanMode": _MODES}
_JOINT = AllowedElement(
    _plain("FlagJoined", "Confidence", "Tile1", "Tile2", "OverlapX", "OverlapY") | {"Direction": _WORD}
)
_SIZE = _plain("AOIScanned", "AOIIndex", "NumRows", "NumCols", "Width", "Height", "Pos-X", "Pos-Y")
_FRAME = AllowedElement({"XY": _PAIR} | _plain("Col", "Row"))
_ENCODE = AllowedElement(
    _plain("Ver"),
    children={
        "SlideInfo": AllowedElement(
            children={
                "AoiInfo": AllowedElement(
                    _plain("XIMAGESIZE", "YIMAGESIZE", "NumRows", "NumCols", "Pos-X", "Pos-Y", "Ver")
                )
            }
        ),
        "SlideStitchInfo": AllowedElement(
            children={"ImageInfo": AllowedElement(_SIZE, children={"TileJointInfo": _JOINT, "Frame": _FRAME})}
        ),
        "FrameInfo": AllowedElement(_SIZE, children={"Frame": _FRAME}),
        "AoiOrigin": AllowedElement(children=_AREAS),
    },
)


def recognizes(view: SlideView) -> bool:
    """Return whether the first page contains iScan XML."""
    if not looks_like_tiff(view.data):
        return False
    tiff = view.tiff
    return b"<iScan" in _xmp(tiff, tiff.directories[0])[: 1 << 16]


def plan_edits(view: SlideView, rules: WholeSlides, _name: SlideName) -> EditPlan:
    """Plan the released slide: the levels and the thumbnail with new XML; the page Label_Image is removed.

    Raises
    ------
    Quarantined
        ``slide-xml``, ``slide-without-levels``, or the structure is inconsistent.
    """
    tiff = view.tiff
    cleaner = view.cleaner(rules)
    found = [(_LEVEL.fullmatch(tiff.text(one, DESCRIPTION)), one) for one in tiff.directories]
    tissue = [(match.group(), one) for match, one in found if match and read_shape(tiff, one).tiled]
    if not tissue:
        raise Quarantined("slide-without-levels", "structure")
    scan = _iscan(_xmp(tiff, tiff.directories[0]), rules)
    base = read_shape(tiff, tissue[0][1])
    # A "thumbnail" with another aspect ratio than the tissue may show the whole glass.
    small = next((one for one in tiff.directories if _is_thumbnail(tiff, one)), None)
    if small is not None and rules.thumbnail == "keep" and is_reduction(read_shape(tiff, small), base):
        first = copy_page(tiff, small, cleaner)
    else:
        small, first = None, _blank(tiff.dialect)
    first.values |= {DESCRIPTION: ascii_value("Thumbnail"), _XMP: _bytes(scan)}
    pages: list[OutputPage] = [first]
    levels: list[tuple[int, int]] = []
    for described, directory in tissue:
        also = {DESCRIPTION: ascii_value(described)}
        encoded = _xmp(tiff, directory)
        if encoded:
            also[_XMP] = _bytes(_encode(encoded))
        pages.append(copy_page(tiff, directory, cleaner, also=also))
        shape = read_shape(tiff, directory)
        levels.append((shape.width, shape.height))
    left = len(tiff.directories) - len(tissue) - (small is not None)
    counts = {"C:slide-description": len(pages)} | ({"X:slide-picture": left} if left else {})
    facts = SlideFacts(NAME, tuple(levels), _number(scan, "ScanRes"), _number(scan, "Magnification"))
    return EditPlan((tiff_file(".bif", tiff.dialect, pages),), facts, counts | cleaner.rules)


def _xmp(tiff: PyramidTiff, directory: Directory) -> bytes:
    field = directory.fields.get(_XMP)
    return tiff.raw(field).split(b"\0", 1)[0] if field is not None else b""


def _bytes(xml: str) -> FieldValue:
    data = xml.encode("ascii")
    return FieldValue(1, len(data), data)


def _is_thumbnail(tiff: PyramidTiff, directory: Directory) -> bool:
    return tiff.text(directory, DESCRIPTION) == "Thumbnail" and not read_shape(tiff, directory).tiled


def _iscan(xml: bytes, rules: WholeSlides) -> str:
    root = parse_xml(xml)
    scans = [one for one in root.iter() if local_name(one) == "iScan"]
    if len(scans) != 1:
        raise Quarantined("slide-xml", "description")
    kept = _ISCAN | ({"ScannerModel": _MODELS} if rules.scanner == "model" else {})
    return f"<Metadata>{copy_allowed(scans[0], AllowedElement(kept, children=_AREAS))}</Metadata>"


def _encode(xml: bytes) -> str:
    root = parse_xml(xml)
    if local_name(root) != "EncodeInfo":
        raise Quarantined("slide-xml", "description")
    return copy_allowed(root, _ENCODE)


def _blank(dialect: Dialect) -> OutputPage:
    """Return a page of one white pixel as thumbnail: the first page must not be a level."""
    ones = {256: 1, 257: 1, 258: 8, 259: 1, 262: 1, 277: 1, 278: 1, 284: 1}
    return OutputPage(
        {tag: integer_values(dialect, 3, [value]) for tag, value in ones.items()}, [(b"\xff",)], tiled=False
    )


def _number(xml: str, name: str) -> float | None:
    found = re.search(rf'{name}="({NUMBER.pattern})"', xml)
    return float(found[1]) if found else None
