"""Text that is legible only where overlay planes are drawn over the pixels, as a viewer does.

Planes and pixels are searched each by themselves as well. Here they are searched together, since letters
may be divided between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from medsanitize.sanitize.burned_in.clean import find_areas
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions, FrameAreas
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import WrittenPixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import EXPLICIT_LITTLE, TRANSFER_SYNTAXES
from numpy.typing import NDArray

Cells = NDArray[np.bool_]
"""Pixels of a plane, shape (frames, rows, columns)."""

_NATIVE = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]
_HIGHEST = 65535
# Pixels of the frames that are in memory at a time.
_AT_ONCE = 1 << 25


@dataclass(frozen=True, slots=True)
class DrawnPlane:
    """An overlay plane and where it is drawn (PS3.3 C.9.2).

    Attributes
    ----------
    cells : Cells
    left, top : int
        Its first pixel in the image, from 0; may be negative.
    first : int or None
        The frame of the image (from 0) over which its first frame is drawn; None for a plane of one frame
        that is drawn over all.
    """

    cells: Cells
    left: int = 0
    top: int = 0
    first: int | None = None

    def over(self, frame: int, shape: tuple[int, int]) -> Cells | None:
        """Return the plane's pixels over a frame (from 0) of the image; None if it is not drawn over it."""
        number = 0 if self.first is None else frame - self.first
        if not 0 <= number < len(self.cells):
            return None
        ink = np.zeros(shape, bool)
        (top, bottom, y), (left, right, x) = self._shared(shape)
        if top < bottom and left < right:
            ink[top:bottom, left:right] = self.cells[number, y : y + bottom - top, x : x + right - left]
        return ink

    def without(self, found: FrameAreas) -> Cells:
        """Return the plane's pixels outside areas of the image's frames."""
        cells = self.cells.copy()
        for frame, areas in found.items():
            number = 0 if self.first is None else frame - self.first
            if not 0 <= number < len(cells):
                continue
            for left, top, right, bottom in areas:
                rows = slice(max(0, top - self.top), max(0, bottom - self.top))
                cells[number, rows, max(0, left - self.left) : max(0, right - self.left)] = False
        return cells

    def _shared(self, shape: tuple[int, int]) -> list[tuple[int, int, int]]:
        """Per axis: first and last pixel of the image that the plane covers, and the first of the plane."""
        sides = zip((self.top, self.left), self.cells.shape[1:], shape, strict=True)
        return [(max(0, at), min(whole, at + size), max(0, -at)) for at, size, whole in sides]


def areas_with_planes(
    image: ImageFrames, planes: Sequence[DrawnPlane], order: CleaningOptions, reader: TextReader
) -> FrameAreas:
    """Return the areas with identifying or unread text in each frame, with planes drawn over it.

    Parameters
    ----------
    image : ImageFrames
    planes : sequence of DrawnPlane
    order : CleaningOptions
    reader : TextReader

    Returns
    -------
    dict
        Index of a frame -> areas to blank in its pixels and in the planes.

    Raises
    ------
    Quarantined
        ``burned-in-text-unread``, ``pixels-undecodable`` or ``refused-in-review``.
    """
    found: dict[int, tuple[Area, ...]] = {}
    # What the review blanks is blanked in the pixels anyway; its frames are numbered otherwise here.
    kept = tuple(one for one in order.decisions if one.verdict != "blank")
    order = replace(order, decisions=kept)
    for run in _runs(image.geometry, planes):
        # Viewers draw planes in any gray value, and the other half of a letter may be bright or dark.
        for bright in (True, False):
            composed = _as_image([_with_ink(image, *one, bright=bright) for one in run], image.geometry)
            for (index, _), areas in zip(run, find_areas(composed, order, reader), strict=True):
                found[index] = tuple(dict.fromkeys((*found.get(index, ()), *areas)))
    return {index: areas for index, areas in found.items() if areas}


def _runs(geometry: Geometry, planes: Sequence[DrawnPlane]) -> Iterator[list[tuple[int, Cells]]]:
    """Frames over which planes are drawn, with their ink, in runs that fit into memory."""
    shape = geometry.rows, geometry.columns
    most = max(1, _AT_ONCE // (shape[0] * shape[1]))
    run: list[tuple[int, Cells]] = []
    for index in range(geometry.frames):
        over = [ink for plane in planes if (ink := plane.over(index, shape)) is not None]
        if any(ink.any() for ink in over):
            run.append((index, np.logical_or.reduce(over)))
        if len(run) == most:
            yield run
            run = []
    if run:
        yield run


def _with_ink(image: ImageFrames, index: int, ink: Cells, *, bright: bool) -> NDArray[np.uint16]:
    """Draw ink over the stored gray values of a frame, just beyond one end of their range."""
    frame = image.stored.frame(index)
    values = image.gray(image.samples(frame), frame)
    # Only samples of 32 bits have a larger range than fits between both inks.
    scale = min(1.0, (_HIGHEST - 2) / max(float(np.ptp(values)), 1.0))
    drawn: NDArray[np.uint16] = ((values - values.min()) * np.float32(scale) + 1).astype(np.uint16)
    drawn[ink] = drawn.max() + 1 if bright else 0
    return drawn


def _as_image(frames: Sequence[NDArray[np.uint16]], geometry: Geometry) -> ImageFrames:
    """Gray frames as an image that can be read; inverted, if the original is."""
    model = "MONOCHROME1" if geometry.photometric == "MONOCHROME1" else "MONOCHROME2"
    made = Geometry(geometry.rows, geometry.columns, 1, len(frames), 16, 16, 15, False, model)
    pixels = WrittenPixels([b"", *(frame.astype("<u2").tobytes() for frame in frames)], [], 0)
    return ImageFrames(StoredFrames(b"", pixels, EXPLICIT_LITTLE, _NATIVE, made), _NATIVE, made)
