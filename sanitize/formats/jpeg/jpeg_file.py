"""JPEG (ITU-T T.81, T.871), rewritten with the segments that decoding needs.

Entropy-coded data is copied, except for surplus that no decoder reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from struct import pack, unpack, unpack_from

from medsanitize.sanitize.formats.exif import MINIMAL_EXIF, orientation_of
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.formats.jpeg.entropy import cut_surplus
from medsanitize.sanitize.formats.jpeg.markers import strip_jpeg_metadata
from medsanitize.sanitize.formats.jpeg.segment import Frame, Segment
from medsanitize.sanitize.quarantine import Quarantined

_SOI, _EOI, _SOS, _DQT, _DHT, _DRI, _COM = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xFE
# Baseline, extended and progressive Huffman frames.
_FRAMES = frozenset([0xC0, 0xC1, 0xC2])
_APPLICATION = range(0xE0, 0xF0)
# In entropy-coded data, FF00 is a stuffed byte and FFD0 to FFD7 are restart markers.
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
_RESTART = re.compile(rb"\xff+([\xd0-\xd7])")
# Largest plausible pixel density of JFIF; a larger value is replaced.
_MAX_DENSITY = 10_000


@dataclass(frozen=True, slots=True, repr=False)
class Jpeg:
    """A JPEG without metadata.

    Attributes
    ----------
    stream : bytes
        The file, without orientation.
    segments : tuple of Segment
        The segments that decoding needs, without APPn segments.
    frame : Frame or None
        None if the stream contains only tables.
    rules : tuple of str
        Rules by which parts of the source were removed.
    orientation : int
        EXIF Orientation, 1 to 8. See ``with_orientation``.
    """

    stream: bytes
    segments: tuple[Segment, ...]
    frame: Frame | None
    rules: tuple[str, ...]
    orientation: int = 1


def read_jpeg(
    data: Buffer, most_bytes: int, *, inside: bool = False, tables: tuple[Segment, ...] = ()
) -> Jpeg:
    """Read a JPEG without the segments that are not needed to display it.

    Parameters
    ----------
    data : bytes or mmap
    most_bytes : int
        Largest size of the decoded image.
    inside : bool
        Whether it is a strip of a TIFF file or its tables; then the TIFF tags define the colors.
    tables : tuple of Segment
        Tables that the TIFF file stores separately for its strips.

    Raises
    ------
    Quarantined
        ``image-too-large``, ``jpeg-unsupported`` (arithmetic, lossless, hierarchical, 12 bits),
        ``jpeg-truncated`` or ``jpeg-structure``.
    """
    kept: list[Segment] = []
    rules: list[str] = []
    frame: Frame | None = None
    first: dict[str, bytes] = {}
    for segment in _segments(data):
        marker, body = segment.marker, segment.body
        if marker == _EOI:
            if len(segment.data) or len(body):
                rules.append("X:after-image")
            break
        if marker == _COM or marker in _APPLICATION:
            name = _named(marker, body)
            first.setdefault(name, body)
            # Adobe and JFIF are written again from their numbers, so they are not reported as removed.
            if name not in ("adobe", "jfif") or inside:
                rules.append(_RULES.get(name, "X:jpeg-application"))
            continue
        if marker in _FRAMES:
            if frame is not None:
                raise Quarantined("jpeg-structure")
            frame = _frame(marker, body)
            if frame.rows * frame.columns * len(frame.components) > most_bytes:
                raise Quarantined("image-too-large", "pixels")
        elif not _is_sound(segment, frame):
            raise Quarantined("jpeg-structure")
        kept.append(segment)
    if frame is None and not inside:
        raise Quarantined("jpeg-structure")
    if frame is not None:
        walked = cut_surplus(kept, frame, tables)
        # Bits that no decoder reads are removed from the end of scans and restart intervals.
        rules += ["X:after-image"] * (walked != kept)
        kept = walked
    stream = b"\xff\xd8" + b"".join(segment.write() for segment in kept) + b"\xff\xd9"
    if not inside:
        used = strip_jpeg_metadata(stream)
        rules += ["X:jpeg-tables"] * (used != stream)
        stream = used[:2] + b"".join(segment.write() for segment in _application(first)) + used[2:]
    orientation = 1 if inside else orientation_of(first.get("exif", b"")[6:])
    return Jpeg(stream, tuple(kept), frame, tuple(rules), orientation)


def with_orientation(stream: bytes, orientation: int) -> bytes:
    """Insert an EXIF segment with Orientation only; after JFIF, which must come first (T.871).

    A stream with orientation 1, the default, is returned unchanged.
    """
    if orientation == 1:
        return stream
    place = 20 if stream[2:4] == b"\xff\xe0" else 2
    exif = Segment(0xE1, b"Exif\0\0" + MINIMAL_EXIF[orientation]).write()
    return stream[:place] + exif + stream[place:]


_RULES = {
    "comment": "X:jpeg-comment",
    "exif": "X:exif",
    "xmp": "X:xmp",
    "profile": "X:color-profile",
    "pictures": "X:jpeg-more-pictures",
    "photoshop": "X:iptc",
}
_STARTS = (
    (0xE0, b"JFIF\0", "jfif"),
    (0xE1, b"Exif\0", "exif"),
    (0xE1, b"http://ns.adobe.com/", "xmp"),
    (0xE2, b"ICC_PROFILE\0", "profile"),
    (0xE2, b"MPF\0", "pictures"),
    (0xED, b"Photoshop 3.0\0", "photoshop"),
    (0xEE, b"Adobe", "adobe"),
)


def _named(marker: int, body: bytes) -> str:
    if marker == _COM:
        return "comment"
    return next((name for code, start, name in _STARTS if code == marker and body.startswith(start)), "other")


def _application(first: dict[str, bytes]) -> Iterator[Segment]:
    """Yield new JFIF and Adobe segments, which viewers need to display colors correctly."""
    jfif, adobe = first.get("jfif", b""), first.get("adobe", b"")
    if len(jfif) >= 14:
        unit, across, down = unpack(">BHH", jfif[7:12])
        if unit > 2 or not 0 < across <= _MAX_DENSITY or not 0 < down <= _MAX_DENSITY:
            unit, across, down = 0, 1, 1
        # No thumbnail: its size is written as 0 x 0.
        yield Segment(0xE0, b"JFIF\0\1\1" + pack(">BHHBB", unit, across, down, 0, 0))
    if len(adobe) >= 12 and adobe[11] < 3:
        yield Segment(0xEE, b"Adobe\0\x64\0\0\0\0" + adobe[11:12])


def metadata_segments(data: Buffer) -> Iterator[tuple[str, bytes]]:
    """Yield name (``comment``, ``exif``, ``xmp``, ``photoshop`` ...) and content of metadata segments.

    Raises
    ------
    Quarantined
        As for ``read_jpeg``.
    """
    for segment in _segments(data):
        if segment.marker == _COM or segment.marker in _APPLICATION:
            yield _named(segment.marker, segment.body), segment.body


def _segments(data: Buffer) -> Iterator[Segment]:
    """Yield every marker segment; the last is EOI, with one byte as its data if anything follows it."""
    end, pos = len(data), 2
    if bytes(data[:2]) != b"\xff\xd8":
        raise Quarantined("jpeg-structure")
    while True:
        if pos >= end:
            raise Quarantined("jpeg-truncated")
        if data[pos] != 0xFF:
            raise Quarantined("jpeg-structure")
        while pos < end and data[pos] == 0xFF:
            pos += 1
        if pos + 1 > end:
            raise Quarantined("jpeg-truncated")
        marker, pos = data[pos], pos + 1
        if marker == _EOI:
            yield Segment(_EOI, b"", bytes(data[pos : pos + 1]))
            return
        if marker in (0xC3, *range(0xC5, 0xC8), *range(0xC8, 0xD0), 0xDC, 0xDE, 0xDF) and marker != _DHT:
            raise Quarantined("jpeg-unsupported")
        if marker not in _FRAMES | {_SOS, _DQT, _DHT, _DRI, _COM} and marker not in _APPLICATION:
            raise Quarantined("jpeg-structure")
        if pos + 2 > end:
            raise Quarantined("jpeg-truncated")
        stop = pos + int.from_bytes(data[pos : pos + 2], "big")
        if stop < pos + 2 or stop > end:
            raise Quarantined("jpeg-structure" if stop < pos + 2 else "jpeg-truncated")
        body, pos = bytes(data[pos + 2 : stop]), stop
        if marker != _SOS:
            yield Segment(marker, body)
            continue
        found = _MARKER.search(data, pos)
        if found is None:
            raise Quarantined("jpeg-truncated")
        coded, pos = bytes(data[stop : found.start()]), found.start()
        yield Segment(marker, body, coded.rstrip(b"\xff"))


def _frame(marker: int, body: bytes) -> Frame:
    if len(body) < 9 or len(body) != 6 + 3 * body[5]:
        raise Quarantined("jpeg-structure")
    precision, rows, columns, count = unpack(">BHHB", body[:6])
    if precision != 8 or count not in (1, 3, 4):
        raise Quarantined("jpeg-unsupported")
    components = tuple(
        (name, sampling >> 4, sampling & 15, table)
        for name, sampling, table in (unpack_from("BBB", body, 6 + 3 * one) for one in range(count))
    )
    sound = all(0 < across <= 4 and 0 < down <= 4 and table < 4 for _, across, down, table in components)
    if not rows or not columns or not sound or len({one[0] for one in components}) != count:
        raise Quarantined("jpeg-structure")
    return Frame(marker, rows, columns, components)


def _is_sound(segment: Segment, frame: Frame | None) -> bool:
    """Return whether a table or scan header has the length that its parameters imply."""
    body = segment.body
    if segment.marker == _DRI:
        return len(body) == 2
    if segment.marker == _DQT:
        return _are_quantization_tables(body)
    if segment.marker == _DHT:
        return _are_huffman_tables(body)
    if frame is None or not body or len(body) != 4 + 2 * body[0] or not 0 < body[0] <= 4:
        return False
    names = {component[0] for component in frame.components}
    return all(body[1 + 2 * one] in names for one in range(body[0]))


def _are_quantization_tables(body: bytes) -> bool:
    pos = 0
    while pos < len(body):
        precision, number = body[pos] >> 4, body[pos] & 15
        if precision > 1 or number > 3:
            return False
        pos += 65 + 64 * precision
    return pos == len(body) > 0


def _are_huffman_tables(body: bytes) -> bool:
    pos = 0
    while pos + 17 <= len(body):
        kind, number = body[pos] >> 4, body[pos] & 15
        count = sum(body[pos + 1 : pos + 17])
        symbols = body[pos + 17 : pos + 17 + count]
        # A repeated symbol has two codes: the choice between them could encode a message.
        if kind > 1 or number > 3 or count > 256 or len(set(symbols)) != count or len(symbols) != count:
            return False
        # DC symbols are bit counts of at most 15.
        if kind == 0 and any(symbol > 15 for symbol in symbols):
            return False
        pos += 17 + count
    return pos == len(body) > 0
