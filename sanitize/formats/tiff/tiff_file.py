"""TIFF 6.0, rewritten with the tags that decoding needs; strips are copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from struct import pack
from typing import Literal

from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.formats.ifd import Directory, TiffHeader, read_directory, read_tiff_header
from medsanitize.sanitize.formats.jpeg.jpeg_file import Jpeg, read_jpeg
from medsanitize.sanitize.formats.tiff.is_slide import has_slide_pages, is_thumbnail
from medsanitize.sanitize.formats.tiff.strips import encoded_length
from medsanitize.sanitize.formats.tiff_directory import (
    LONG,
    RATIONAL,
    SHORT,
    UNDEFINED,
    ValueRanges,
    starts_as_jpeg,
    value_ranges,
)
from medsanitize.sanitize.quarantine import Quarantined

WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC = 256, 257, 258, 259, 262
_SUBFILE, _FILL_ORDER, _OFFSETS, _ORIENTATION, _SAMPLES = 254, 266, 273, 274, 277
_ROWS_PER_STRIP, _COUNTS, _X_RES, _Y_RES, _PLANAR, _UNIT = 278, 279, 282, 283, 284, 296
_EXIF, _GPS, _INTEROPERABILITY = 34665, 34853, 40965
_PREDICTOR, _COLORS, _SUB_IFDS, _EXTRA, _FORMAT, _TABLES = 317, 320, 330, 338, 339, 347
_COEFFICIENTS, _SUBSAMPLING, _POSITIONING, _REFERENCE = 529, 530, 531, 532
_DNG = 50706
_KEPT_TAGS = frozenset(
    [
        *(WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, _OFFSETS, _ORIENTATION, _SAMPLES, _ROWS_PER_STRIP),
        *(
            _COUNTS,
            _X_RES,
            _Y_RES,
            _PLANAR,
            _UNIT,
            _PREDICTOR,
            _COLORS,
            _EXTRA,
            _FORMAT,
            _TABLES,
        ),
        *(_COEFFICIENTS, _SUBSAMPLING, _POSITIONING, _REFERENCE, _SUBFILE, _FILL_ORDER),
    ]
)
_RULES = {
    **dict.fromkeys((315, 316, 270, 269, 285, 305, 306, 271, 272, 33432), "X:tiff-text"),
    **{34665: "X:exif", 34853: "X:exif", 700: "X:xmp", 33723: "X:iptc", 34377: "X:iptc"},
    **{34675: "X:color-profile", 330: "X:tiff-thumbnail"},
}
NONE, LZW, JPEG, DEFLATE, PACKBITS = 1, 5, 7, 8, 32773
# 32946 is an older code of Deflate.
_COMPRESSIONS = {1: NONE, 5: LZW, 7: JPEG, 8: DEFLATE, 32946: DEFLATE, 32773: PACKBITS}
_MOST_PAGES = 200
_MOST_INNER = 64
# Largest plausible rational number, for example of resolution; larger ones are dropped.
_MAX_RATIONAL = 1_000_000


@dataclass(frozen=True, slots=True, repr=False)
class ImagePage:
    """One page: values of its tags, and its strips as they are written.

    ``colors`` is the palette, as three runs of 16-bit values. ``colorimetry`` are YCbCrCoefficients and
    ReferenceBlackWhite; ``density`` is the resolution (horizontal, vertical) and its unit (TIFF 6.0 tag 296).
    """

    columns: int
    rows: int
    bits: int
    compression: int
    photometric: int
    channels: int
    planar: int
    predictor: int
    rows_per_strip: int
    strips: tuple[bytes, ...]
    format: int = 1
    extra: tuple[int, ...] = ()
    colors: tuple[int, ...] = ()
    orientation: int = 1
    density: tuple[tuple[Fraction, ...], int] = ((), 1)
    tables: bytes = b""
    subsampling: tuple[int, ...] = ()
    positioning: int = 1
    colorimetry: tuple[tuple[Fraction, ...], tuple[Fraction, ...]] = ((), ())

    @property
    def planes(self) -> int:
        """Number of planes of strips: one per channel if planar, else one."""
        return self.channels if self.planar == 2 else 1

    @property
    def row_bytes(self) -> int:
        """Size of one uncompressed row of a strip, in bytes."""
        return (self.columns * self.bits * (self.channels // self.planes) + 7) // 8

    def strip_rows(self) -> list[int]:
        """Return the number of rows of every strip of one plane."""
        full, rest = divmod(self.rows, self.rows_per_strip)
        return [self.rows_per_strip] * full + ([rest] if rest else [])


@dataclass(frozen=True, slots=True, repr=False)
class TiffImage:
    """A TIFF file without metadata."""

    order: Literal["<", ">"]
    pages: tuple[ImagePage, ...]
    rules: tuple[str, ...]

    def write(self) -> bytes:
        """Return the file: header, then directory, values and strips of each page."""
        head = (b"II" if self.order == "<" else b"MM") + pack(f"{self.order}HI", 42, 8)
        pieces, place = [head], 8
        for number, page in enumerate(self.pages):
            last = number == len(self.pages) - 1
            piece = _write_page(page, self.order, place, len(self.pages) > 1, last)
            pieces.append(piece)
            place += len(piece)
        return b"".join(pieces)


def read_tiff_image(data: Buffer, most_bytes: int) -> TiffImage:
    """Read a TIFF file without the tags that are not needed to display its pages.

    Parameters
    ----------
    data : bytes or mmap
        The file.
    most_bytes : int
        Largest total size of the uncompressed pages.

    Raises
    ------
    Quarantined
        ``slide-not-supported`` for whole-slide images, ``big-tiff``, ``too-many-pages``, ``image-too-large``,
        ``tiff-unsupported``, ``tiff-structure``, ``tiff-truncated``, or a rule of ``read_jpeg``.
    """
    header = read_tiff_header(data)
    pages = _chain(data, header, header.first, _MOST_PAGES)
    inner = list(_inner(data, header, pages, _SUB_IFDS))
    if has_slide_pages(header, pages, inner):
        raise Quarantined("slide-not-supported", "pixels")
    if header.big:
        raise Quarantined("big-tiff")
    # Raw camera files depend on private tags and maker notes.
    if any(_DNG in page for page in pages):
        raise Quarantined("tiff-unsupported")
    shown = [page for page in pages if not is_thumbnail(header, page)] or pages[:1]
    rules = [_RULES.get(tag, "X:tiff-tag") for page in shown for tag in page if tag not in _KEPT_TAGS]
    rules += ["X:tiff-thumbnail"] * (len(pages) - len(shown))
    exif = list(_inner(data, header, [*pages, *inner], _EXIF, _GPS))
    # Directories that are dropped count too: their values must not be copied as pixels of another page.
    everything = [*pages, *inner, *exif, *_inner(data, header, exif, _INTEROPERABILITY)]
    values = value_ranges([(entry.start, len(entry.value)) for one in everything for entry in one.values()])
    left = most_bytes
    out: list[ImagePage] = []
    for page in shown:
        read, found = _page(data, header, page, left, values)
        left -= read.rows * read.row_bytes * read.planes
        out.append(read)
        rules += found
    return TiffImage(header.order, tuple(out), tuple(rules))


def is_slide_file(data: Buffer) -> bool:
    """Return whether a TIFF file is a whole-slide image; False if it cannot be read."""
    try:
        header = read_tiff_header(data)
        pages = _chain(data, header, header.first, _MOST_PAGES)
        return has_slide_pages(header, pages, list(_inner(data, header, pages, _SUB_IFDS)))
    except Quarantined:
        return False


def _chain(data: Buffer, header: TiffHeader, place: int, most: int) -> list[Directory]:
    """Return the directories linked from ``place`` on."""
    found: list[Directory] = []
    seen: set[int] = set()
    while place:
        if place in seen:
            raise Quarantined("tiff-structure")
        if len(found) == most:
            raise Quarantined("too-many-pages")
        seen.add(place)
        directory, place = read_directory(data, header, place)
        found.append(directory)
    if not found:
        raise Quarantined("tiff-structure")
    return found


def _inner(data: Buffer, header: TiffHeader, pages: list[Directory], *tags: int) -> Iterator[Directory]:
    """Yield the directories that ``tags`` point to, except invalid ones."""
    places = [place for page in pages for tag in tags if tag in page for place in page[tag].numbers(header)]
    for place in places[:_MOST_INNER]:
        try:
            yield read_directory(data, header, place)[0]
        except Quarantined:
            # These directories are dropped anyway.
            continue


# -- one page -------------------------------------------------------------------------------


def _page(
    data: Buffer, header: TiffHeader, page: Directory, most_bytes: int, values: ValueRanges
) -> tuple[ImagePage, list[str]]:
    """Read one page and verify that its strips contain its pixels and nothing else."""
    read = _description(header, page)
    if not 0 < read.columns < 2**31 or not 0 < read.rows < 2**31 or read.rows_per_strip < 1:
        raise Quarantined("tiff-structure")
    if read.rows * read.row_bytes * read.planes > most_bytes:
        raise Quarantined("image-too-large", "pixels")
    _require_supported(read)
    strips = list(_strips(data, header, page, len(read.strip_rows()) * read.planes))
    made, rules = _jpeg_page(page, read, strips) if read.compression == JPEG else _plain_page(read, strips)
    # Only released bytes count: surplus after a strip may overlap values, because it is cut.
    used = [min(len(strip), len(kept)) for strip, kept in zip(strips, made.strips, strict=True)]
    if not values.are_apart_from(page[_OFFSETS].numbers(header), used):
        raise Quarantined("tiff-structure", "pixels")
    return made, rules


def _plain_page(read: ImagePage, strips: list[bytes]) -> tuple[ImagePage, list[str]]:
    """Read strips of uncompressed or packed samples, without surplus after the last sample."""
    rules: list[str] = []
    kept = []
    for strip, rows in zip(strips, read.strip_rows() * read.planes, strict=True):
        # A JPEG declared as plain samples would be copied with segments that nothing checks.
        if read.compression == NONE and starts_as_jpeg(strip[:4]):
            raise Quarantined("tiff-structure", "pixels")
        used = encoded_length(strip, read.compression, rows * read.row_bytes)
        if used < len(strip):
            rules.append("X:after-image")
        kept.append(strip[:used])
    return replace(read, strips=tuple(kept)), rules


def _description(header: TiffHeader, page: Directory) -> ImagePage:
    def numbers(tag: int, default: tuple[int, ...]) -> tuple[int, ...]:
        return page[tag].numbers(header) if tag in page else default

    def number(tag: int, default: int) -> int:
        found = numbers(tag, (default,))
        if len(found) != 1:
            raise Quarantined("tiff-structure")
        return found[0]

    channels = number(_SAMPLES, 1)
    bits = numbers(BITS, (1,))
    formats = numbers(_FORMAT, (1,))
    if len(set(bits)) != 1 or len(set(formats)) != 1 or not 0 < channels <= 16:
        raise Quarantined("tiff-unsupported")
    # Defaults are those of TIFF 6.0; files commonly omit tags that have one.
    rows = number(HEIGHT, 0)
    photometric = number(PHOTOMETRIC, -1)
    colors = numbers(_COLORS, ()) if photometric == 3 else ()
    return ImagePage(
        columns=number(WIDTH, 0),
        rows=rows,
        bits=bits[0],
        compression=_COMPRESSIONS.get(number(COMPRESSION, 1), 0),
        photometric=photometric,
        channels=channels,
        planar=number(_PLANAR, 1) if channels > 1 else 1,
        predictor=number(_PREDICTOR, 1),
        rows_per_strip=min(number(_ROWS_PER_STRIP, rows), max(rows, 1)),
        strips=(),
        format=formats[0],
        # Unknown kinds of extra samples become "unspecified".
        extra=tuple(one if one <= 2 else 0 for one in numbers(_EXTRA, ())),
        colors=colors,
        orientation=_within(number(_ORIENTATION, 1), 1, 8),
        density=_density(header, page),
        subsampling=numbers(_SUBSAMPLING, (2, 2)) if photometric == 6 else (),
        positioning=_within(number(_POSITIONING, 1), 1, 2),
        colorimetry=_colorimetry(header, page) if photometric == 6 else ((), ()),
    )


def _within(number: int, low: int, high: int) -> int:
    return number if low <= number <= high else low


def _rationals(header: TiffHeader, page: Directory, tag: int, count: int) -> tuple[Fraction, ...]:
    """Return rational values; empty if they are not plausible."""
    pairs = page[tag].rationals(header) if tag in page else ()
    if len(pairs) != count or any(not under or over > _MAX_RATIONAL * under for over, under in pairs):
        return ()
    # Rounding limits what the digits of a number can encode.
    return tuple(Fraction(over, under).limit_denominator(1000) for over, under in pairs)


def _density(header: TiffHeader, page: Directory) -> tuple[tuple[Fraction, ...], int]:
    both = _rationals(header, page, _X_RES, 1) + _rationals(header, page, _Y_RES, 1)
    unit = page[_UNIT].numbers(header) if _UNIT in page else (2,)
    return both if len(both) == 2 and all(both) else (), unit[0] if unit and unit[0] in (1, 2, 3) else 1


def _colorimetry(header: TiffHeader, page: Directory) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    return _rationals(header, page, _COEFFICIENTS, 3), _rationals(header, page, _REFERENCE, 6)


# Photometric interpretation -> number of color channels.
_CHANNELS = {0: 1, 1: 1, 2: 3, 3: 1, 5: 4, 6: 3}


def _require_supported(page: ImagePage) -> None:
    needed = _CHANNELS.get(page.photometric, 99)
    whole = page.bits in (8, 16, 32, 64) or (page.bits in (1, 2, 4) and page.channels == 1)
    numbers = page.format in (1, 2) or (page.format == 3 and page.bits in (16, 32, 64))
    predicted = page.predictor == 1 or (
        page.predictor == 2 and page.bits in (8, 16, 32) and page.compression in (LZW, DEFLATE)
    )
    if not page.compression or not whole or not numbers or not predicted or page.planar not in (1, 2):
        raise Quarantined("tiff-unsupported", "pixels")
    if page.channels < needed or len(page.extra) > page.channels - needed:
        raise Quarantined("tiff-unsupported", "pixels")
    if page.photometric == 3 and (page.bits > 8 or len(page.colors) != 3 * 2**page.bits):
        raise Quarantined("tiff-structure")
    if page.photometric == 6 and page.compression != JPEG:
        raise Quarantined("tiff-unsupported", "pixels")
    if page.compression == JPEG and (page.bits != 8 or page.planar != 1 or page.format != 1):
        raise Quarantined("tiff-unsupported", "pixels")


def _strips(data: Buffer, header: TiffHeader, page: Directory, count: int) -> Iterator[bytes]:
    """Yield the strips of the file."""
    order = page[_FILL_ORDER].numbers(header) if _FILL_ORDER in page else (1,)
    offsets = page[_OFFSETS].numbers(header) if _OFFSETS in page else ()
    counts = page[_COUNTS].numbers(header) if _COUNTS in page else ()
    if order != (1,):
        raise Quarantined("tiff-unsupported", "pixels")
    # A sum above the file size means that strips overlap.
    if len(offsets) != count or len(counts) != count or sum(counts) > len(data):
        raise Quarantined("tiff-structure", "pixels")
    for offset, length in zip(offsets, counts, strict=True):
        if offset + length > len(data):
            raise Quarantined("tiff-truncated", "pixels")
        yield bytes(data[offset : offset + length])


def _jpeg_page(page: Directory, read: ImagePage, strips: list[bytes]) -> tuple[ImagePage, list[str]]:
    """Read strips that are JPEG streams, with shared tables (TIFF Technical Note 2)."""
    tables = Jpeg(b"", (), None, ())
    if _TABLES in page:
        tables = read_jpeg(page[_TABLES].value, 0, inside=True)
    rules, kept = list(tables.rules), []
    for strip, rows in zip(strips, read.strip_rows(), strict=True):
        stream = read_jpeg(strip, rows * read.columns * read.channels, inside=True, tables=tables.segments)
        frame = stream.frame
        if frame is None or (frame.rows, frame.columns, len(frame.components)) != (
            rows,
            read.columns,
            read.channels,
        ):
            raise Quarantined("tiff-structure", "pixels")
        rules += stream.rules
        kept.append(stream.stream)
    written = tables.stream if tables.segments else b""
    return replace(read, strips=tuple(kept), tables=written), rules


# -- writing --------------------------------------------------------------------------------


def _write_page(page: ImagePage, order: str, place: int, several: bool, last: bool) -> bytes:
    """Build a directory at ``place``, its longer values and its strips, each padded to an even length."""
    tags = _tags(page, order, several)
    lengths = [len(strip) for strip in page.strips]
    tags[_COUNTS] = (LONG, len(lengths), pack(f"{order}{len(lengths)}I", *lengths))
    # A placeholder of the final size, so that the position of the strips can be computed.
    tags[_OFFSETS] = (LONG, len(lengths), bytes(4 * len(lengths)))
    values = place + 2 + 12 * len(tags) + 4
    start = values + sum(len(value) + len(value) % 2 for _, _, value in tags.values() if len(value) > 4)
    offsets = []
    for length in lengths:
        offsets.append(start)
        start += length + length % 2
    tags[_OFFSETS] = (LONG, len(offsets), pack(f"{order}{len(offsets)}I", *offsets))
    entries, longer = [], []
    for tag, (kind, count, value) in sorted(tags.items()):
        if len(value) > 4:
            padded = value + bytes(len(value) % 2)
            longer.append(padded)
            value = pack(f"{order}I", values)
            values += len(padded)
        entries.append(pack(f"{order}HHI", tag, kind, count) + value.ljust(4, b"\0"))
    # Offsets of classic TIFF have 32 bits.
    if start > 0xFFFFFFFF:
        raise Quarantined("image-too-large", "pixels")
    head = pack(f"{order}H", len(entries)) + b"".join(entries) + pack(f"{order}I", 0 if last else start)
    return b"".join([head, *longer, *(strip + bytes(len(strip) % 2) for strip in page.strips)])


def _tags(page: ImagePage, order: str, several: bool) -> dict[int, tuple[int, int, bytes]]:
    """Return every tag of a page except those of its strips: type, number of values, values."""
    (across_down, unit), (coefficients, reference) = page.density, page.colorimetry

    def short(*numbers: int) -> tuple[int, int, bytes]:
        return SHORT, len(numbers), pack(f"{order}{len(numbers)}H", *numbers)

    def rational(*numbers: Fraction) -> tuple[int, int, bytes]:
        flat = [part for one in numbers for part in one.as_integer_ratio()]
        return RATIONAL, len(numbers), pack(f"{order}{len(flat)}I", *flat)

    tags = {
        _SUBFILE: (LONG, 1, pack(f"{order}I", 2 if several else 0)),
        WIDTH: (LONG, 1, pack(f"{order}I", page.columns)),
        HEIGHT: (LONG, 1, pack(f"{order}I", page.rows)),
        BITS: short(*[page.bits] * page.channels),
        COMPRESSION: short(page.compression),
        PHOTOMETRIC: short(page.photometric),
        _ORIENTATION: short(page.orientation),
        _SAMPLES: short(page.channels),
        _ROWS_PER_STRIP: (LONG, 1, pack(f"{order}I", page.rows_per_strip)),
        _PLANAR: short(page.planar),
        _FORMAT: short(*[page.format] * page.channels),
    }
    if across_down:
        tags |= {
            _X_RES: rational(across_down[0]),
            _Y_RES: rational(across_down[1]),
            _UNIT: short(unit),
        }
    if page.predictor > 1:
        tags[_PREDICTOR] = short(page.predictor)
    if page.colors:
        tags[_COLORS] = short(*page.colors)
    if page.extra:
        tags[_EXTRA] = short(*page.extra)
    if page.tables:
        tags[_TABLES] = (UNDEFINED, len(page.tables), page.tables)
    if page.photometric == 6:
        tags |= {_SUBSAMPLING: short(*page.subsampling), _POSITIONING: short(page.positioning)}
        if coefficients:
            tags[_COEFFICIENTS] = rational(*coefficients)
        if reference:
            tags[_REFERENCE] = rational(*reference)
    return tags
