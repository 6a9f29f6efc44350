"""Image Pixel attributes (PS3.3 C.7.6.3) that determine the size of pixel data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

Area = tuple[int, int, int, int]
"""Left, top, right, bottom: half-open bounds in pixels of a frame."""

_SAMPLES, _PHOTOMETRIC, _FRAMES, _ROWS, _COLUMNS = 0x00280002, 0x00280004, 0x00280008, 0x00280010, 0x00280011
_ALLOCATED, _STORED, _HIGH_BIT, _SIGNED = 0x00280100, 0x00280101, 0x00280102, 0x00280103
_PLANAR = 0x00280006
IMAGE_PIXEL = frozenset(
    [_ROWS, _COLUMNS, _ALLOCATED, _STORED, _HIGH_BIT, _SIGNED, _SAMPLES, _PHOTOMETRIC, _FRAMES, _PLANAR]
)
"""Tags that a walk must capture for ``read_geometry``."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Image Pixel attributes that determine the size of pixel data and the bits in use.

    ``planar`` is Planar Configuration: 1 if samples are stored plane by plane. ``floating`` is set for Float
    or Double Float Pixel Data.
    """

    rows: int
    columns: int
    samples: int
    frames: int
    bits_allocated: int
    bits_stored: int
    high_bit: int
    signed: bool
    photometric: str
    planar: int = 0
    floating: bool = False

    @property
    def frame_bits(self) -> int:
        """Number of bits of one uncompressed frame."""
        # 4:2:2 stores Y1 Y2 Cb Cr for two pixels: two samples per pixel on average.
        samples = 2 if self.photometric.endswith("_422") and self.samples == 3 else self.samples
        return self.rows * self.columns * samples * self.bits_allocated


def snap_area(area: Area, shape: tuple[int, int], width: int, height: int) -> Area:
    """Extend ``area`` to whole cells of ``width`` by ``height`` pixels, within ``shape`` (rows, columns)."""
    left, top = max(area[0], 0) // width * width, max(area[1], 0) // height * height
    right, bottom = -(-area[2] // width) * width, -(-area[3] // height) * height
    return left, top, max(min(right, shape[1]), left), max(min(bottom, shape[0]), top)


class CapturedValues(Protocol):
    """Top-level values that a walk over an object captured."""

    def text(self, tag: int) -> str:
        """Return a value as trimmed text; empty if the attribute is absent."""

    def number(self, tag: int, default: int) -> int:
        """Return a US value, or the default."""


def read_geometry(walk: CapturedValues) -> Geometry | None:
    """Return the geometry that the attributes state; None if they state no image."""
    rows, columns, allocated = (walk.number(tag, 0) for tag in (_ROWS, _COLUMNS, _ALLOCATED))
    if not rows or not columns or not allocated:
        return None
    frames = walk.text(_FRAMES).split("\\")[0].strip()
    stored = walk.number(_STORED, allocated)
    # An invalid Number of Frames counts as 1; pixels of further frames are then surplus.
    return Geometry(
        rows=rows,
        columns=columns,
        samples=walk.number(_SAMPLES, 1),
        frames=max(int(frames), 1) if frames.isascii() and frames.isdigit() and len(frames) < 10 else 1,
        bits_allocated=allocated,
        bits_stored=stored,
        high_bit=walk.number(_HIGH_BIT, stored - 1),
        signed=walk.number(_SIGNED, 0) == 1,
        photometric=walk.text(_PHOTOMETRIC),
        planar=walk.number(_PLANAR, 0),
    )
