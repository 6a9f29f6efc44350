"""Zeiss CZI: sub-blocks of pixels with a directory; label, preview and thumbnail are attachments.

The file is rebuilt from the pixels of all sub-blocks, a new directory and XML with sizes, channels, objective
and scaling. Attachments, GUIDs, deleted segments and the metadata of sub-blocks are not copied.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree.ElementTree import Element

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.czi import (
    SEGMENT,
    CziFile,
    SubBlock,
    directory_segment,
    file_segment,
    looks_like_czi,
    metadata_segment,
    padding,
    pixel_range,
    read_czi,
    subblock_header,
)
from medsanitize.sanitize.formats.czi_tiles import clean_jpegxr, zstd_length
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.tiff.writer import segment_length
from medsanitize.sanitize.formats.xml import (
    NUMBER,
    AllowedElement,
    child_text,
    copy_allowed,
    named_children,
    parse_xml,
    write_element,
)
from medsanitize.sanitize.pieces import Copy, OutFile, Piece
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiles import JPEG, LZW, NONE, TileCleaner

NAME = "zeiss"
_BYTES = {0: 1, 1: 2, 2: 4, 3: 3, 4: 6, 8: 12, 9: 4, 10: 8, 12: 4}
"""Bytes per pixel of each CZI pixel type."""
_ID = re.compile(r"[A-Z][A-Za-z]{1,23}:\d{1,6}(?::\d{1,6}){0,3}")
_WORD = re.compile(r"Gray8|Gray16|Gray32Float|Bgr24|Bgr48|Bgr96Float|Bgra32")
_COLOR = re.compile(r"#[0-9A-Fa-f]{6,8}")
_AXIS = re.compile(r"[XYZ]")
# Channel names are free text that a user enters: only common ones are kept.
_CHANNEL_NAMES = re.compile(
    r"DAPI|FITC|Cy[357]|TRITC|GFP|YFP|CFP|mCherry|Texas ?Red|Brightfield|TL ?Brightfield|AF ?\d{3}|"
    r"Ch\d{1,2}|C\d{1,2}",
    re.IGNORECASE,
)
_NUMBER = AllowedElement(text=NUMBER)
_SIZES = {f"Size{axis}": _NUMBER for axis in "XYCZTRSIHMBV"}
_CHANNEL = AllowedElement(
    {"Id": _ID, "Name": _CHANNEL_NAMES},
    children={
        "PixelType": AllowedElement(text=_WORD),
        "ComponentBitCount": _NUMBER,
        "Color": AllowedElement(text=_COLOR),
    },
)
_DOCUMENT = AllowedElement(
    children={
        "Metadata": AllowedElement(
            children={
                "Information": AllowedElement(
                    children={
                        "Image": AllowedElement(
                            children=_SIZES
                            | {
                                "PixelType": AllowedElement(text=_WORD),
                                "ComponentBitCount": _NUMBER,
                                "Dimensions": AllowedElement(
                                    children={"Channels": AllowedElement(children={"Channel": _CHANNEL})}
                                ),
                            }
                        ),
                        "Instrument": AllowedElement(
                            children={
                                "Objectives": AllowedElement(
                                    children={
                                        "Objective": AllowedElement(
                                            {"Id": _ID},
                                            children={"NominalMagnification": _NUMBER, "LensNA": _NUMBER},
                                        )
                                    }
                                )
                            }
                        ),
                    }
                ),
                "Scaling": AllowedElement(
                    children={
                        "Items": AllowedElement(
                            children={"Distance": AllowedElement({"Id": _AXIS}, children={"Value": _NUMBER})}
                        )
                    }
                ),
            }
        )
    }
)


def recognizes(view: SlideView) -> bool:
    """Return whether the file begins like a CZI."""
    return looks_like_czi(view.data)


def plan_edits(view: SlideView, rules: WholeSlides, name: SlideName) -> EditPlan:
    """Plan the released slide: the pixels of every sub-block with a new directory and XML.

    Raises
    ------
    Quarantined
        ``czi-structure``, ``slide-compression``, ``slide-xml`` or ``tiff-overlapping-data``; for pixels see
        `TileCleaner.clean`.
    """
    source = read_czi(view.data)
    cleaner = view.cleaner(rules)
    # CZI requires a file GUID; a keyed one is reproducible and does not link to the source.
    guid = name.token("czi guid", 16)
    at = len(file_segment(guid, 0, 0))
    pieces: list[Piece] = []
    placed: list[tuple[SubBlock, int]] = []
    taken: list[tuple[int, int]] = []
    for block in source.blocks:
        where, length = pixel_range(view.data, block)
        taken.append((where, length))
        pixels = _pixels(cleaner, block, where, length)
        size = segment_length(pixels)
        head = subblock_header(block, at, size)
        tail = padding(len(head) - SEGMENT + size)
        pieces += [head, *pixels, tail]
        placed.append((block, at))
        at += len(head) + size + len(tail)
    taken.sort()
    if any(one[0] + one[1] > two[0] for one, two in pairwise(taken)):
        raise Quarantined("tiff-overlapping-data", "structure")
    directory = directory_segment(placed)
    root = parse_xml(source.xml) if source.xml else None
    xml = '<?xml version="1.0"?>' + (_xml(root) if root is not None else "<ImageDocument/>")
    # Built last although it comes first: it contains the offsets of directory and metadata.
    head = file_segment(guid, at, at + len(directory))
    counts = {"C:slide-description": 1} | ({"X:slide-picture": 1} if source.attachments else {})
    files = (OutFile(".czi", (head, *pieces, directory, metadata_segment(xml.encode("ascii")))),)
    return EditPlan(files, _facts(source, root), counts | cleaner.rules)


def _pixels(cleaner: TileCleaner, block: SubBlock, at: int, length: int) -> tuple[Piece, ...]:
    wide, high = block.extent(b"X"), block.extent(b"Y")
    if wide is None or high is None or block.pixel_type not in _BYTES:
        raise Quarantined("czi-structure", "structure")
    # Blocks of lower pyramid levels store fewer pixels than the extent that they cover.
    stored = [one.stored or one.size for one in block.extents]
    size = math.prod(stored) * _BYTES[block.pixel_type]
    if block.compression == 0:
        return cleaner.clean(at, length, NONE, size)
    if block.compression == 1:
        return cleaner.clean(at, length, JPEG)
    if block.compression == 2:
        return cleaner.clean(at, length, LZW, size)
    if block.compression == 4:
        return clean_jpegxr(cleaner.data, at, length)
    if block.compression in (5, 6):
        used = zstd_length(cleaner.data, at, length, headed=block.compression == 6)
        return (Copy(at, used),)
    raise Quarantined("slide-compression", "structure")


def _xml(root: Element) -> str:
    return copy_allowed(root, _DOCUMENT) if root.tag == "ImageDocument" else write_element("ImageDocument")


def _facts(source: CziFile, root: Element | None) -> SlideFacts:
    # Only blocks of level 0 store as many pixels as they cover.
    plain = [block for block in source.blocks if (x := block.extent(b"X")) and x.size == (x.stored or x.size)]
    ends = {
        axis: max((one.start + one.size for b in plain if (one := b.extent(axis))), default=0)
        - min((one.start for b in plain if (one := b.extent(axis))), default=0)
        for axis in (b"X", b"Y")
    }
    mpp = objective = None
    if root is not None:
        for meta in named_children(root, "Metadata"):
            for items in (i for s in named_children(meta, "Scaling") for i in named_children(s, "Items")):
                for distance in named_children(items, "Distance"):
                    value = child_text(distance, "Value")
                    if distance.get("Id") == "X" and NUMBER.fullmatch(value):
                        # CZI scales are in meters.
                        mpp = float(value) * 1e6
            power = child_text(
                meta, "Information", "Instrument", "Objectives", "Objective", "NominalMagnification"
            )
            objective = float(power) if NUMBER.fullmatch(power) else None
    return SlideFacts(NAME, ((ends[b"X"], ends[b"Y"]),), mpp, objective)
