"""What stays of a TIFF directory: the tags decoding needs, each in the form and number it must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.sanitize.formats.icc import reduce_profile
from medsanitize.sanitize.formats.tiff.page import FieldValue, OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import (
    COMPRESSION,
    LENGTH,
    STRIP_COUNTS,
    STRIP_OFFSETS,
    TILE_COUNTS,
    TILE_OFFSETS,
    WIDTH,
    PyramidTiff,
)
from medsanitize.sanitize.formats.tiff_directory import Directory
from medsanitize.sanitize.pieces import Copy, Piece
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.tiles import TileCleaner, clean_tables

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SAMPLES, BITS, ROWS_PER_STRIP, PLANAR, TILE_WIDTH, TILE_LENGTH, TABLES = 277, 258, 278, 284, 322, 323, 347
_PROFILE, _MOST_OF_PROFILE = 34675, 1 << 24
RESOLUTION = (282, 283, 296)
NEEDED = {
    254: 1,
    255: 1,
    WIDTH: 1,
    LENGTH: 1,
    BITS: 4,
    COMPRESSION: 1,
    262: 1,
    266: 1,
    274: 1,
    SAMPLES: 1,
    ROWS_PER_STRIP: 1,
    282: 1,
    283: 1,
    PLANAR: 1,
    296: 1,
    317: 1,
    320: 3 * 65536,
    TILE_WIDTH: 1,
    TILE_LENGTH: 1,
    338: 4,
    339: 4,
    TABLES: 1 << 16,
    530: 2,
    531: 1,
    532: 6,
    32997: 1,
    32998: 1,
}
"""Tags that decoding a page may need, with the most values each can have. All others go."""
_NUMERIC = frozenset([1, 3, 4, 5])
_BYTES = frozenset([1, 7])
_POINTERS = frozenset([3, 4, 16])
_MOST_PIXELS = 1 << 44
_MOST_TILES, _MOST_STRIPS, _LEAST_SIDE = 1 << 20, 1 << 16, 16
"""Of a page: four times the tiles of a whole glass at 40 times; TIFF 6.0 wants sides of 16, 32 ... pixels."""


@dataclass(frozen=True, slots=True)
class ImageShape:
    """What a directory says of its picture: size in pixels, tiled or in strips, compression."""

    width: int
    height: int
    tiled: bool
    compression: int
    subfile: int


def read_shape(tiff: PyramidTiff, directory: Directory) -> ImageShape:
    """Read the shape of a directory's picture.

    Raises
    ------
    Refused
        ``tiff-structure``: it has no size, or an impossible one.
    """
    width, height = tiff.number(directory, WIDTH, 0) or 0, tiff.number(directory, LENGTH, 0) or 0
    if not width or not height or width * height > _MOST_PIXELS:
        raise Quarantined("tiff-structure", "structure")
    return ImageShape(
        width,
        height,
        TILE_OFFSETS in directory.fields,
        tiff.number(directory, COMPRESSION, 1) or 1,
        tiff.number(directory, 254, 0) or 0,
    )


def is_reduction(shape: ImageShape, base: ImageShape) -> bool:
    """Whether a picture has the proportions of another, larger one, as a level of its pyramid has.

    Levels are rounded (up or down) to whole pixels or whole tiles of the larger one.
    """
    if shape.width > base.width or shape.height > base.height:
        return False
    across, down = base.width / shape.width, base.height / shape.height
    slack = 1.01 + max(2 / shape.width, 2 / shape.height)
    return across / down < slack and down / across < slack


def is_padded_reduction(shape: ImageShape, base: ImageShape) -> bool:
    """Whether a picture could be a level that is padded to whole tiles at each halving, as Philips does."""
    return shape.width <= base.width and shape.height <= base.height


def copy_page(
    tiff: PyramidTiff,
    directory: Directory,
    cleaner: TileCleaner,
    *,
    also: dict[int, FieldValue] | None = None,
    without: frozenset[int] = frozenset(),
) -> OutputPage:
    """A page with its picture and the tags that decoding needs.

    Parameters
    ----------
    also : dict, optional
        Values to write beside those, or in their place (a description made anew).
    without : frozenset of int
        Needed tags that this vendor's readers do without.

    Raises
    ------
    Refused
        ``tiff-structure`` when a tag's values or the tiles contradict the picture's size.
    """
    values: dict[int, FieldValue] = {}
    for tag, most in NEEDED.items():
        field = directory.fields.get(tag)
        if field is None or tag in without:
            continue
        if tag == TABLES:
            data = clean_tables(tiff.raw(field))
            values[tag] = FieldValue(7, len(data), data)
            continue
        if field.type not in _NUMERIC or not 0 < field.count <= most:
            raise Quarantined("tiff-structure", "structure")
        values[tag] = FieldValue(field.type, field.count, tiff.raw(field), field.high)
    values.update(_profile(tiff, directory, cleaner))
    values.update(also or {})
    if cleaner.untouched and TILE_OFFSETS in directory.fields:
        tiles = [(tiff.numbers(directory, tag)) for tag in (TILE_OFFSETS, TILE_COUNTS)]
        _require_apart(tiff, *tiles)
        return OutputPage(values, (), True, pointers=_pointers(tiff, directory))
    return OutputPage(values, clean_segments(tiff, directory, cleaner), read_shape(tiff, directory).tiled)


def _profile(tiff: PyramidTiff, directory: Directory, cleaner: TileCleaner) -> dict[int, FieldValue]:
    """The numbers of a page's colour profile, where the policy keeps them and they are well formed."""
    field = directory.fields.get(_PROFILE)
    if field is None or not cleaner.profiles:
        return {}
    sound = field.type in _BYTES and field.count <= _MOST_OF_PROFILE
    clean = reduce_profile(tiff.raw(field)) if sound else None
    cleaner.count("C:colour-profile" if clean else "X:colour-profile")
    return {_PROFILE: FieldValue(7, len(clean), clean)} if clean else {}


def _pointers(tiff: PyramidTiff, directory: Directory) -> dict[int, FieldValue]:
    """Offsets and counts of a page's tiles as they are in the source."""
    found = {}
    for tag in (TILE_OFFSETS, TILE_COUNTS):
        field = directory.fields.get(tag)
        if field is None or field.type not in _POINTERS:
            raise Quarantined("tiff-structure", "structure")
        found[tag] = FieldValue(field.type, field.count, tiff.raw(field), field.high)
    return found


def clean_segments(tiff: PyramidTiff, directory: Directory, cleaner: TileCleaner) -> list[tuple[Piece, ...]]:
    """The cleaned tiles or strips of a page, in order.

    Raises
    ------
    Refused
        ``tiff-structure`` when their number is not what the picture's size asks for,
        ``tiff-too-many-values`` when there are too many, ``tiff-overlapping-data`` when one holds the value
        of a tag; and as `TileCleaner.clean`.
    """
    import numpy as np

    shape = read_shape(tiff, directory)
    tags = (TILE_OFFSETS, TILE_COUNTS) if shape.tiled else (STRIP_OFFSETS, STRIP_COUNTS)
    offsets, counts = (tiff.numbers(directory, tag) for tag in tags)
    if len(offsets) != len(counts):
        raise Quarantined("tiff-structure", "structure")
    sizes = _decoded_sizes(tiff, directory, shape, len(offsets))
    where, lengths = offsets.tolist(), counts.tolist()
    segments: list[tuple[Piece, ...]] = [()] * len(where)
    last, clean = (-1, -1, -1), tuple[Piece, ...]()
    for index in np.argsort(offsets, kind="stable").tolist():  # so that the file is read once and forward
        one = where[index], lengths[index], sizes[index]
        if one != last:
            last, clean = one, cleaner.clean(one[0], one[1], shape.compression, one[2])
        segments[index] = clean
    copies = [piece for segment in segments for piece in segment if isinstance(piece, Copy)]
    _require_apart(tiff, [piece.offset for piece in copies], [piece.length for piece in copies])
    return segments


def _decoded_sizes(tiff: PyramidTiff, directory: Directory, shape: ImageShape, count: int) -> list[int]:
    """Bytes of each of ``count`` tiles or strips, decoded; refuses another number than the picture has."""
    samples = tiff.number(directory, SAMPLES, 1) or 1
    bits = tiff.numbers(directory, BITS)
    depth = int(bits[0]) if len(bits) else 1
    planar = (tiff.number(directory, PLANAR, 1) or 1) == 2
    if samples > 16 or depth > 64:
        raise Quarantined("tiff-structure", "structure")
    if shape.tiled:
        across, down = tiff.number(directory, TILE_WIDTH, 0) or 0, tiff.number(directory, TILE_LENGTH, 0) or 0
        if across < _LEAST_SIDE or down < _LEAST_SIDE:
            raise Quarantined("tiff-structure", "structure")
        plane, most = -(-shape.width // across) * -(-shape.height // down), _MOST_TILES
    else:
        across, down = shape.width, tiff.number(directory, ROWS_PER_STRIP, shape.height) or shape.height
        down = min(down, shape.height)
        plane, most = -(-shape.height // down), _MOST_STRIPS
    planes = samples if planar else 1
    if count != plane * planes:
        raise Quarantined("tiff-structure", "structure")
    if count > most:
        raise Quarantined("tiff-too-many-values", "structure")
    row = (across * depth * (1 if planar else samples) + 7) // 8
    if shape.tiled:
        return [row * down] * count
    return [row * min(down, shape.height - strip * down) for strip in range(plane)] * planes


def _require_apart(tiff: PyramidTiff, offsets: ArrayLike, counts: ArrayLike) -> None:
    """Refuse a page that would keep, as pixels, what a tag says."""
    if not tiff.values.are_apart_from(offsets, counts):
        raise Quarantined("tiff-overlapping-data", "structure")
