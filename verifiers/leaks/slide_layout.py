"""Locate the tiles of a slide, with readers that share no code with the writers of released slides.

TIFF is read by tifffile; Index.dat of MIRAX and the directory of CZI are parsed here.
"""

from __future__ import annotations

import configparser
import mmap
import struct
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Range = tuple[int, int]
"""Start and end of a byte range."""
JPEG: Final = b"\xff\xd8"
# Bound on texts and on lists of hostile files.
_MAX_BYTES: Final = 1 << 22
_LEVEL = struct.Struct("<4i")
_NOT_BUILT_SO: Final = (
    ValueError,
    TypeError,
    ArithmeticError,
    AttributeError,
    LookupError,
    struct.error,
    RuntimeError,
)
"""Exceptions of readers on inconsistent files; TiffFileError is a ValueError."""


class MalformedSlide(Exception):
    """A file of a slide does not conform to its format."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Encoded tiles of one file.

    Attributes
    ----------
    base : tuple of Range
        Tiles of the largest level, in image order.
    every : tuple of Range
        Tiles of all levels, sorted by position.
    tables : tuple of bytes
        JPEG tables stored outside the tiles (JPEGTables).
    profiles : tuple of Range
        Positions of ICC profiles.
    """

    base: tuple[Range, ...]
    every: tuple[Range, ...]
    tables: tuple[bytes, ...] = ()
    profiles: tuple[Range, ...] = ()


def tiles_of(main: Path, others: Sequence[Path]) -> dict[Path, Tiles]:
    """Locate the tiles of every file of a slide.

    Parameters
    ----------
    main : Path
        Main file of the slide.
    others : sequence of Path
        Its other files.

    Returns
    -------
    dict of Path to Tiles
        All files, including those without tiles.

    Raises
    ------
    MalformedSlide
        A file does not conform to its format.
    """
    suffix = main.suffix.lower()
    try:
        if suffix == ".mrxs":
            return _mirax(main, others)
        if suffix == ".vms":
            whole = {path: ((0, path.stat().st_size),) for path in others}
            return {main: Tiles((), ())} | {path: Tiles(one, one) for path, one in whole.items()}
        if suffix == ".afi":
            channels = channels_of(main, others)
            return {main: Tiles((), ())} | {path: _tiff(path) for path in channels}
        if suffix == ".czi":
            return {main: _czi(main)}
        return {main: _tiff(main)}
    except (*_NOT_BUILT_SO, configparser.Error, OSError):
        raise MalformedSlide from None


def channels_of(main: Path, others: Sequence[Path]) -> tuple[Path, ...]:
    """Return the SVS files of an AFI, in the order of its list.

    Parameters
    ----------
    main : Path
        The AFI file.
    others : sequence of Path
        All files that belong to it.

    Raises
    ------
    MalformedSlide
        The list cannot be read, or lists other files.
    """
    content = main.read_bytes()
    by_name = {path.name: path for path in others}
    try:
        # A document type could define entities that expand without limit or read files.
        if b"<!DOCTYPE" in content.replace(b"\0", b"").upper():
            raise MalformedSlide
        wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
        parser = ET.XMLParser(encoding="utf-16" if wide else "utf-8")  # noqa: S314  no type, so no entities
        root = ET.fromstring(content, parser)  # noqa: S314
        paths = (one for one in root.iter() if one.tag.rpartition("}")[2] == "Path")
        names = dict.fromkeys((one.text or "").strip() for one in paths)
        found = tuple(by_name[name] for name in names)
    except (ET.ParseError, LookupError, ValueError):
        raise MalformedSlide from None
    if not found or len(found) != len(others):
        raise MalformedSlide
    return found


def tiff_pages(tif: Any) -> Iterator[Any]:
    """Yield every page and its subpages."""
    for page in tif.pages:
        yield page
        yield from page.pages or ()


def texts_of(main: Path, others: Sequence[Path]) -> Iterator[bytes]:
    """Yield the texts in the files of a source (tags, XML, INI) as bytes.

    Raises
    ------
    MalformedSlide
        The source cannot be read.
    """
    suffix = main.suffix.lower()
    for path in (main, *others):
        if path.suffix.lower() in (".ini", ".vms", ".vmu", ".afi"):
            yield path.read_bytes()[:_MAX_BYTES]
    if suffix == ".afi":
        for path in others:
            yield from _said_in(path)
    elif suffix not in (".mrxs", ".vms", ".vmu"):
        yield from _said_in(main)


def _said_in(main: Path) -> Iterator[bytes]:
    """Yield the texts in a slide of one file."""
    import tifffile

    with main.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:10] == b"ZISRAWFILE":
            start = data.find(b"<ImageDocument")
            yield data[start : data.find(b"</ImageDocument>", start)][:_MAX_BYTES] if start >= 0 else b""
            return
        try:
            with tifffile.TiffFile(file) as tif:  # not the path: the target of a link may have no suffix
                for page in tiff_pages(tif):
                    for tag in page.tags.values():
                        # BYTE, ASCII and UNDEFINED values of more than 5 bytes (TIFF 6.0, section 2).
                        if int(tag.dtype) in (1, 2, 7) and tag.count > 5:
                            yield data[tag.valueoffset : tag.valueoffset + min(tag.count, _MAX_BYTES)]
        except _NOT_BUILT_SO:
            raise MalformedSlide from None


# -- formats ------------------------------------------------------------------------------


def _tiff(path: Path) -> Tiles:
    import tifffile

    every: list[Range] = []
    base: tuple[Range, ...] = ()
    size = -1
    tables: list[bytes] = []
    profiles: list[Range] = []
    with tifffile.TiffFile(path) as tif:
        for page in tiff_pages(tif):
            tags = page.tags
            # TileOffsets and TileByteCounts, or StripOffsets and StripByteCounts.
            names = (324, 325) if 324 in tags else (273, 279)
            starts, counts = (_numbers(tags[name].value) for name in names)
            if len(starts) != len(counts):
                raise MalformedSlide
            ranges = tuple((a, a + n) for a, n in zip(starts, counts, strict=True) if n)
            every += ranges
            if 347 in tags:
                tables.append(bytes(tags[347].value))
            # ICC profile.
            if 34675 in tags:
                at = tags[34675].valueoffset
                profiles.append((at, at + tags[34675].count))
            if page.imagewidth * page.imagelength > size:
                base, size = ranges, page.imagewidth * page.imagelength
    whole = _sorted(every, path.stat().st_size)
    return Tiles(base, whole, tuple(dict.fromkeys(tables)), tuple(dict.fromkeys(profiles)))


def _numbers(value: Any) -> tuple[int, ...]:
    return (
        tuple(map(int, value))
        if isinstance(value, tuple | list) or hasattr(value, "tolist")
        else (int(value),)
    )


def _mirax(main: Path, others: Sequence[Path]) -> dict[Path, Tiles]:
    by_name = {path.name: path for path in others}
    ini = configparser.ConfigParser(interpolation=None, strict=True)
    ini.read_string(by_name["Slidedat.ini"].read_text("utf-8-sig"))
    files = [by_name[ini["DATAFILE"][f"FILE_{n}"]] for n in range(int(ini["DATAFILE"]["FILE_COUNT"]))]
    tree = ini["HIERARCHICAL"]
    levels = int(tree["HIER_0_COUNT"])
    index = by_name[tree["INDEXFILE"]].read_bytes()
    # Index.dat starts with version and slide ID, without lengths.
    head = len(ini["GENERAL"]["SLIDE_VERSION"]) + len(ini["GENERAL"]["SLIDE_ID"])
    found: dict[Path, list[Range]] = {path: [] for path in files}
    base: dict[Path, list[Range]] = {path: [] for path in files}
    for level in range(levels):
        for _, offset, length, number in _mirax_level(index, head, level):
            found[files[number]].append((offset, offset + length))
            if level == 0:
                base[files[number]].append((offset, offset + length))
    preview = _mirax_preview(ini, index, head)
    if preview is not None:
        offset, length, number = preview
        found[files[number]].append((offset, offset + length))
    tiles = {
        path: Tiles(tuple(base[path]), _sorted(ranges, path.stat().st_size)) for path, ranges in found.items()
    }
    none = Tiles((), ())
    picture = Tiles((), ((0, main.stat().st_size),))
    return {main: picture} | dict.fromkeys(others, none) | tiles


def _mirax_level(index: bytes, head: int, level: int) -> Iterator[tuple[int, int, int, int]]:
    (root,) = struct.unpack_from("<i", index, head)
    (record,) = struct.unpack_from("<i", index, root + 4 * level)
    _, page = struct.unpack_from("<2i", index, record)
    # Bounded, because the pages are a linked list that a hostile file may close to a ring.
    for _ in range(_MAX_BYTES):
        if not page:
            return
        count, following = struct.unpack_from("<2i", index, page)
        yield from _LEVEL.iter_unpack(index[page + 8 : page + 8 + 16 * count])
        page = following
    raise MalformedSlide


def _mirax_preview(ini: configparser.ConfigParser, index: bytes, head: int) -> tuple[int, int, int] | None:
    tree, record = ini["HIERARCHICAL"], 0
    for layer in range(int(tree.get("NONHIER_COUNT", "0"))):
        for value in range(int(tree[f"NONHIER_{layer}_COUNT"])):
            if tree[f"NONHIER_{layer}_VAL_{value}"] == "ScanDataLayer_SlidePreview":
                (root,) = struct.unpack_from("<i", index, head + 4)
                (start,) = struct.unpack_from("<i", index, root + 4 * record)
                (page,) = struct.unpack_from("<i", index, start + 4)
                offset, length, number = struct.unpack_from("<3i", index, page + 16)
                return offset, length, number
            record += 1
    return None


def _czi(path: Path) -> Tiles:
    ranges: list[Range] = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:10] != b"ZISRAWFILE":
            raise MalformedSlide
        # Position of the subblock directory in the file header segment (after its 32-byte segment header).
        (directory,) = struct.unpack_from("<q", data, 32 + 52)
        (count,) = struct.unpack_from("<i", data, directory + 32)
        at = directory + 32 + 128
        for _ in range(count):
            (position,) = struct.unpack_from("<q", data, at + 6)
            (dimensions,) = struct.unpack_from("<i", data, at + 28)
            at += 32 + 20 * dimensions
            metadata, _, size = struct.unpack_from("<iiq", data, position + 32)
            (inner,) = struct.unpack_from("<i", data, position + 32 + 16 + 28)
            # Metadata precede the data of a subblock; its entry is padded to at least 256 bytes.
            start = position + 32 + max(256, 16 + 32 + 20 * inner) + metadata
            ranges.append((start, start + size))
    every = _sorted(ranges, path.stat().st_size)
    return Tiles(tuple(ranges), every)


def _sorted(ranges: Sequence[Range], size: int) -> tuple[Range, ...]:
    """Sort distinct ranges; they must not overlap or extend beyond the file."""
    ordered = sorted(set(ranges))
    reached = 0
    for start, end in ordered:
        # TileSums and the search outside tiles assume that tiles do not overlap.
        if start < reached or end < start or end > size:
            raise MalformedSlide
        reached = end
    return tuple(ordered)
