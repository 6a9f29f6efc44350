"""JPEG and JPEG-LS code streams (ITU-T T.81, T.87) without the segments that decoding does not use."""

from __future__ import annotations

import re
from dataclasses import dataclass

from medsanitize.sanitize.formats.jpeg.tables import (
    HUFFMAN,
    QUANTISATION,
    CodingTable,
    Scan,
    keep_used,
    parse_tables,
)
from medsanitize.sanitize.quarantine import Quarantined

_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
# T.87 stuffs a bit, not a byte: after FF the next bit is 0, so a marker has a second byte of 80 or more.
_MARKER_LS = re.compile(rb"\xff[\x80-\xfe]", re.DOTALL)
_EOI, _SOS, _DNL, _DRI, _DAC, _LSE, _COM = 0xD9, 0xDA, 0xDC, 0xDD, 0xCC, 0xF8, 0xFE
_LS = 0xF7
_STANDALONE = frozenset([0x01, *range(0xD0, 0xD8)])
# Frame headers that DICOM transfer syntaxes use; hierarchical and differential frames could hide an image.
_FRAMES = frozenset([0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA, 0xCB, _LS])
_ARITHMETIC = frozenset([0xC9, 0xCA, 0xCB])
_MOST_COMPONENTS = 4


@dataclass(frozen=True, slots=True)
class _Segment:
    """A marker segment: its code, and the offsets of its marker (with fill bytes), parameters and end."""

    marker: int
    begun: int
    body: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame header: marker, number of lines, and component -> quantization table."""

    marker: int
    lines: int
    components: dict[int, int]


def strip_jpeg_metadata(frame: bytes) -> bytes:
    """Remove what decoding does not use.

    That is COM and APPn segments (except plain JFIF, Adobe and HP color markers), tables that no scan uses,
    segments without a meaning in this process, and everything after End Of Image.

    Returns
    -------
    bytes
        The same object if there was nothing to remove.

    Raises
    ------
    Quarantined
        ``jpeg-structure`` if the markers contradict each other, or the length of a segment does not follow
        from its parameters.
    """
    if frame[:2] != b"\xff\xd8":
        raise _refused()
    segments, end = _segments(frame)
    edits = _edits(frame, segments)
    # DICOM pads frames to an even length with one zero byte.
    if not edits and frame[end:].strip(b"\0") == b"" and len(frame) - end <= 1:
        return frame
    pieces: list[bytes] = []
    kept_from = 0
    for segment, instead in sorted(edits.items(), key=lambda edit: edit[0].begun):
        pieces += [frame[kept_from : segment.begun], instead]
        kept_from = segment.stop
    return b"".join([*pieces, frame[kept_from:end]])


def _segments(frame: bytes) -> tuple[list[_Segment], int]:
    """Return every marker segment, and where End Of Image ends."""
    found: list[_Segment] = []
    pos, end, pattern = 2, len(frame), _MARKER
    while True:
        marker, pos, begun = _next_marker(frame, pos, end)
        if marker == _EOI:
            return found, pos
        if marker in _STANDALONE:
            continue
        if pos + 2 > end:
            raise _refused()
        stop = pos + int.from_bytes(frame[pos : pos + 2], "big")
        if stop > end or stop < pos + 2:
            raise _refused()
        found.append(_Segment(marker, begun, pos + 2, stop))
        pos = stop
        if marker == _LS:
            pattern = _MARKER_LS
        if marker == _SOS:
            after = pattern.search(frame, pos)
            if after is None:
                raise _refused()
            pos = after.start()
            while frame[pos - 1] == 0xFF and pos > stop:
                pos -= 1  # fill bytes before a marker


def _edits(frame: bytes, segments: list[_Segment]) -> dict[_Segment, bytes]:
    """Return segment -> replacement (empty: removed) for the segments that change."""
    header = _frame_header(frame, segments)
    edits: dict[_Segment, bytes] = {}
    kept: set[bytes] = set()
    last: dict[tuple[int, int], _Segment] = {}
    tables: dict[_Segment, list[CodingTable]] = {}
    live: dict[tuple[int, int], CodingTable] = {}
    latched: set[int] = set()
    scans = 0
    for segment in segments:
        marker, body = segment.marker, frame[segment.body : segment.stop]
        if marker == _COM or 0xE0 <= marker <= 0xEF:
            kind = bytes([marker])
            # One segment of each kind takes effect; a repeated one could contain anything.
            needed = b"" if kind in kept else _needed(marker, body)
            kept.add(kind)
            if needed != body:
                edits[segment] = frame[segment.begun : segment.body] + needed if needed else b""
        elif marker in (HUFFMAN, QUANTISATION):
            tables[segment] = parse_tables(marker, body)
            live.update({(table.kind, table.number): table for table in tables[segment]})
        elif marker in (_DRI, _LSE, _DAC):
            _parameters(header, marker, body)
            key = (marker, body[0] if marker == _LSE else 0)
            if not _means_something(header, marker):
                edits[segment] = b""
            elif key in last:
                edits[last[key]] = b""  # overwritten before any scan used it
            last[key] = segment
        elif marker == _DNL:
            if len(body) != 2 or not scans:
                raise _refused()
            # DNL is only read after the first scan of a frame that leaves its lines open (T.81 B.2.5).
            if header.lines or scans > 1 or (marker, 0) in last:
                edits[segment] = b""
            last[marker, 0] = segment
        elif marker == _SOS:
            scans += 1
            # From here on this scan has used the parameters, so that later ones do not replace them.
            last = {key: one for key, one in last.items() if key[0] == _DNL}
            for key in _scan(header, body).uses(header.components, latched):
                if key in live:
                    live[key].used = True
        elif marker != header.marker:
            raise _refused()
    if not scans:
        raise _refused()
    # A table is unused if another replaced it before a scan read it, or if no scan names it.
    for segment, own in tables.items():
        if not all(table.used for table in own):
            edits[segment] = keep_used(segment.marker, own)
    return edits


def _frame_header(frame: bytes, segments: list[_Segment]) -> _Frame:
    """Return the only frame header (T.81 B.2.2, T.87 C.2.2), with the length that its components imply."""
    heads = [segment for segment in segments if segment.marker in _FRAMES]
    if len(heads) != 1:
        raise _refused()
    body = frame[heads[0].body : heads[0].stop]
    if len(body) < 6 or body[5] not in range(1, _MOST_COMPONENTS + 1) or len(body) != 6 + 3 * body[5]:
        raise _refused()
    components = {body[at]: body[at + 2] for at in range(6, len(body), 3)}
    return _Frame(heads[0].marker, int.from_bytes(body[1:3], "big"), components)


def _scan(header: _Frame, body: bytes) -> Scan:
    """Parse a scan header (T.81 B.2.3), with the length that its components imply."""
    if not body or body[0] not in range(1, _MOST_COMPONENTS + 1) or len(body) != 4 + 2 * body[0]:
        raise _refused()
    components = {body[at]: body[at + 1] for at in range(1, len(body) - 3, 2)}
    if not components.keys() <= header.components.keys():
        raise _refused()
    if header.marker == _LS and any(components.values()):
        raise _refused()  # mapping tables of T.87, which DICOM has no use for
    return Scan(header.marker, components, body[-3], body[-1] >> 4)


def _parameters(header: _Frame, marker: int, body: bytes) -> None:
    """Require valid lengths and values of restart interval, arithmetic conditioning and JPEG-LS presets."""
    if marker == _DRI and len(body) in ((2, 3, 4) if header.marker == _LS else (2,)):
        return
    if marker == _LSE and len(body) == 11 and body[0] == 1:
        limit, *thresholds = (int.from_bytes(body[at : at + 2], "big") for at in range(1, 9, 2))
        # 0 selects the default; thresholds ascend and do not exceed MAXVAL (T.87 C.2.4.1.1).
        set_ones = [value for value in thresholds if value]
        if set_ones == sorted(set_ones) and (not limit or not set_ones or set_ones[-1] <= limit):
            return
    if marker == _LSE and header.marker != _LS:
        return
    if marker == _DAC and (header.marker not in _ARITHMETIC or _conditions(body)):
        return
    raise _refused()


def _conditions(body: bytes) -> bool:
    """Return whether arithmetic conditioning tables are valid and set at most once (T.81 B.2.4.3)."""
    names = body[::2]
    return len(body) % 2 == 0 and len(set(names)) == len(names) and all(name & 0xEC == 0 for name in names)


def _means_something(header: _Frame, marker: int) -> bool:
    if marker == _DAC:
        return header.marker in _ARITHMETIC
    return marker == _DRI or header.marker == _LS


def _next_marker(frame: bytes, pos: int, end: int) -> tuple[int, int, int]:
    """Return the marker code at ``pos``, the offset after it, and the start of its prefix with fill bytes."""
    begun = pos
    if pos + 2 > end or frame[pos] != 0xFF:
        raise _refused()
    while pos < end and frame[pos] == 0xFF:
        pos += 1
    if pos >= end:
        raise _refused()
    return frame[pos], pos + 1, begun


def _needed(marker: int, body: bytes) -> bytes:
    """Return what decoding needs: JFIF without thumbnail, Adobe's and HP's color transforms (T.87 M.2)."""
    if marker == 0xE0 and len(body) == 14 and body[:5] == b"JFIF\0" and body[7] <= 2 and not any(body[12:]):
        return body
    if marker == 0xEE and len(body) == 12 and body[:5] == b"Adobe":
        # No decoder reads Adobe's version and flags, so unusual ones are replaced.
        plain = body[5:7] in (b"\0\x64", b"\0\x65") and not (body[7] & 0x3F or any(body[8:11]))
        return body if plain else b"Adobe\0\x64\0\0\0\0" + body[11:]
    return body if marker == 0xE8 and len(body) == 5 and body[:4] == b"mrfx" else b""


def _refused() -> Quarantined:
    return Quarantined("jpeg-structure", "pixels")
