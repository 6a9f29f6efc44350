"""OME-TIFF: OME-XML in the first page assigns pages to images; lower levels are in SubIFDs.

Images are kept if their pages are tiled. Label, overview and macro are recognized by pages in strips or by
their name.
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
    NUMBER,
    AllowedElement,
    copy_allowed,
    local_name,
    named_children,
    parse_xml,
    write_element,
)
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiff_pages import copy_page, is_reduction, read_shape
from medsanitize.sanitize.wsi.tiles import TileCleaner

NAME = "ome-tiff"
_NAMESPACE = re.compile(r"\{(http://www\.openmicroscopy\.org/Schemas/OME/20\d\d-\d\d)\}OME")
_ID = re.compile(r"[A-Z][A-Za-z]{1,23}:\d{1,6}(?::\d{1,6}){0,3}")
_UNIT = re.compile(r"[µμnm]{1,2}|pixel|reference frame")
# An image that may show the label is left out on suspicion: losing a tiled overview does no harm.
_OVERVIEW = re.compile(r"label|macro|overview|barcode|slide ?preview", re.IGNORECASE)
_FIRST_PLANE = frozenset(["FirstC", "FirstZ", "FirstT"])
_MOST_PLANES = 4096


def _forms(form: str, *names: str) -> dict[str, re.Pattern[str]]:
    return dict.fromkeys(names, re.compile(form))


_CHANNEL = AllowedElement(
    {
        "ID": _ID,
        **dict.fromkeys(("SamplesPerPixel", "Color", "EmissionWavelength", "ExcitationWavelength"), NUMBER),
    }
)
_PIXELS = (
    {"ID": _ID}
    | _forms(r"[XYCZT]{5}", "DimensionOrder")
    | _forms(r"u?int(?:8|16|32)|float|double|bit", "Type")
    | _forms(r"\d{1,9}", "SizeX", "SizeY", "SizeC", "SizeZ", "SizeT", "SignificantBits")
    | _forms(r"true|false", "Interleaved", "BigEndian")
    | dict.fromkeys(("PhysicalSizeX", "PhysicalSizeY", "PhysicalSizeZ"), NUMBER)
    | dict.fromkeys(("PhysicalSizeXUnit", "PhysicalSizeYUnit", "PhysicalSizeZUnit"), _UNIT)
)
_INSTRUMENT = AllowedElement(
    {"ID": _ID},
    children={"Objective": AllowedElement({"ID": _ID, "NominalMagnification": NUMBER, "LensNA": NUMBER})},
)


@dataclass(frozen=True, slots=True)
class _Block:
    """One ``TiffData`` element.

    Attributes
    ----------
    first, count : int
        First page and number of pages of a run of planes.
    planes : dict of str to str
        ``FirstC``, ``FirstZ`` and ``FirstT``: position of the first plane in the image.
    """

    first: int
    count: int
    planes: dict[str, str]


def recognizes(view: SlideView) -> bool:
    """Return whether the first description is OME-XML and the first page is tiled."""
    named = "openmicroscopy.org/Schemas/OME" in view.said(DESCRIPTION)
    return named and read_shape(view.tiff, view.tiff.directories[0]).tiled


def plan_edits(view: SlideView, rules: WholeSlides, _name: SlideName) -> EditPlan:
    """Plan the released slide: the tiled images and a new OME-XML without persons and free text.

    Raises
    ------
    Quarantined
        ``slide-xml``, ``slide-several-files``, ``slide-without-levels``, or the structure is inconsistent.
    """
    tiff = view.tiff
    root = parse_xml(tiff.raw(tiff.directories[0].fields[DESCRIPTION]).split(b"\0", 1)[0])
    space = _NAMESPACE.fullmatch(root.tag)
    if space is None:
        raise Quarantined("slide-xml", "description")
    cleaner = view.cleaner(rules)
    pages: list[OutputPage] = []
    parts: list[str] = []
    levels: list[tuple[int, int]] = []
    for image in named_children(root, "Image"):
        blocks = _blocks(image, len(tiff.directories))
        if not _is_tissue(tiff, image, blocks):
            continue
        parts.append(_image(image, blocks, len(pages)))
        for number in (block.first + step for block in blocks for step in range(block.count)):
            pages.append(_page(tiff, tiff.directories[number], cleaner))
        if not levels:
            levels = _levels(tiff, tiff.directories[blocks[0].first])
    if not pages:
        raise Quarantined("slide-without-levels", "structure")
    instruments = "".join(copy_allowed(one, _INSTRUMENT) for one in named_children(root, "Instrument"))
    xml = write_element("OME", {"xmlns": space[1]}, instruments + "".join(parts))
    pages[0].values[DESCRIPTION] = ascii_value('<?xml version="1.0" encoding="UTF-8"?>' + xml)
    left = len(tiff.directories) - len(pages)
    counts = {"C:slide-description": 1} | ({"X:slide-picture": left} if left else {})
    power = re.search(rf'NominalMagnification="({NUMBER.pattern})"', instruments)
    # The default unit of PhysicalSizeX is the micrometer; any other unit is not converted.
    size = re.search(rf'PhysicalSizeX="({NUMBER.pattern})"(?! PhysicalSizeXUnit="(?!um|µm|μm))', parts[0])
    facts = SlideFacts(
        NAME, tuple(levels), float(size[1]) if size else None, float(power[1]) if power else None
    )
    return EditPlan((tiff_file(".ome.tif", tiff.dialect, pages),), facts, counts | cleaner.rules)


def _blocks(image: Element, directories: int) -> list[_Block]:
    pixels = named_children(image, "Pixels")
    if len(pixels) != 1:
        raise Quarantined("slide-xml", "description")
    found: list[_Block] = []
    for one in named_children(pixels[0], "TiffData"):
        given = {key: value for key, value in one.attrib.items() if re.fullmatch(r"\d{1,6}", value)}
        first = int(given.get("IFD", "0"))
        # Defaults of the OME-TIFF specification: with IFD one plane, without it all pages of the file.
        count = int(given.get("PlaneCount", "1" if "IFD" in given else str(directories)))
        if count > _MOST_PLANES or first + count > directories:
            raise Quarantined("slide-several-files", "description")
        planes = {key: value for key, value in given.items() if key in _FIRST_PLANE}
        found.append(_Block(first, count, planes))
    if not found:
        raise Quarantined("slide-xml", "description")
    return found


def _is_tissue(tiff: PyramidTiff, image: Element, blocks: list[_Block]) -> bool:
    names = [local_name(image), image.get("Name") or "", image.get("ID") or ""]
    if any(_OVERVIEW.search(name) for name in names):
        return False
    return all(
        read_shape(tiff, tiff.directories[block.first + step]).tiled
        for block in blocks
        for step in range(block.count)
    )


def _image(image: Element, blocks: list[_Block], start: int) -> str:
    """Build the image's element; its planes are numbered from page ``start``."""
    pixels = named_children(image, "Pixels")[0]
    inner = "".join(copy_allowed(one, _CHANNEL) for one in named_children(pixels, "Channel"))
    for block in blocks:
        inner += write_element("TiffData", {**block.planes, "IFD": start, "PlaneCount": block.count})
        start += block.count
    kept = {
        name: value
        for name, form in _PIXELS.items()
        if (value := (pixels.get(name) or "").strip()) and form.fullmatch(value)
    }
    # ImageDescription is ASCII: the micro sign must be a character reference.
    escaped = {name: value.replace("µ", "&#181;").replace("μ", "&#181;") for name, value in kept.items()}
    settings = "".join(
        copy_allowed(one, AllowedElement({"ID": _ID})) for one in named_children(image, "ObjectiveSettings")
    )
    given = image.get("ID") or ""
    return write_element(
        "Image",
        {"ID": given} if _ID.fullmatch(given) else None,
        settings + write_element("Pixels", escaped, inner),
    )


def _page(tiff: PyramidTiff, directory: Directory, cleaner: TileCleaner) -> OutputPage:
    page = copy_page(tiff, directory, cleaner)
    base = read_shape(tiff, directory)
    for one in tiff.sub_directories(directory):
        shape = read_shape(tiff, one)
        if shape.tiled and is_reduction(shape, base):
            page.subs.append(copy_page(tiff, one, cleaner))
    return page


def _levels(tiff: PyramidTiff, directory: Directory) -> list[tuple[int, int]]:
    shapes = [read_shape(tiff, one) for one in (directory, *tiff.sub_directories(directory))]
    return [(shape.width, shape.height) for shape in shapes]
