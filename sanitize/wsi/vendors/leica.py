"""Leica SCN: an XML tells which directory is which level of which image; the macro is the image that covers
the whole collection and may be tiled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.tiff.page import Page
from medsanitize.sanitize.formats.tiff.pyramid import DESCRIPTION, Tiff
from medsanitize.sanitize.formats.tiff.writer import text, tiff_file
from medsanitize.sanitize.formats.tiff_directory import Directory
from medsanitize.sanitize.formats.xml import child_text, children, local, numbers_of, parse_xml, tag
from medsanitize.sanitize.quarantine import Refused
from medsanitize.sanitize.wsi.macro import black_macro, keep_macro, macro_page
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiff_pages import kept_page, shape_of

NAME = "leica"
_NAMESPACE = re.compile(r"\{(http://www\.leica-microsystems\.com/scn/20\d\d/\d\d/\d\d)\}scn")
_SIZES = ("sizeX", "sizeY")
_VIEW = ("sizeX", "sizeY", "offsetX", "offsetY", "spacingZ")
_DIMENSION = ("sizeX", "sizeY", "z", "r", "c")
_BRIGHT = "brightfield"
_ILLUMINATION = frozenset([_BRIGHT, "fluorescence"])
_MODEL = "Leica SCN400"


@dataclass(frozen=True, slots=True)
class _Image:
    """One image of the collection: its element and the directories of its levels."""

    element: Element
    view: dict[str, str]
    dimensions: tuple[tuple[int, dict[str, str]], ...]


def recognises(view: SlideView) -> bool:
    """Whether the first description is Leica's XML."""
    return "http://www.leica-microsystems.com/scn/" in view.said(DESCRIPTION)[:4096]


def plan_edits(view: SlideView, rules: WholeSlides, _name: SlideName) -> EditPlan:
    """The images of tissue with an XML made anew; macro, label, barcode, names and dates left behind.

    Raises
    ------
    Refused
        The XML or the structure contradicts itself, or no image of tissue is there.
    """
    tiff = view.tiff
    field = tiff.directories[0].fields[DESCRIPTION]
    root = parse_xml(tiff.raw(field).split(b"\0", 1)[0])
    space = _NAMESPACE.fullmatch(root.tag)
    collections = children(root, "collection")
    if space is None or len(collections) != 1:
        raise Refused("slide-xml", "description")
    whole = numbers_of(collections[0], _SIZES)
    images = [_image(one, len(tiff.directories)) for one in children(collections[0], "image")]
    glass = [image for image in images if _covers(image, whole)]
    tissue = [image for image in images if image not in glass]
    if not tissue or len(whole) != 2:
        raise Refused("slide-without-levels", "structure")
    used = [number for image in tissue for number, _ in image.dimensions]
    if len(set(used)) != len(used):
        raise Refused("slide-xml", "description")
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
    pages: list[Page] = []
    levels: list[tuple[int, int]] = []
    parts: list[str] = []
    for image in tissue:
        rows: list[str] = []
        for number, given in image.dimensions:
            directory = tiff.directories[number]
            shape = shape_of(tiff, directory)
            if not shape.tiled:
                raise Refused("slide-xml", "description")
            rows.append(tag("dimension", given | {"ifd": len(pages)}))
            pages.append(kept_page(tiff, directory, cleaner))
            levels.append((shape.width, shape.height))
        parts.append(_image_text(image, rows, rules))
    counts = {"C:slide-description": 1}
    left = len(tiff.directories) - len(pages)
    shown = _shown(glass)
    macro = keep_macro(tiff, _macros(tiff, glass, rules), rules, levels, counts)
    if macro is None and shown is not None and len(tissue) > 1:
        # OpenSlide tells slides with several images of tissue apart by their macro, and opens none without.
        macro = black_macro()
    if macro is not None and shown is not None:
        rows = [tag("dimension", {"sizeX": macro.width, "sizeY": macro.height, "r": 0, "ifd": len(pages)})]
        parts.append(_image_text(shown, rows, rules))
        pages.append(macro_page(tiff.dialect, macro, {}))
    xml = '<?xml version="1.0" encoding="utf-8"?>' + tag(
        "scn", {"xmlns": namespace}, tag("collection", whole, "".join(parts))
    )
    pages[0].values[DESCRIPTION] = text(xml)
    counts |= {"X:slide-picture": left} if left else {}
    power = child_text(tissue[0].element, "scanSettings", "objectiveSettings", "objective")
    said = (_mpp(tissue[0]), float(power) if re.fullmatch(r"\d{1,3}", power) else None)
    facts = SlideFacts(NAME, tuple(levels), *said, macros=(macro.digest,) if macro else ())
    return EditPlan((tiff_file(".scn", tiff.dialect, pages),), facts, counts | cleaner.rules)


def _image(element: Element, directories: int) -> _Image:
    views, pixels = children(element, "view"), children(element, "pixels")
    if len(views) != 1 or len(pixels) != 1:
        raise Refused("slide-xml", "description")
    found: list[tuple[int, dict[str, str]]] = []
    for one in pixels[0]:
        place = one.get("ifd") or ""
        if local(one) != "dimension" or not re.fullmatch(r"\d{1,5}", place) or int(place) >= directories:
            raise Refused("slide-xml", "description")
        found.append((int(place), numbers_of(one, _DIMENSION)))
    return _Image(element, numbers_of(views[0], _VIEW), tuple(found))


def _covers(image: _Image, whole: dict[str, str]) -> bool:
    """Whether an image shows all of the collection's area: then it is the macro, with the label in it."""
    return all(image.view.get(name) == whole.get(name) for name in _SIZES)


def _shown(glass: list[_Image]) -> _Image | None:
    """The image of the whole glass that OpenSlide shows as the macro."""
    for image in glass:
        light = child_text(image.element, "scanSettings", "illuminationSettings", "illuminationSource")
        if {image.view.get("offsetX"), image.view.get("offsetY")} == {"0"} and light == _BRIGHT:
            return image
    return None


def _macros(tiff: Tiff, glass: list[_Image], rules: WholeSlides) -> list[Directory | bytes]:
    """The largest picture of each image of the whole glass: viewers take no other for the macro."""
    found: list[Directory | bytes] = []
    for image in glass if rules.macro != "drop" else ():
        shapes = {number: shape_of(tiff, tiff.directories[number]) for number, _ in image.dimensions}
        if not shapes or _shown([image]) is None:
            found.append(b"")  # no picture that OpenSlide shows as a macro
            continue
        found.append(tiff.directories[max(shapes, key=lambda number: shapes[number].width)])
    return found


def _image_text(image: _Image, dimensions: list[str], rules: WholeSlides) -> str:
    pixels = numbers_of(children(image.element, "pixels")[0], _SIZES)
    settings = ""
    power = child_text(image.element, "scanSettings", "objectiveSettings", "objective")
    if re.fullmatch(r"\d{1,3}", power):
        settings += tag("objectiveSettings", None, tag("objective", None, power))
    light = child_text(image.element, "scanSettings", "illuminationSettings", "illuminationSource")
    aperture = child_text(image.element, "scanSettings", "illuminationSettings", "numericalAperture")
    lit = tag("illuminationSource", None, light) if light in _ILLUMINATION else ""
    if re.fullmatch(r"\d(\.\d{1,4})?", aperture):
        lit += tag("numericalAperture", None, aperture)
    settings += tag("illuminationSettings", None, lit) if lit else ""
    devices = children(image.element, "device")
    model = rules.scanner == "model" and devices and (devices[0].get("model") or "").startswith(_MODEL)
    return tag(
        "image",
        None,
        (tag("device", {"model": _MODEL}) if model else "")
        + tag("pixels", pixels, "".join(dimensions))
        + tag("view", image.view)
        + (tag("scanSettings", None, settings) if settings else ""),
    )


def _mpp(image: _Image) -> float | None:
    """Micrometres a pixel: the view's size is in nanometres."""
    size, wide = image.view.get("sizeX"), image.dimensions[0][1].get("sizeX") if image.dimensions else None
    return float(size) / float(wide) / 1000 if size and wide and float(wide) else None
