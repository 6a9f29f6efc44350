"""Philips TIFF: XML of DICOM-like attributes in the first page, with label and macro in base64 or as pages.

OpenSlide requires that Software begins with ``Philips``, one scanned image of type WSI, and a pixel spacing
for each level.
"""

from __future__ import annotations

import base64
import re
from xml.etree.ElementTree import Element

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import DESCRIPTION, PyramidTiff
from medsanitize.sanitize.formats.tiff.writer import ascii_value, tiff_file
from medsanitize.sanitize.formats.tiff_directory import Directory
from medsanitize.sanitize.formats.xml import local_name, named_children, parse_xml
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.label import label_page
from medsanitize.sanitize.wsi.macro import keep_macro, macro_page
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiff_pages import copy_page, is_padded_reduction, read_shape

NAME = "philips"
_SOFTWARE = 305
_SPACING = re.compile(r'"\d{1,3}(?:\.\d{1,12})?(?:e-?\d{1,2})?" "\d{1,3}(?:\.\d{1,12})?(?:e-?\d{1,2})?"')
_MACRO = "Macro"
_MOST_CODED = 1 << 26
_INTEGER = re.compile(r"\d{1,10}")
_POSITION = re.compile(r'(?:"-?\d{1,9}(?:\.\d{1,12})?" ?){1,3}')
_REPRESENTATION = {
    "DICOM_PIXEL_SPACING": _SPACING,
    "PIIM_DP_PIXEL_DATA_REPRESENTATION_POSITION": _POSITION,
    "PIIM_PIXEL_DATA_REPRESENTATION_COLUMNS": _INTEGER,
    "PIIM_PIXEL_DATA_REPRESENTATION_NUMBER": _INTEGER,
    "PIIM_PIXEL_DATA_REPRESENTATION_ROWS": _INTEGER,
}
_SEQUENCE = "PIIM_PIXEL_DATA_REPRESENTATION_SEQUENCE"
# OpenSlide derives the objective from this prefix. It is matched, not copied whole, as a file name follows.
_DERIVATION = re.compile(
    r"tiff-useBigTIFF=\d-useRgb=\d-levels=(\d{1,3})(?:\.\d{1,4})?(?:,\d{1,5}){0,16}-processing=\d(?:-q\d{1,3})?"
)
_MODELS = re.compile(r"(?:UFS Scanner|Philips Ultra Fast Scanner|SG300|SG60|SG20)")
# Group, element and type of the attributes that are written, as in files of the vendor.
_TAGS = {
    "DICOM_PIXEL_SPACING": ("0x0028", "0x0030", "IDoubleArray"),
    "DICOM_DERIVATION_DESCRIPTION": ("0x0008", "0x2111", "IString"),
    "DICOM_MANUFACTURER": ("0x0008", "0x0070", "IString"),
    "DICOM_MANUFACTURERS_MODEL_NAME": ("0x0008", "0x1090", "IString"),
    "PIM_DP_IMAGE_TYPE": ("0x301D", "0x1004", "IString"),
    "PIM_DP_SCANNED_IMAGES": ("0x301D", "0x1003", "IDataObjectArray"),
    _SEQUENCE: ("0x1001", "0x8B01", "IDataObjectArray"),
    "PIIM_DP_PIXEL_DATA_REPRESENTATION_POSITION": ("0x101D", "0x100B", "IDoubleArray"),
    "PIIM_PIXEL_DATA_REPRESENTATION_COLUMNS": ("0x2001", "0x115E", "IUInt32"),
    "PIIM_PIXEL_DATA_REPRESENTATION_NUMBER": ("0x1001", "0x8001", "IUInt16"),
    "PIIM_PIXEL_DATA_REPRESENTATION_ROWS": ("0x2001", "0x115D", "IUInt32"),
}


def recognizes(view: SlideView) -> bool:
    """Return whether Software begins with ``Philips`` and the first description is Philips's XML."""
    return view.said(_SOFTWARE).startswith("Philips") and "DPUfsImport" in view.said(DESCRIPTION)


def plan_edits(view: SlideView, rules: WholeSlides, name: SlideName) -> EditPlan:
    """Plan the released slide: the tiled levels and a new XML with their spacings.

    Raises
    ------
    Quarantined
        ``slide-xml``, ``slide-without-levels``; the structure is inconsistent; for the macro, see
        `medsanitize.sanitize.wsi.macro.keep_macro`.
    """
    tiff = view.tiff
    root = parse_xml(tiff.raw(tiff.directories[0].fields[DESCRIPTION]).split(b"\0", 1)[0])
    slide = _slide(root)
    cleaner = view.cleaner(rules)
    base = read_shape(tiff, tiff.directories[0])
    pages: list[OutputPage] = []
    levels: list[tuple[int, int]] = []
    for directory in tiff.directories:
        shape = read_shape(tiff, directory)
        if shape.tiled and is_padded_reduction(shape, base):
            pages.append(
                copy_page(tiff, directory, cleaner, also={_SOFTWARE: ascii_value("Philips DP v1.0")})
            )
            levels.append((shape.width, shape.height))
    if not pages or not base.tiled:
        raise Quarantined("slide-without-levels", "structure")
    pages[0].values[DESCRIPTION] = ascii_value(_xml(root, slide, rules))
    left = len(tiff.directories) - len(pages)
    counts = {"C:slide-description": 1} | ({"X:slide-picture": left} if left else {})
    if rules.label == "replace":
        pages.append(label_page(tiff.dialect, name.instance, "Label"))
        counts["C:slide-label"] = 1
    macro = keep_macro(tiff, _macros(tiff, root), rules, levels, counts)
    if macro is not None:
        pages.append(macro_page(tiff.dialect, macro, {DESCRIPTION: ascii_value(_MACRO)}))
    derived = _DERIVATION.match(_value(_attributes(slide).get("DICOM_DERIVATION_DESCRIPTION")))
    said = (_mpp(slide), float(derived[1]) if derived else None)
    facts = SlideFacts(NAME, tuple(levels), *said, macros=(macro.digest,) if macro else ())
    return EditPlan((tiff_file(".tiff", tiff.dialect, pages),), facts, counts | cleaner.rules)


def _attributes(element: Element) -> dict[str, Element]:
    return {child.get("Name") or "": child for child in named_children(element, "Attribute")}


def _objects(attribute: Element | None) -> list[Element]:
    arrays = named_children(attribute, "Array") if attribute is not None else []
    return [one for array in arrays for one in array if local_name(one) == "DataObject"]


def _slide(root: Element) -> Element:
    """Return the one scanned image of type WSI."""
    found = [
        one
        for one in _objects(_attributes(root).get("PIM_DP_SCANNED_IMAGES"))
        if _value(_attributes(one).get("PIM_DP_IMAGE_TYPE")) == "WSI"
    ]
    if root.get("ObjectType") != "DPUfsImport" or len(found) != 1:
        raise Quarantined("slide-xml", "description")
    return found[0]


def _macros(tiff: PyramidTiff, root: Element) -> list[Directory | bytes]:
    """Return the pages named ``Macro`` or, if there are none, the macro images in the XML."""
    called = ((one, tiff.text(one, DESCRIPTION)) for one in tiff.directories)
    pages = [one for one, name in called if name.startswith(_MACRO) and not read_shape(tiff, one).tiled]
    if pages:
        return [*pages]
    images = map(_attributes, _objects(_attributes(root).get("PIM_DP_SCANNED_IMAGES")))
    return [
        _decoded(_value(one.get("PIM_DP_IMAGE_DATA")))
        for one in images
        if _value(one.get("PIM_DP_IMAGE_TYPE")) == "MACROIMAGE"
    ]


def _decoded(coded: str) -> bytes:
    """Decode base64; empty if it is invalid or too large."""
    try:
        return base64.b64decode(coded) if len(coded) <= _MOST_CODED else b""
    except ValueError:
        return b""


def _value(attribute: Element | None) -> str:
    return (attribute.text or "").strip() if attribute is not None else ""


def _xml(root: Element, slide: Element, rules: WholeSlides) -> str:
    given = _attributes(slide)
    spacing = _value(given.get("DICOM_PIXEL_SPACING"))
    body = _written("PIM_DP_IMAGE_TYPE", "WSI")
    if _SPACING.fullmatch(spacing):
        body += _written("DICOM_PIXEL_SPACING", spacing)
    derived = _DERIVATION.match(_value(given.get("DICOM_DERIVATION_DESCRIPTION")))
    body += _written("DICOM_DERIVATION_DESCRIPTION", derived.group()) if derived else ""
    levels = "".join(_level(one) for one in _objects(given.get(_SEQUENCE)))
    body += _written(_SEQUENCE, f"<Array>{levels}</Array>", escape=False)
    image = f'<DataObject ObjectType="DPScannedImage">{body}</DataObject>'
    head = ""
    if rules.scanner == "model":
        head = _written("DICOM_MANUFACTURER", "PHILIPS")
        model = _value(_attributes(root).get("DICOM_MANUFACTURERS_MODEL_NAME"))
        head += _written("DICOM_MANUFACTURERS_MODEL_NAME", model) if _MODELS.fullmatch(model) else ""
    images = _written("PIM_DP_SCANNED_IMAGES", f"<Array>{image}</Array>", escape=False)
    declared = '<?xml version="1.0" encoding="UTF-8" ?>'
    return f'{declared}<DataObject ObjectType="DPUfsImport">{head}{images}</DataObject>'


def _level(element: Element) -> str:
    given = _attributes(element)
    kept = [
        _written(name, value)
        for name, form in _REPRESENTATION.items()
        if form.fullmatch(value := _value(given.get(name)))
    ]
    return f'<DataObject ObjectType="PixelDataRepresentation">{"".join(kept)}</DataObject>'


def _written(name: str, value: str, *, escape: bool = True) -> str:
    group, element, kind = _TAGS[name]
    inner = value.replace('"', "&quot;") if escape else value
    return f'<Attribute Name="{name}" Group="{group}" Element="{element}" PMSVR="{kind}">{inner}</Attribute>'


def _mpp(slide: Element) -> float | None:
    """Return micrometers per pixel from the spacing in millimeters."""
    spacing = _value(_attributes(slide).get("DICOM_PIXEL_SPACING"))
    return float(spacing.split('"')[1]) * 1000 if _SPACING.fullmatch(spacing) else None
