"""Leica SCN: an XML description assigns directories to levels of images.

The macro is the image that covers the whole collection; it may be tiled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import DESCRIPTION, PyramidTiff
from medsanitize.sanitize.formats.tiff.writer import ascii_value, tiff_file
from medsanitize.sanitize.formats.tiff_directory import Directory
from medsanitize.sanitize.formats.xml import (
    child_text,
    local_name,
    named_children,
    numeric_attributes,
    parse_xml,
    write_element,
)
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.macro import blank_macro, keep_macro, macro_page
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiff_pages import copy_page, read_shape

NAME = "leica"
_NAMESPACE = re.compile(r"\{(http://www\.leica-microsystems\.com/scn/20\d\d/\d\d/\d\d)\}scn")
_SIZES = ("sizeX", "sizeY")
_VIEW = ("sizeX", "sizeY", "offsetX", "offsetY", "spacingZ")
_DIMENSION = ("sizeX", "sizeY", "z", "r", "c")
_BRIGHTFIELD = "brightfield"
_ILLUMINATION = frozenset([_BRIGHTFIELD, "fluorescence"])
_MODEL = "Leica SCN400"


@dataclass(frozen=True, slots=True)
class _Image:
    """One image of the collection.

    Attributes
    ----------
    element : Element
        The element ``image``.
    view : dict of str to str
        Numeric attributes of its ``view``, in nanometers.
    dimensions : tuple of (int, dict of str to str)
        Directory index and numeric attributes of each level.
    """

    element: Element
    view: dict[str, str]
    dimensions: tuple[tuple[int, dict[str, str]], ...]


def recognizes(view: SlideView) -> bool:
    """Return whether the first description is Leica's XML."""
    return "http://www.leica-microsystems.com/scn/" in view.said(DESCRIPTION)[:4096]


def plan_edits(view: SlideView, rules: WholeSlides, _name: SlideName) -> EditPlan:
    """Plan the released slide: the tissue images and a new XML, without barcode, names and dates.

    Raises
    ------
    Quarantined
        ``slide-xml``, ``slide-without-levels``; the structure is inconsistent; for the macro, see
        `medsanitize.sanitize.wsi.macro.keep_macro`.
    """
    tiff = view.tiff
    field = tiff.directories[0].fields[DESCRIPTION]
    root = parse_xml(tiff.raw(field).split(b"\0", 1)[0])
    space = _NAMESPACE.fullmatch(root.tag)
    collections = named_children(root, "collection")
    if space is None or len(collections) != 1:
        raise Quarantined("slide-xml", "description")
    whole = numeric_attributes(collections[0], _SIZES)
    images = [_image(one, len(tiff.directories)) for one in named_children(collections[0], "image")]
    glass = [image for image in images if _covers(image, whole)]
    tissue = [image for image in images if image not in glass]
    if not tissue or len(whole) != 2:
        raise Quarantined("slide-without-levels", "structure")
    used = [number for image in tissue for number, _ in image.dimensions]
    # The XML decides what is copied: a directory must not appear as tissue twice.
    if len(set(used)) != len(used):
        raise Quarantined("slide-xml", "description")
    return _plan(view, tissue, glass, whole, space[1], rules)


def _plan(
    view: SlideView,
    tissue: list[_Image],
    glass: list[_Image],
    whole: dict[str, str],
    namespace: str,
    rules: WholeSlides,
) -> EditPlan:
    tiff = view.tiff
    cleaner = view.cleaner(rules)
    pages: list[OutputPage] = []
    levels: list[tuple[int, int]] = []
    parts: list[str] = []
    for image in tissue:
        rows: list[str] = []
        for number, given in image.dimensions:
            directory = tiff.directories[number]
            shape = read_shape(tiff, directory)
            if not shape.tiled:
                raise Quarantined("slide-xml", "description")
            rows.append(write_element("dimension", given | {"ifd": len(pages)}))
            pages.append(copy_page(tiff, directory, cleaner))
            levels.append((shape.width, shape.height))
        parts.append(_image_text(image, rows, rules))
    counts = {"C:slide-description": 1}
    left = len(tiff.directories) - len(pages)
    shown = _shown(glass)
    macro = keep_macro(tiff, _macros(tiff, glass, rules), rules, levels, counts)
    if macro is None and shown is not None and len(tissue) > 1:
        # OpenSlide does not open a slide with several tissue images without a macro.
        macro = blank_macro()
    if macro is not None and shown is not None:
        rows = [
            write_element(
                "dimension", {"sizeX": macro.width, "sizeY": macro.height, "r": 0, "ifd": len(pages)}
            )
        ]
        parts.append(_image_text(shown, rows, rules))
        pages.append(macro_page(tiff.dialect, macro, {}))
    xml = '<?xml version="1.0" encoding="utf-8"?>' + write_element(
        "scn", {"xmlns": namespace}, write_element("collection", whole, "".join(parts))
    )
    pages[0].values[DESCRIPTION] = ascii_value(xml)
    counts |= {"X:slide-picture": left} if left else {}
    power = child_text(tissue[0].element, "scanSettings", "objectiveSettings", "objective")
    said = (_mpp(tissue[0]), float(power) if re.fullmatch(r"\d{1,3}", power) else None)
    facts = SlideFacts(NAME, tuple(levels), *said, macros=(macro.digest,) if macro else ())
    return EditPlan((tiff_file(".scn", tiff.dialect, pages),), facts, counts | cleaner.rules)


def _image(element: Element, directories: int) -> _Image:
    views, pixels = named_children(element, "view"), named_children(element, "pixels")
    if len(views) != 1 or len(pixels) != 1:
        raise Quarantined("slide-xml", "description")
    found: list[tuple[int, dict[str, str]]] = []
    for one in pixels[0]:
        place = one.get("ifd") or ""
        if local_name(one) != "dimension" or not re.fullmatch(r"\d{1,5}", place) or int(place) >= directories:
            raise Quarantined("slide-xml", "description")
        found.append((int(place), numeric_attributes(one, _DIMENSION)))
    return _Image(element, numeric_attributes(views[0], _VIEW), tuple(found))


def _covers(image: _Image, whole: dict[str, str]) -> bool:
    """Return whether an image covers the whole collection: then it is the macro, which shows the label."""
    return all(image.view.get(name) == whole.get(name) for name in _SIZES)


def _shown(glass: list[_Image]) -> _Image | None:
    """Return the image that OpenSlide shows as the macro, None if there is none."""
    for image in glass:
        light = child_text(image.element, "scanSettings", "illuminationSettings", "illuminationSource")
        if {image.view.get("offsetX"), image.view.get("offsetY")} == {"0"} and light == _BRIGHTFIELD:
            return image
    return None


def _macros(tiff: PyramidTiff, glass: list[_Image], rules: WholeSlides) -> list[Directory | bytes]:
    """Return the largest level of each macro image, the one that viewers show."""
    found: list[Directory | bytes] = []
    for image in glass if rules.macro != "drop" else ():
        shapes = {number: read_shape(tiff, tiff.directories[number]) for number, _ in image.dimensions}
        if not shapes or _shown([image]) is None:
            # Not decodable, but counted: `keep_macro` keeps none if there are several candidates.
            found.append(b"")
            continue
        found.append(tiff.directories[max(shapes, key=lambda number: shapes[number].width)])
    return found


def _image_text(image: _Image, dimensions: list[str], rules: WholeSlides) -> str:
    pixels = numeric_attributes(named_children(image.element, "pixels")[0], _SIZES)
    settings = ""
    power = child_text(image.element, "scanSettings", "objectiveSettings", "objective")
    if re.fullmatch(r"\d{1,3}", power):
        settings += write_element("objectiveSettings", None, write_element("objective", None, power))
    light = child_text(image.element, "scanSettings", "illuminationSettings", "illuminationSource")
    aperture = child_text(image.element, "scanSettings", "illuminationSettings", "numericalAperture")
    lit = write_element("illuminationSource", None, light) if light in _ILLUMINATION else ""
    if re.fullmatch(r"\d(\.\d{1,4})?", aperture):
        lit += write_element("numericalAperture", None, aperture)
    settings += write_element("illuminationSettings", None, lit) if lit else ""
    devices = named_children(image.element, "device")
    model = rules.scanner == "model" and devices and (devices[0].get("model") or "").startswith(_MODEL)
    return write_element(
        "image",
        None,
        (write_element("device", {"model": _MODEL}) if model else "")
        + write_element("pixels", pixels, "".join(dimensions))
        + write_element("view", image.view)
        + (write_element("scanSettings", None, settings) if settings else ""),
    )


def _mpp(image: _Image) -> float | None:
    """Return micrometers per pixel; the size of the view is in nanometers."""
    size, wide = image.view.get("sizeX"), image.dimensions[0][1].get("sizeX") if image.dimensions else None
    return float(size) / float(wide) / 1000 if size and wide and float(wide) else None
