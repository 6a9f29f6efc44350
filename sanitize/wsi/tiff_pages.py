"""Copying of TIFF pages: an allow list of the tags that decoding needs, with type and count checked."""

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
# The names of tags without a constant are those of TIFF 6.0 and, from 32997, of libtiff.
NEEDED = {
    254: 1,  # NewSubfileType
    255: 1,  # SubfileType
    WIDTH: 1,
    LENGTH: 1,
    BITS: 4,
    COMPRESSION: 1,
    262: 1,  # PhotometricInterpretation
    266: 1,  # FillOrder
    274: 1,  # Orientation
    SAMPLES: 1,
    ROWS_PER_STRIP: 1,
    282: 1,  # XResolution
    283: 1,  # YResolution
    PLANAR: 1,
    296: 1,  # ResolutionUnit
    317: 1,  # Predictor
    320: 3 * 65536,  # ColorMap: 2 ** 16 entries of three colors
    TILE_WIDTH: 1,
    TILE_LENGTH: 1,
    338: 4,  # ExtraSamples
    339: 4,  # SampleFormat
    TABLES: 1 << 16,
    530: 2,  # YCbCrSubSampling
    531: 1,  # YCbCrPositioning
    532: 6,  # ReferenceBlackWhite
    32997: 1,  # ImageDepth
    32998: 1,  # TileDepth
}
"""Tags that decoding a page may need, with the greatest count of each. All others are removed."""
# No ASCII: none of these tags needs text.
_NUMERIC = frozenset([1, 3, 4, 5])
_BYTES = frozenset([1, 7])
_POINTERS = frozenset([3, 4, 16])
_MOST_PIXELS = 1 << 44
# Four times the tiles of a whole slide at 40x; TIFF 6.0 section 15 requires tile sides in multiples of 16.
_MOST_TILES, _MOST_STRIPS, _LEAST_SIDE = 1 << 20, 1 << 16, 16


@dataclass(frozen=True, slots=True)
class ImageShape:
    """Shape of a page's image.

    Attributes
    ----------
    width, height : int
        Size in pixels.
    tiled : bool
        Whether the image is in tiles, not strips.
    compression : int
        Value of Compression (tag 259).
    subfile : int
        Value of NewSubfileType (tag 254).
    """

    width: int
    height: int
    tiled: bool
    compression: int
    subfile: int


def read_shape(tiff: PyramidTiff, directory: Directory) -> ImageShape:
    """Read the shape of a directory's image.

    Raises
    ------
    Quarantined
        ``tiff-structure`` if the size is missing or implausible.
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
    """Return whether an image has the aspect ratio of a larger one, as a pyramid level has."""
    if shape.width > base.width or shape.height > base.height:
        return False
    across, down = base.width / shape.width, base.height / shape.height
    # Vendors round levels up or down, to whole pixels or whole tiles of the larger level.
    slack = 1.01 + max(2 / shape.width, 2 / shape.height)
    return across / down < slack and down / across < slack


def is_padded_reduction(shape: ImageShape, base: ImageShape) -> bool:
    """Return whether an image could be a level in a pyramid that pads each level to whole tiles (Philips)."""
    # Padding changes the aspect ratio without a bound, so only the size can be compared.
    return shape.width <= base.width and shape.height <= base.height


def copy_page(
    tiff: PyramidTiff,
    directory: Directory,
    cleaner: TileCleaner,
    *,
    also: dict[int, FieldValue] | None = None,
    without: frozenset[int] = frozenset(),
) -> OutputPage:
    """Copy a page: its image data and the tags in `NEEDED`.

    Parameters
    ----------
    tiff : PyramidTiff
    directory : Directory
        The page in the source.
    cleaner : TileCleaner
    also : dict of int to FieldValue, optional
        Further tags to write, for example a new description; they take precedence.
    without : frozenset of int
        Tags of `NEEDED` to leave out.

    Returns
    -------
    OutputPage

    Raises
    ------
    Quarantined
        ``tiff-structure`` if a tag has an unexpected type or count, or the tiles do not match the image
        size; otherwise see `clean_segments`.
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
        # Even when wiping: the value of a tag inside a "tile" would not be zeroed.
        _require_apart(tiff, *tiles)
        return OutputPage(values, (), True, pointers=_pointers(tiff, directory))
    return OutputPage(values, clean_segments(tiff, directory, cleaner), read_shape(tiff, directory).tiled)


def _profile(tiff: PyramidTiff, directory: Directory, cleaner: TileCleaner) -> dict[int, FieldValue]:
    """Return the numeric part of a page's ICC profile, if the policy keeps it and it is well-formed."""
    field = directory.fields.get(_PROFILE)
    if field is None or not cleaner.profiles:
        return {}
    sound = field.type in _BYTES and field.count <= _MOST_OF_PROFILE
    clean = reduce_profile(tiff.raw(field)) if sound else None
    cleaner.count("C:color-profile" if clean else "X:color-profile")
    return {_PROFILE: FieldValue(7, len(clean), clean)} if clean else {}


def _pointers(tiff: PyramidTiff, directory: Directory) -> dict[int, FieldValue]:
    """Return the tile offsets and byte counts of a page as they are in the source."""
    found = {}
    for tag in (TILE_OFFSETS, TILE_COUNTS):
        field = directory.fields.get(tag)
        if field is None or field.type not in _POINTERS:
            raise Quarantined("tiff-structure", "structure")
        found[tag] = FieldValue(field.type, field.count, tiff.raw(field), field.high)
    return found


def clean_segments(tiff: PyramidTiff, directory: Directory, cleaner: TileCleaner) -> list[tuple[Piece, ...]]:
    """Clean the tiles or strips of a page.

    Returns
    -------
    list of tuple of Piece
        The pieces of each tile or strip, in the order of the page.

    Raises
    ------
    Quarantined
        ``tiff-structure`` if their number does not match the image size, ``tiff-too-many-values`` if it
        exceeds the limit, ``tiff-overlapping-data`` if one contains the value of a tag; otherwise see
        `TileCleaner.clean`.
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
    # In the order of the file, not of the page: the source is read once, sequentially.
    for index in np.argsort(offsets, kind="stable").tolist():
        one = where[index], lengths[index], sizes[index]
        # Writers let all blank tiles point to one run of the file.
        if one != last:
            last, clean = one, cleaner.clean(one[0], one[1], shape.compression, one[2])
        segments[index] = clean
    copies = [piece for segment in segments for piece in segment if isinstance(piece, Copy)]
    _require_apart(tiff, [piece.offset for piece in copies], [piece.length for piece in copies])
    return segments


def _decoded_sizes(tiff: PyramidTiff, directory: Directory, shape: ImageShape, count: int) -> list[int]:
    """Return the decoded size in bytes of each of ``count`` tiles or strips; check their number."""
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
    # TIFF pads each row of samples to a whole byte.
    row = (across * depth * (1 if planar else samples) + 7) // 8
    if shape.tiled:
        return [row * down] * count
    # Unlike tiles, the last strip is not padded (TIFF 6.0, RowsPerStrip).
    return [row * min(down, shape.height - strip * down) for strip in range(plane)] * planes


def _require_apart(tiff: PyramidTiff, offsets: ArrayLike, counts: ArrayLike) -> None:
    """Refuse a page whose image data contains the value of a tag, which would survive as pixels."""
    if not tiff.values.are_apart_from(offsets, counts):
        raise Quarantined("tiff-overlapping-data", "structure")
