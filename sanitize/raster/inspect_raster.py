"""What the inventory reads of an image: its size, and identifiers wherever text may be."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from medsanitize.sanitize.context import ImageSize, KnownValue
from medsanitize.sanitize.formats.file_type import Buffer, Format
from medsanitize.sanitize.formats.frame_header import read_frame_header
from medsanitize.sanitize.formats.ifd import Directory, read_directory, read_tiff_header
from medsanitize.sanitize.formats.jpeg.jpeg_file import metadata_segments
from medsanitize.sanitize.formats.png.png_file import read_chunks
from medsanitize.sanitize.formats.tiff_directory import ASCII
from medsanitize.sanitize.quarantine import Quarantined

_EXIF, _XMP, _IPTC, _PHOTOSHOP, _COMMENT = 34665, 700, 33723, 34377, 37510
# Artist, XPAuthor, CameraOwnerName.
_PERSONS = frozenset([315, 40093, 42032])
# Serial numbers of body, lens and camera.
_NUMBERS = frozenset([42033, 42037, 50735])
# The XP tags of Windows, in UTF-16.
_XP_TAGS = range(40091, 40096)
_PERSON_KEYWORDS = frozenset("author artist creator by-line patient name operator physician".split())
# By-line, by-line title, credit, contact, writer (IPTC-IIM 4.2, record 2).
_IPTC_PERSONS = frozenset([80, 85, 110, 118, 122])
_WIDTH, _LENGTH = 256, 257
_MOST_PAGES = 16
# Bytes of a JPEG file within which its frame header is expected.
_MOST_METADATA = 1 << 20
_MOST_TEXT = 1 << 16
_LONGEST_NAME = 80

_CARET = re.compile(r"[^\W\d_][\w'-]*(?:\^[^\W\d_][\w'.-]*)+")
_LABELED = re.compile(
    r"(?i)\b(?:patient(?:[ '._-]*s)?(?:[ ._-]*name)?|name|physician|doctor|operator|author|photographer)\b"
    r"\s*[:=]\s*([^\W\d_][\w'., ^-]{2,60})"
)
_NUMBER = re.compile(r"\b(?:[A-Za-z]{1,6}[-_#:]?)?\d{5,14}\b")
_LABELED_NUMBER = re.compile(
    r"(?i)\b(?:mrn|pid|acc(?:ession)?|patient[ _-]?id|id)\b(?:[ _-]*(?:no|number|nr))?[\s.:=#]+"
    r"((?=[\w-]*\d)[\w-]{4,24})"
)
_DATE = re.compile(r"\b((?:18|19|20)\d\d)[:./-]?([01]\d)[:./-]?([0-3]\d)\b")
_CREATOR = re.compile(r"<dc:creator>(.*?)</dc:creator>", re.DOTALL)
_MARKUP = re.compile(r"<[^>]*>")

NamedText = tuple[str, str]
"""Kind of field (``person``, ``number`` or ``text``), and its text."""


def gather_identifiers(data: Buffer, form: Format) -> frozenset[KnownValue]:
    """Collect the identifiers in an image's metadata, from as many parts as can be read.

    They are removed from the pixels and from other text of the same patient.

    Parameters
    ----------
    data : bytes or mmap
        The file.
    form : {"png", "jpeg", "tiff"}
        Its format.
    """
    known: set[KnownValue] = set()
    try:
        for kind, text in {"png": _png, "jpeg": _jpeg, "tiff": _tiff}[form](data):
            known.update(_known(kind, text[:_MOST_TEXT]))
    except Quarantined:
        # The sanitizer reads the file again and quarantines it with a rule.
        pass
    return frozenset(known)


def stated_size(data: Buffer, form: Format) -> ImageSize | None:
    """Return the size that an image states, of all its pages together; None if it cannot be read."""
    try:
        if form == "png":
            # IHDR is the first chunk (PNG 11.2.2): width and height at bytes 16 and 20.
            width, height = (int.from_bytes(bytes(data[at : at + 4]), "big") for at in (16, 20))
            return ImageSize(height, width, 1, may_show_text=True)
        if form == "jpeg":
            head = read_frame_header(bytes(data[:_MOST_METADATA]), "jpeg")
            return ImageSize(head.rows, head.columns, 1, may_show_text=True) if head else None
        return _tiff_size(data)
    except Quarantined:
        return None


def _tiff_size(data: Buffer) -> ImageSize | None:
    header = read_tiff_header(data)
    place, largest, pages = header.first, (0, 0), 0
    while place and pages < _MOST_PAGES:
        page, place = read_directory(data, header, place)
        sides = [page[tag].numbers(header)[:1] if tag in page else () for tag in (_LENGTH, _WIDTH)]
        largest = max(largest, (sum(sides[0]), sum(sides[1])))
        pages += 1
    return ImageSize(*largest, pages, may_show_text=True)


def _known(kind: str, text: str) -> Iterator[KnownValue]:
    text = text.strip("\0 \r\n\t")
    if kind == "person" and 2 < len(text) <= _LONGEST_NAME and any(map(str.isalpha, text)):
        yield KnownValue("name", text)
    if kind == "number" and any(map(str.isdigit, text)):
        yield KnownValue("id", text)
    for found in (*_CARET.findall(text), *_LABELED.findall(text)):
        yield KnownValue("name", found.strip(" .,-"))
    # Any long number counts: a false identifier costs a word of text, a missed one is a leak.
    for found in (*_NUMBER.findall(text), *_LABELED_NUMBER.findall(text)):
        yield KnownValue("id", found)
    for year, month, day in _DATE.findall(text):
        if 1 <= int(month) <= 12 and 1 <= int(day) <= 31:
            yield KnownValue("date", year + month + day)


def _png(data: Buffer) -> Iterator[NamedText]:
    for name, body in read_chunks(data):
        if name == b"eXIf":
            yield from _exif(body)
        if name not in (b"tEXt", b"zTXt", b"iTXt"):
            continue
        keyword, _, rest = body.partition(b"\0")
        if name == b"zTXt":
            rest = _inflated(rest[1:])
        elif name == b"iTXt":
            packed, parts = rest[:1] == b"\1", rest[2:].split(b"\0", 2)
            rest = _inflated(parts[-1]) if packed else parts[-1]
        text = _decoded(rest)
        kind = "person" if _decoded(keyword).lower() in _PERSON_KEYWORDS else "text"
        # XMP has the keyword XML:com.adobe.xmp.
        yield from _xmp(text) if keyword.startswith(b"XML:") else [(kind, text)]


def _jpeg(data: Buffer) -> Iterator[NamedText]:
    for name, body in metadata_segments(data):
        if name == "exif":
            # Skips the prefix "Exif" with two NULs.
            yield from _exif(body[6:])
        elif name == "xmp":
            yield from _xmp(_decoded(body.partition(b"\0")[2]))
        elif name == "photoshop":
            yield from _photoshop(body[14:])
        elif name in ("comment", "other"):
            yield "text", _decoded(body)


def _tiff(data: Buffer) -> Iterator[NamedText]:
    header = read_tiff_header(data)
    place = header.first
    for _ in range(_MOST_PAGES):
        if not place:
            return
        page, place = read_directory(data, header, place)
        yield from _directory(page)
        for inner in page[_EXIF].numbers(header)[:1] if _EXIF in page else ():
            yield from _directory(read_directory(data, header, inner)[0])


def _exif(block: bytes) -> Iterator[NamedText]:
    try:
        yield from _tiff(block)
    except Quarantined:
        return


def _directory(page: Directory) -> Iterator[NamedText]:
    for tag, entry in page.items():
        value = entry.value[:_MOST_TEXT]
        if tag == _XMP:
            yield from _xmp(_decoded(value))
        elif tag in (_IPTC, _PHOTOSHOP):
            yield from _iptc(value) if tag == _IPTC else _photoshop(value)
        elif tag in _XP_TAGS:
            yield "person" if tag in _PERSONS else "text", value.decode("utf-16-le", "replace")
        elif tag == _COMMENT:
            # UserComment starts with eight bytes that name its character set (CIPA DC-008).
            yield "text", _decoded(value[8:])
        elif entry.type == ASCII:
            kind = "person" if tag in _PERSONS else "number" if tag in _NUMBERS else "text"
            yield kind, _decoded(value)


def _xmp(text: str) -> Iterator[NamedText]:
    for creator in _CREATOR.findall(text):
        yield "person", _MARKUP.sub(" ", creator).strip()
    yield "text", _MARKUP.sub("\n", text)


def _photoshop(block: bytes) -> Iterator[NamedText]:
    """Read the IPTC block of Photoshop image resources (resource 0x0404)."""
    place = block.find(b"8BIM\x04\x04")
    if place >= 0:
        yield from _iptc(block[place + 12 :])


def _iptc(block: bytes) -> Iterator[NamedText]:
    """Read the data sets of record 2 (IPTC-IIM 4.2); bytes before them are skipped."""
    place = block.find(b"\x1c\x02")
    while place >= 0 and place + 5 <= len(block) and block[place : place + 1] == b"\x1c":
        length = int.from_bytes(block[place + 3 : place + 5], "big")
        text = _decoded(block[place + 5 : place + 5 + length])
        yield "person" if block[place + 2] in _IPTC_PERSONS else "text", text
        place += 5 + length


def _inflated(packed: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, _MOST_TEXT)
    except zlib.error:
        return b""


def _decoded(raw: bytes) -> str:
    try:
        return raw[:_MOST_TEXT].decode("utf-8")
    except UnicodeDecodeError:
        return raw[:_MOST_TEXT].decode("latin-1")
