"""Where the tiles of a slide lie, found by readers that share no code with those that made the file.

TIFF by tifffile; Index.dat of MIRAX and the directory of CZI by a few lines of their own.
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
"""Begin and end of a run of bytes."""
JPEG: Final = b"\xff\xd8"
_MOST: Final = 1 << 22
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
"""What readers raise on files that contradict themselves; TiffFileError is a ValueError."""


class MalformedSlide(Exception):
    """A file of a slide is not built as its format asks."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The encoded tiles of one file: of the largest level in order, and all, sorted; JPEG tables and the
    places of colour profiles apart.
    """

    base: tuple[Range, ...]
    every: tuple[Range, ...]
    tables: tuple[bytes, ...] = ()
    profiles: tuple[Range, ...] = ()


def tiles_of(main: Path, others: Sequence[Path]) -> dict[Path, Tiles]:
    """The tiles of every file of a slide.

    Raises
    ------
    Unsound
        A file is not built as its format asks.
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
    """The SVS files of an AFI in the order of its list; ``others`` are all files that lie beside it.

    Raises
    ------
    Unsound
        The list cannot be read, or names other files than those.
    """
    content = main.read_bytes()
    by_name = {path.name: path for path in others}
    try:
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
    """Every page and the pages below it."""
    for page in tif.pages:
        yield page
        yield from page.pages or ()


def texts_of(main: Path, others: Sequence[Path]) -> Iterator[bytes]:
    """What the files of a source say in words: tags, XML and INI, as bytes.

    Raises
    ------
    Unsound
        It cannot be read.
    """
    suffix = main.suffix.lower()
    for path in (main, *others):
        if path.suffix.lower() in (".ini", ".vms", ".vmu", ".afi"):
            yield path.read_bytes()[:_MOST]
    if suffix == ".afi":
        for path in others:
            yield from _said_in(path)
    elif suffix not in (".mrxs", ".vms", ".vmu"):
        yield from _said_in(main)


def _said_in(main: Path) -> Iterator[bytes]:
    """What a slide in one file says in words."""
    import tifffile

    with main.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:10] == b"ZISRAWFILE":
            start = data.find(b"<ImageDocument")
            yield data[start : data.find(b"</ImageDocument>", start)][:_MOST] if start >= 0 else b""
            return
        try:
            with tifffile.TiffFile(file) as tif:  # not its path: what a link leads to may have no name
                for page in tiff_pages(tif):
                    for tag in page.tags.values():
                        if int(tag.dtype) in (1, 2, 7) and tag.count > 5:
                            yield data[tag.valueoffset : tag.valueoffset + min(tag.count, _MOST)]
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
            names = (324, 325) if 324 in tags else (273, 279)
            starts, counts = (_numbers(tags[name].value) for name in names)
            if len(starts) != len(counts):
                raise MalformedSlide
            ranges = tuple((a, a + n) for a, n in zip(starts, counts, strict=True) if n)
            every += ranges
            if 347 in tags:
                tables.append(bytes(tags[347].value))
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
    for _ in range(_MOST):
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
        (directory,) = struct.unpack_from("<q", data, 32 + 52)
        (count,) = struct.unpack_from("<i", data, directory + 32)
        at = directory + 32 + 128
        for _ in range(count):
            (position,) = struct.unpack_from("<q", data, at + 6)
            (dimensions,) = struct.unpack_from("<i", data, at + 28)
            at += 32 + 20 * dimensions
            metadata, _, size = struct.unpack_from("<iiq", data, position + 32)
            (inner,) = struct.unpack_from("<i", data, position + 32 + 16 + 28)
            start = position + 32 + max(256, 16 + 32 + 20 * inner) + metadata
            ranges.append((start, start + size))
    every = _sorted(ranges, path.stat().st_size)
    return Tiles(tuple(ranges), every)


def _sorted(ranges: Sequence[Range], size: int) -> tuple[Range, ...]:
    """Distinct ranges in order; none may reach into another or out of the file."""
    ordered = sorted(set(ranges))
    reached = 0
    for start, end in ordered:
        if start < reached or end < start or end > size:
            raise MalformedSlide
        reached = end
    return tuple(ordered)
