"""Text in the bitmaps of overlay planes, read and blanked like burned-in text; where planes are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from struct import unpack
from typing import TYPE_CHECKING

import numpy as np
from medsanitize.policies.model import Policy
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.classify import find_identifying_boxes
from medsanitize.sanitize.burned_in.clean import clean_frames
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions, FrameAreas
from medsanitize.sanitize.burned_in.drawn_planes import DrawnPlane
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.dicom.overlays import FIRST_FRAME, ORIGIN, Bitmap, Reader, is_cleaned
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import WrittenPixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import EXPLICIT_LITTLE, TRANSFER_SYNTAXES
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import KnownTerms

if TYPE_CHECKING:
    from medsanitize.sanitize.dicom.walk_state import WalkState

_NATIVE = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]


def plane_reader(policy: Policy, cleaner: TextCleaner, reader: TextReader, terms: KnownTerms) -> Reader:
    """Return a function that blanks identifying text in the bitmap of a plane and verifies the result.

    Parameters
    ----------
    policy : Policy
    cleaner : TextCleaner
        Decides which text identifies.
    reader : TextReader
    terms : KnownTerms
        Identifiers of the patient and study.

    Returns
    -------
    Reader
    """

    def judge(boxes: tuple[TextBox, ...]) -> tuple[TextBox, ...]:
        return find_identifying_boxes(boxes, cleaner, terms)

    order, most = CleaningOptions(judge, policy.pixels.mask == "all-text"), policy.dicom.limits.inflated_bytes

    def read(bits: bytes, rows: int, columns: int, frames: int) -> bytes | None:
        if rows * columns * frames > most:
            return None
        # Overlay bits are packed with the first pixel in the least significant bit (PS3.5 8.1.2).
        cells = np.unpackbits(np.frombuffer(bits, np.uint8), count=rows * columns * frames, bitorder="little")
        geometry = Geometry(rows, columns, 1, frames, 8, 8, 7, False, "MONOCHROME2")
        pieces = [(frame * np.uint8(255)).tobytes() for frame in cells.reshape(frames, -1)]
        stored = StoredFrames(b"", WrittenPixels([b"", *pieces], [], 0), EXPLICIT_LITTLE, _NATIVE, geometry)
        try:
            clean_frames(
                ImageFrames(stored, _NATIVE, geometry), order, reader, decompress=False, most_bytes=most
            )
        except Quarantined:
            return None
        shown = b"".join(stored.released(index) for index in range(frames))
        return np.packbits(np.frombuffer(shown, np.uint8) > 0, bitorder="little").tobytes()

    return read


def drawn_planes(walk: WalkState, planes: Mapping[int, Bitmap]) -> dict[int, DrawnPlane]:
    """Return where viewers draw planes with action ``C`` over the pixels.

    Parameters
    ----------
    walk : WalkState
    planes : dict
        As `kept_planes` returns them.
    """
    found = {}
    for group, bitmap in planes.items():
        if not is_cleaned(walk, group):
            continue
        values, shape = walk.overlays[group], (bitmap.frames, bitmap.rows, bitmap.columns)
        cells = np.unpackbits(np.frombuffer(bitmap.data, np.uint8), count=prod(shape), bitorder="little")
        at = values.get(ORIGIN, b"")
        top, left = unpack("<2h", at) if len(at) == 4 else (1, 1)
        first = max(0, int.from_bytes(values.get(FIRST_FRAME, b"")[:2], "little") - 1)
        # Viewers draw a plane of one frame over all frames, whatever frame it states.
        over = first if bitmap.frames > 1 else None
        found[group] = DrawnPlane(cells.reshape(shape) > 0, left - 1, top - 1, over)
    return found


def without_areas(
    planes: Mapping[int, Bitmap], drawn: Mapping[int, DrawnPlane], found: FrameAreas
) -> dict[int, Bitmap]:
    """Return planes of which areas of the image are blanked.

    Parameters
    ----------
    planes, drawn : dict
        As `kept_planes` and `drawn_planes` return them.
    found : dict
        Index of a frame of the image -> areas.
    """
    new = dict(planes)
    for group, plane in drawn.items() if found else ():
        data = np.packbits(plane.without(found), bitorder="little").tobytes()
        new[group] = replace(planes[group], data=data)
    return new
