"""Pixel data, with every byte accounted for, without decoding (PS3.5 section 8 and A.4).

Native pixel data is cut to Rows x Columns x Samples x Frames, and bits outside Bits Stored are cleared.
Encapsulated frames lose metadata segments and unused bytes, codec by codec.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from medsanitize.sanitize.formats import jpeg2000, jpegxl
from medsanitize.sanitize.formats.dicom import rle
from medsanitize.sanitize.formats.dicom.elements import ITEM, SEQUENCE_END, read_element_header
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.transfer_syntax import (
    UNDEFINED,
    Layout,
    TransferSyntax,
    encode_header,
)
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.formats.jpeg import markers
from medsanitize.sanitize.pieces import Copy, Piece
from medsanitize.sanitize.quarantine import Quarantined

PIXEL_DATA, FLOAT_PIXEL_DATA, DOUBLE_PIXEL_DATA = 0x7FE00010, 0x7FE00008, 0x7FE00009
# Shorter runs are copied as bytes; longer ones stay in the source until the object is written.
_MIN_STREAMED_BYTES = 1 << 20
_CHUNK = 4 << 20


@dataclass(slots=True)
class WrittenPixels:
    """Released pixel data.

    Attributes
    ----------
    pieces : list of Piece
        Native: the element's header, then the bytes of its value.
    rules : list of str
        Rules that applied.
    end : int
        Where the element ends in the source.
    tag : int
        Tag of the element.
    frames : list of list of Piece
        Fragments of each encapsulated frame.
    table : bool
        Whether a Basic Offset Table is written.
    """

    pieces: list[Piece]
    rules: list[str]
    end: int
    tag: int = 0
    frames: list[list[Piece]] = field(default_factory=list)
    table: bool = False


def write_pixels(
    buf: Buffer,
    pos: int,
    end: int,
    layout: Layout,
    syntax: TransferSyntax,
    geometry: Geometry | None,
    *,
    streamed: bool,
) -> WrittenPixels:
    """Rewrite the pixel data element at ``pos`` and the elements of its group before it.

    Parameters
    ----------
    buf : bytes or mmap
        The source.
    pos, end : int
        Range of the elements.
    layout, syntax, geometry
        Of the object. Without a geometry, no decoder can read the pixels, and they are removed.
    streamed : bool
        Whether long unchanged runs become spans of the source instead of bytes.

    Raises
    ------
    Quarantined
        A rule such as ``truncated`` or ``encapsulated-structure``.
    """
    result = WrittenPixels([], [], pos)
    while result.end < end:
        tag, vr, length, start = read_element_header(buf, result.end, end, layout)
        if tag in (PIXEL_DATA, FLOAT_PIXEL_DATA, DOUBLE_PIXEL_DATA):
            if geometry is None:
                return _undecodable(result, buf, start, end, length, layout)
            result.tag = tag
            if length == UNDEFINED:
                _encapsulated(result, buf, start, end, layout, syntax, geometry, streamed)
            else:
                if syntax.codec != "native":
                    raise Quarantined("native-pixels-in-encapsulated-syntax", "pixels")
                _native(result, buf, (tag, vr or b"OW", length, start), end, layout, geometry, streamed)
            return result
        if tag >> 16 != 0x7FE0 or length == UNDEFINED or start + length > end:
            return result
        # Extended offset tables are dropped: offsets change, and the values could contain anything.
        result.rules.append("X:offset-table")
        result.end = start + length
    return result


def _undecodable(
    result: WrittenPixels, buf: Buffer, start: int, end: int, length: int, layout: Layout
) -> WrittenPixels:
    """Leave out pixel data that nothing describes."""
    if length == UNDEFINED:
        result.end = _fragments(buf, start, end, layout)[2]
    elif start + length > end:
        raise Quarantined("truncated", "pixels")
    else:
        result.end = start + length
    result.rules.append("X:undecodable-pixels")
    return result


def count_native_frames(buf: Buffer, pos: int, end: int, layout: Layout, geometry: Geometry) -> int:
    """Return the number of frames in the native pixel data at ``pos``; 0 unless it is a whole number."""
    while end - pos >= 8:
        tag, _, length, start = read_element_header(buf, pos, end, layout)
        if length == UNDEFINED or tag >> 16 != 0x7FE0:
            return 0
        if tag == PIXEL_DATA:
            frames, rest = divmod(length * 8, geometry.frame_bits or 1)
            return frames if not rest else 0
        pos = start + length
    return 0


def _native(
    result: WrittenPixels,
    buf: Buffer,
    head: tuple[int, bytes, int, int],
    end: int,
    layout: Layout,
    geometry: Geometry,
    streamed: bool,
) -> None:
    tag, vr, length, start = head
    if start + length > end:
        raise Quarantined("truncated", "pixels")
    bits = {FLOAT_PIXEL_DATA: 32, DOUBLE_PIXEL_DATA: 64}.get(tag)
    frame_bits = geometry.frame_bits if bits is None else geometry.rows * geometry.columns * bits
    wanted = (frame_bits * geometry.frames + 7) // 8
    # Further frames than declared are images that no viewer shows and nothing checks: they are cut off.
    if length - wanted >= max(frame_bits // 8, 2) and frame_bits:
        result.rules.append("X:surplus-frames")
    used = min(length, wanted)
    pad = used & 1
    # Bytes in big-endian words: the last word has the padding first, then the last sample (PS3.5 8.1.1).
    swapped = (
        layout.big and vr != b"OB" and bits is None and geometry.bits_allocated <= 8 and pad and length > used
    )
    last = buf[start + used : start + used + 1] if swapped else b""
    used -= 1 if swapped else 0
    if length > used + pad + len(last) or (pad and length > used and buf[start + used] != 0):
        result.rules.append("C:pixel-slack")
    if layout.explicit and vr not in (b"OB", b"OW", b"OF", b"OD", b"UN"):
        raise Quarantined("malformed-vr", "pixels")
    written = b"OW" if vr == b"UN" else vr
    result.pieces.append(encode_header(layout, tag, written, used + pad + len(last)))
    # Bits outside Bits Stored can contain overlays or hidden data.
    masked = bits is None and geometry.bits_stored < geometry.bits_allocated
    if masked and not _outside_bits_clear(buf, start, used, layout.big, geometry):
        result.rules.append("C:bits-outside-bits-stored")
        result.pieces += list(_with_bits_cleared(buf, start, used, layout.big, geometry))
    else:
        result.pieces.append(_run(buf, start, used, streamed))
    if pad:
        result.pieces.append(b"\0" + (bytes([last[0] & _masks(geometry)[0]]) if masked and last else last))
    result.end = start + length


def _run(buf: Buffer, start: int, length: int, streamed: bool) -> Piece:
    if streamed and length >= _MIN_STREAMED_BYTES:
        return Copy(start, length)
    return buf[start : start + length]


def _cells(buf: Buffer, start: int, length: int, geometry: Geometry) -> Iterator[bytes]:
    size = geometry.bits_allocated // 8
    if size not in (1, 2, 4):
        raise Quarantined("bits-allocated", "pixels")
    for at in range(start, start + length, _CHUNK):
        yield buf[at : min(at + _CHUNK, start + length)]


def _dtype(big: bool, geometry: Geometry) -> str:
    return (">" if big else "<") + f"u{geometry.bits_allocated // 8}"


def _masks(geometry: Geometry) -> tuple[int, int, int]:
    """Return masks of one cell: used bits, bits below them, bits above them."""
    low = geometry.high_bit + 1 - geometry.bits_stored
    if low < 0 or geometry.high_bit >= geometry.bits_allocated:
        raise Quarantined("high-bit", "pixels")
    used = ((1 << geometry.bits_stored) - 1) << low
    below = (1 << low) - 1
    return used, below, ((1 << geometry.bits_allocated) - 1) & ~(used | below)


def _outside_bits_clear(buf: Buffer, start: int, length: int, big: bool, geometry: Geometry) -> bool:
    """Return whether bits above High Bit are zero or a sign extension, and bits below the used ones zero."""
    import numpy as np

    if geometry.bits_allocated == 1:
        return True
    _, below, above = _masks(geometry)
    sign = 1 << geometry.high_bit
    for chunk in _cells(buf, start, length, geometry):
        cells = np.frombuffer(
            chunk[: len(chunk) // (geometry.bits_allocated // 8) * (geometry.bits_allocated // 8)],
            _dtype(big, geometry),
        )
        everything = int(np.bitwise_or.reduce(cells)) if cells.size else 0
        if not everything & (above | below):
            continue
        if not geometry.signed or everything & below:
            return False
        negative = (cells & sign) != 0
        high = cells & above
        if bool(((high != 0) & ~(negative & (high == above))).any()):
            return False
    return True


def _with_bits_cleared(
    buf: Buffer, start: int, length: int, big: bool, geometry: Geometry
) -> Iterator[bytes]:
    import numpy as np

    used, _, above = _masks(geometry)
    sign = 1 << geometry.high_bit
    for chunk in _cells(buf, start, length, geometry):
        size = geometry.bits_allocated // 8
        whole = len(chunk) // size * size
        cells = np.frombuffer(chunk[:whole], _dtype(big, geometry)) & used
        if geometry.signed:
            cells = np.where(cells & sign, cells | above, cells)
        yield cells.astype(_dtype(big, geometry)).tobytes() + bytes(len(chunk) - whole)


def _encapsulated(
    result: WrittenPixels,
    buf: Buffer,
    start: int,
    end: int,
    layout: Layout,
    syntax: TransferSyntax,
    geometry: Geometry,
    streamed: bool,
) -> None:
    if syntax.codec == "native":
        raise Quarantined("encapsulated-pixels-in-native-syntax", "pixels")
    # Video streams have their own metadata, which is not parsed here.
    if syntax.codec == "video":
        raise Quarantined("video-metadata", "pixels")
    table, fragments, stop = _fragments(buf, start, end, layout)
    frames = _frames(buf, table, fragments, geometry.frames)
    # A missing table says nothing, and neither does that of one frame: a wrong one is written again.
    if table is None or (len(frames) == 1 and table not in (b"", bytes(4))):
        result.rules.append("C:offset-table")
    if len(frames) > geometry.frames:
        result.rules.append("X:surplus-frames")
        del frames[geometry.frames :]
    changed = 0
    for frame in frames:
        body = (
            buf[frame[0][0] : frame[0][0] + frame[0][1]]
            if len(frame) == 1
            else b"".join(buf[a : a + n] for a, n in frame)
        )
        clean = strip_frame(body, syntax, geometry)
        if clean is body:
            result.frames.append([_run(buf, begin, size, streamed) for begin, size in frame])
        else:
            changed += 1
            result.frames.append([clean])
    # Without one fragment group per frame the offsets of frames are unknown.
    result.table = bool(table) and len(frames) == geometry.frames
    result.pieces = encapsulate(result.frames, layout, table=result.table)
    result.rules += ["C:frame-metadata"] * changed
    result.end = stop


def encapsulate(frames: list[list[Piece]], layout: Layout, *, table: bool) -> list[Piece]:
    """Build the pieces of an encapsulated pixel data element (PS3.5 A.4).

    Parameters
    ----------
    frames : list of list of Piece
        Fragments of each frame.
    layout : Layout
        Layout of the data set.
    table : bool
        Whether to write a Basic Offset Table; it is omitted if the offsets exceed 32 bits.
    """
    pieces: list[Piece] = []
    offsets: list[int] = []
    at = 0
    for fragments in frames:
        offsets.append(at)
        for fragment in fragments:
            size = fragment.length if isinstance(fragment, Copy) else len(fragment)
            even = size + (size & 1)
            pieces += [layout.tag.pack(0xFFFE, 0xE000, even), fragment]
            if size & 1:
                pieces.append(b"\0")
            at += 8 + even
    new_table = (
        b"".join(layout.length.pack(offset) for offset in offsets) if table and at < UNDEFINED else b""
    )
    head = encode_header(layout, PIXEL_DATA, b"OB", UNDEFINED)
    first = layout.tag.pack(0xFFFE, 0xE000, len(new_table)) + new_table
    return [head, first, *pieces, layout.tag.pack(0xFFFE, 0xE0DD, 0)]


def _fragments(
    buf: Buffer, pos: int, end: int, layout: Layout
) -> tuple[bytes | None, list[tuple[int, int]], int]:
    """Return Basic Offset Table, (start, length) of each fragment, and where the element ends.

    The table is None where the first item is a code stream: some writers leave out the empty table.
    """
    items: list[tuple[int, int]] = []
    while True:
        if end - pos < 8:
            raise Quarantined("truncated", "pixels")
        group, number, length = layout.tag.unpack_from(buf, pos)
        tag, pos = group << 16 | number, pos + 8
        if tag == SEQUENCE_END:
            break
        if tag != ITEM:
            raise Quarantined("encapsulated-structure", "pixels")
        if pos + length > end:
            raise Quarantined("truncated", "pixels")
        items.append((pos, length))
        pos += length
    first, size = items[0] if items else (0, 0)
    if size and buf[first : first + 4].startswith(_CODE_STREAMS):
        return None, items, pos
    if len(items) < 2:
        raise Quarantined("encapsulated-structure", "pixels")
    return buf[first : first + size], items[1:], pos


# First bytes of code streams: JPEG and JPEG-LS, JPEG 2000; no offset table begins with such a large number.
_CODE_STREAMS = (b"\xff\xd8\xff", b"\xff\x4f\xff\x51")
# And of JPEG XL code streams, and JP2 or JPEG XL boxes.
_MAGIC = (b"\xff\xd8", b"\xff\x4f", b"\xff\x0a", b"\0\0\0\x0c")


def _frames(
    buf: Buffer, table: bytes | None, fragments: list[tuple[int, int]], frames: int
) -> list[list[tuple[int, int]]]:
    """Group fragments into frames: one each, all in one, by the offset table, or by the start of frames."""
    if len(fragments) == frames:
        return [[fragment] for fragment in fragments]
    if frames == 1:
        return [fragments]
    base = fragments[0][0] - 8
    table = table or b""
    starts = {int.from_bytes(table[i : i + 4], "little") for i in range(0, len(table) - 3, 4)}
    grouped: list[list[tuple[int, int]]] = []
    for fragment in fragments:
        begin = fragment[0]
        opens = begin - 8 - base in starts if starts else buf[begin : begin + 4].startswith(_MAGIC)
        if opens or not grouped:
            grouped.append([])
        grouped[-1].append(fragment)
    return grouped


def strip_frame(frame: bytes, syntax: TransferSyntax, geometry: Geometry) -> bytes:
    """Remove everything but the image from one encapsulated frame.

    The same object is returned if there was nothing to remove.
    """
    codec = syntax.codec
    if codec in ("jpeg", "jpeg-ls"):
        return markers.strip_jpeg_metadata(frame)
    if codec == "jpeg2000":
        return jpeg2000.strip_jpeg2000_metadata(frame)
    # RLE separates samples and their bytes into segments (PS3.5 G.2).
    if codec == "rle":
        segment = -(-geometry.rows * geometry.columns * min(geometry.bits_allocated, 8) // 8)
        return rle.clear_slack(frame, segment, geometry.samples * -(-geometry.bits_allocated // 8))
    if codec == "jpegxl":
        return jpegxl.strip_jpegxl_metadata(frame)
    return _deflated_frame(frame, geometry)


def _deflated_frame(frame: bytes, geometry: Geometry) -> bytes:
    """Require that a frame of Deflated Image Frame Compression contains one frame and nothing after it."""
    wanted = (geometry.frame_bits + 7) // 8
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        pixels = inflater.decompress(frame, wanted + 2)
    except zlib.error:
        raise Quarantined("malformed-deflate", "pixels") from None
    if len(pixels) > wanted + (wanted & 1) or not inflater.eof or inflater.unused_data.strip(b"\0"):
        raise Quarantined("deflated-frame-structure", "pixels")
    return frame
