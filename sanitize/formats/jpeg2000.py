"""JPEG 2000 and HTJ2K code streams (ITU-T T.800 Annex A), reduced to what decoding uses.

Packets are copied unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from medsanitize.sanitize.quarantine import Quarantined

_SOC, _SOT, _SOD, _EOC = b"\xff\x4f", b"\xff\x90", b"\xff\x93", b"\xff\xd9"
_SIZ, _COD, _COC, _QCD, _QCC, _RGN, _POC, _CAP = 0x51, 0x52, 0x53, 0x5C, 0x5D, 0x5E, 0x5F, 0x50
_TLM, _PLT = 0x55, 0x58
# PRF, PLM, CPF, CRG and COM (profiles, packet lengths of the main header, registration, comments):
# no decoder needs them.
_OPTIONAL = frozenset([0x56, 0x57, 0x59, 0x63, 0x64])
_OF_MAIN, _OF_TILES = frozenset([_SIZ, _CAP, _TLM]), frozenset([_PLT])
_BOX_SIGNATURE = b"\0\0\0\x0cjP  "
_MOST_COMPONENTS = 256
_MOST_LEVELS = 32
_MOST_ORDERS = 64


def strip_jpeg2000_metadata(frame: bytes) -> bytes:
    """Reduce one frame to a bare code stream.

    Comments, registration, profiles, wrong tables of lengths and bytes after the end are removed. A frame
    that has none of them is returned unchanged.

    Raises
    ------
    Quarantined
        ``jpeg2000-structure`` if markers and tile lengths contradict each other, the length of a segment
        does not follow from its parameters, or packet headers are stored apart from their packets.
    """
    stream = _code_stream(frame) if frame[:8] == _BOX_SIGNATURE else frame
    if stream[:2] != _SOC:
        raise _refused()
    main, pos = _segments(stream, 2, _SOT)
    components, levels = _components(main), _levels(main)
    tiles: list[tuple[bytes, bytes]] = []
    while stream[pos : pos + 2] == _SOT:
        tile, pos = _tile_part(stream, pos, components, levels)
        tiles.append(tile)
    if not tiles:
        raise _refused()
    lengths = [(head[4:6], len(head) + len(body)) for head, body in tiles]
    kept = [
        one for one in _kept(main, components, levels, _OF_TILES) if one[1] != _TLM or _is_true(main, lengths)
    ]
    tail = stream[pos:]
    out = b"".join([_SOC, *kept, *(part for tile in tiles for part in tile)])
    # DICOM pads frames to an even length: one zero byte may follow the end.
    if len(out) == pos and stream is frame and tail in (_EOC, _EOC + b"\0", b""):
        return frame
    return out + (_EOC if tail[:2] == _EOC or not tail else b"")


def _refused() -> Quarantined:
    return Quarantined("jpeg2000-structure", "pixels")


def _code_stream(boxes: bytes) -> bytes:
    """Return the contents of the code stream box of a JP2 file; all other boxes are dropped."""
    pos, end = 0, len(boxes)
    while end - pos >= 8:
        length, kind, head = int.from_bytes(boxes[pos : pos + 4], "big"), boxes[pos + 4 : pos + 8], 8
        if length == 1:
            length, head = int.from_bytes(boxes[pos + 8 : pos + 16], "big"), 16
        elif length == 0:
            length = end - pos
        if length < head or pos + length > end:
            break
        if kind == b"jp2c":
            return boxes[pos + head : pos + length]
        pos += length
    raise _refused()


def _segments(stream: bytes, pos: int, until: bytes) -> tuple[list[bytes], int]:
    """Return the marker segments from ``pos`` to the marker ``until``, and where that marker is."""
    found: list[bytes] = []
    end = len(stream)
    while stream[pos : pos + 2] != until:
        if end - pos < 4 or stream[pos] != 0xFF:
            raise _refused()
        stop = pos + 2 + int.from_bytes(stream[pos + 2 : pos + 4], "big")
        if stop > end or stop < pos + 4:
            raise _refused()
        found.append(stream[pos:stop])
        pos = stop
    return found, pos


def _components(main: list[bytes]) -> int:
    """Return the number of components, stated by the SIZ segment, which comes first (T.800 A.5.1)."""
    size = main[0] if main else b""
    count = int.from_bytes(size[38:40], "big")
    if size[1:2] != bytes([_SIZ]) or not 1 <= count <= _MOST_COMPONENTS or len(size) != 40 + 3 * count:
        raise _refused()
    return count


def _levels(segments: list[bytes]) -> int:
    """Return the largest number of decomposition levels in COD and COC segments."""
    places = {_COD: 9, _COC: 6}
    return max((one[places[one[1]]] for one in segments if len(one) > places.get(one[1], 1 << 16)), default=0)


def _kept(segments: list[bytes], components: int, levels: int, elsewhere: frozenset[int]) -> list[bytes]:
    """Return the segments that decoding uses, checked for length and repetition."""
    kept: list[bytes] = []
    seen: set[bytes] = set()
    for segment in segments:
        marker, body = segment[1], segment[4:]
        if marker in _OPTIONAL or (marker in (_COC, _QCC, _RGN) and (not body or body[0] >= components)):
            continue
        named = segment[1:2] + (body[:1] if marker in (_COC, _QCC, _RGN, _TLM, _PLT) else b"")
        # Of a repeated segment a decoder uses one; the other could contain anything.
        if marker not in _FORMS or marker in elsewhere or named in seen:
            raise _refused()
        right = _FORMS[marker]
        if right is not None and not right(body, components):
            raise _refused()
        # There are 3 x levels + 1 subbands; further step sizes are never read.
        if marker in (_QCD, _QCC) and _steps(body[marker == _QCC :]) > 3 * levels + 1:
            raise _refused()
        seen.add(named)
        kept.append(segment)
    return kept


def _precincts(style: int, body: bytes) -> bool:
    """Return whether levels and, if ``style`` announces them, precinct sizes fill the body (T.800 A.6.1)."""
    if not body or body[0] > _MOST_LEVELS:
        return False
    return len(body) == 5 + (body[0] + 1 if style & 1 else 0)


def _steps(body: bytes) -> int:
    """Return the number of step sizes: reversible, derived, or one for each subband (T.800 A.6.4)."""
    style = body[0] & 0x1F if body else 3
    return {0: len(body) - 1, 1: 1, 2: (len(body) - 1) // 2}.get(style, 0)


def _quantisation(body: bytes) -> bool:
    steps = _steps(body)
    whole = len(body) - 1 == (steps if body and body[0] & 0x1F == 0 else 2 * steps)
    return steps % 3 == 1 and whole


def _orders(body: bytes, components: int) -> bool:
    """Return whether progression order changes fit the image's resolutions and components (T.800 A.6.6)."""
    if not body or len(body) % 7 or len(body) // 7 > _MOST_ORDERS:
        return False
    for at in range(0, len(body), 7):
        resolution, component, _, _, last_resolution, last_component, order = body[at : at + 7]
        if not resolution < last_resolution <= _MOST_LEVELS + 1 or order > 4:
            return False
        if not component < (last_component or _MOST_COMPONENTS) or component >= components:
            return False
    return True


# Marker -> whether the parameters of a segment are well-formed (None: checked elsewhere).
# Other markers are rejected: reserved ones, and PPM and PPT, because packed packet headers cannot be
# distinguished from other content without decoding.
_FORMS: Mapping[int, Callable[[bytes, int], bool] | None] = {
    _SIZ: None,
    _TLM: None,
    _PLT: None,
    _CAP: lambda body, _: len(body) == 4 + 2 * int.from_bytes(body[:4], "big").bit_count(),
    _COD: lambda body, _: len(body) > 5 and _precincts(body[0], body[5:]),
    _COC: lambda body, _: len(body) > 2 and _precincts(body[1], body[2:]),
    _QCD: lambda body, _: _quantisation(body),
    _QCC: lambda body, _: _quantisation(body[1:]),
    _RGN: lambda body, _: len(body) == 3 and body[1] == 0,
    _POC: _orders,
}


def _tile_part(stream: bytes, pos: int, components: int, levels: int) -> tuple[tuple[bytes, bytes], int]:
    """Return header and packets of one tile part, and the position of the next."""
    if len(stream) - pos < 14 or stream[pos + 2 : pos + 4] != b"\0\x0a":
        raise _refused()
    length = int.from_bytes(stream[pos + 6 : pos + 10], "big")
    headers, body = _segments(stream, pos + 12, _SOD)
    # A length of 0 means: up to the end of the code stream (T.800 A.4.2).
    stop = min(pos + length, len(stream)) if length else _end_of_packets(stream, body + 2)
    if stop < body + 2:
        raise _refused()
    packets = stream[body:stop]
    kept = _kept(headers, components, max(levels, _levels(headers)), _OF_MAIN)
    pointers = [one[5:] for one in kept if one[1] == _PLT]
    if _packet_bytes(b"".join(pointers)) != len(packets) - 2:
        # Optional pointers that do not add up could contain anything, and are dropped.
        kept = [one for one in kept if one[1] != _PLT]
    rest = b"".join(kept)
    new_length = (12 + len(rest) + len(packets)).to_bytes(4, "big")
    said = stream[pos + 6 : pos + 10] if not length or len(kept) == len(headers) else new_length
    return (stream[pos : pos + 6] + said + stream[pos + 10 : pos + 12] + rest, packets), stop


def _end_of_packets(stream: bytes, pos: int) -> int:
    """Return where the last tile part ends; packets contain no marker above FF8F (T.800 A.1)."""
    found = stream.find(_EOC, pos)
    return found if found >= 0 else len(stream)


def _packet_bytes(lengths: bytes) -> int | None:
    """Return the sum of packet lengths, coded in seven bits per byte (T.800 A.7.3); None if cut short."""
    total = length = 0
    for byte in lengths:
        length = length << 7 | byte & 0x7F
        if not byte & 0x80:
            total, length = total + length, 0
    return None if lengths and lengths[-1] & 0x80 else total


def _is_true(main: list[bytes], tiles: list[tuple[bytes, int]]) -> bool:
    """Return whether the tile-part lengths of the main header are correct (T.800 A.7.1)."""
    stated: list[tuple[bytes, int]] = []
    for body in (segment[4:] for segment in main if segment[1] == _TLM):
        index, wide = body[1] >> 4 & 3 if len(body) > 1 else 3, 4 if len(body) > 1 and body[1] & 0x40 else 2
        step = index + wide
        if index == 3 or (len(body) - 2) % step:
            return False
        for at in range(2, len(body), step):
            tile = body[at : at + index].rjust(2, b"\0") if index else len(stated).to_bytes(2, "big")
            stated.append((tile, int.from_bytes(body[at + index : at + step], "big")))
    return stated == tiles
