"""ICC profiles (ICC.1) reduced to the numbers that describe colors.

Texts, dates, identifiers and unused bytes are set to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from math import prod
from struct import unpack_from

_HEADER, _ENTRY = 128, 12
# 15 is the most channels of a color space that the ICC defines (FCLR).
_MOST_TAGS, _MOST_CHANNELS = 200, 15
# SHA-256 of profiles that systems and libraries distribute: being common, they identify no site or person.
_PUBLIC_PROFILES = frozenset(
    [
        "20b2861ed86bfc80a86a58866f800c2652418c2e492173c0d54f8cd85f22c971",  # sRGB IEC61966-2.1 of palettes
        "2b3aa1645779a9e634744faf9b01e9102b0c9b88fd6deced7934df86b949af7e",  # sRGB IEC61966-2.1, 1998
    ]
)
_CLASSES = frozenset(b"scnr mntr prtr link spac abst nmcl".split())
_SPACES = frozenset(
    name.ljust(4).encode() for name in "XYZ Lab Luv YCbr Yxy RGB GRAY HSV HLS CMYK CMY 2CLR 3CLR 4CLR".split()
)
_TAGS = frozenset(
    b"A2B0 A2B1 A2B2 B2A0 B2A1 B2A2 B2D0 D2B0 rXYZ gXYZ bXYZ rTRC gTRC bTRC kTRC wtpt bkpt lumi chad chrm "
    b"gamt pre0 pre1 pre2 meas view tech desc cprt dmnd dmdd vued calt targ".split()
)
# Parameters of a parametric curve, by function type 0 to 4 (ICC.1 parametricCurveType).
_PARAMETERS = (1, 3, 4, 5, 7)
# CMM, reserved bytes of the version, date, platform, device and attributes, creator, profile ID and reserved.
_BLANKED_HEADER = ((4, 8), (10, 12), (24, 36), (40, 44), (48, 64), (80, 128))
# The illuminant of every profile is D50.
_D50_WHITE = bytes.fromhex("0000f6d6000100000000d32d")


def clean_profile(profile: bytes) -> bytes | None:
    """Return a well-known profile unchanged, any other as `reduce_profile` leaves it."""
    return profile if sha256(profile).hexdigest() in _PUBLIC_PROFILES else reduce_profile(profile)


def reduce_profile(profile: bytes) -> bytes | None:
    """Reduce a profile to the numbers that its registered tags declare.

    Removed bytes are set to zero in place, so offsets stay valid. Tags that the ICC has not registered are
    removed from the tag table.

    Returns
    -------
    bytes or None
        None if the profile is not well-formed.
    """
    if len(profile) < _HEADER + 4 or profile[36:40] != b"acsp":
        return None
    size, count = int.from_bytes(profile[:4], "big"), int.from_bytes(profile[_HEADER : _HEADER + 4], "big")
    table_end = _HEADER + 4 + _ENTRY * count
    if not table_end <= size <= len(profile) or count > _MOST_TAGS or not _plain_header(profile):
        return None
    # Copying into zeros, instead of clearing, leaves nothing in gaps between tags.
    out = bytearray(size)
    out[:_HEADER] = profile[:_HEADER]
    out[68:80] = _D50_WHITE
    for start, end in _BLANKED_HEADER:
        out[start:end] = bytes(end - start)
    table = [unpack_from(">4sII", profile, _HEADER + 4 + _ENTRY * index) for index in range(count)]
    kept = [entry for entry in table if entry[0] in _TAGS]
    names = [entry[0] for entry in kept]
    # Readers use one of two equal tags; the other would be unchecked content.
    if len(set(names)) != len(names):
        return None
    out[_HEADER : _HEADER + 4] = len(kept).to_bytes(4, "big")
    for place, (name, offset, length) in enumerate(kept):
        if offset < table_end or offset + length > size or length < 8:
            return None
        at = _HEADER + 4 + _ENTRY * place
        out[at : at + _ENTRY] = name + offset.to_bytes(4, "big") + length.to_bytes(4, "big")
        data = profile[offset : offset + length]
        for start, end in _used(data):
            out[offset + start : offset + end] = data[start:end]
    return bytes(out)


def _plain_header(profile: bytes) -> bool:
    """Return whether class and color spaces are names of the ICC, and flags and intent are defined values."""
    named = profile[12:16] in _CLASSES and {profile[16:20], profile[20:24]} <= _SPACES
    return named and all(int.from_bytes(profile[at : at + 4], "big") < 4 for at in (44, 64))


def _used(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a tag's data that contain its type and the numbers that it declares."""
    kind = data[:4]
    # ICC.1 requires text tags such as desc and cprt in every profile, so they stay with their type only.
    yield 0, 4
    if kind in (b"mAB ", b"mBA "):
        yield from _transform(data)
        return
    measure = _LENGTHS.get(kind)
    length = measure(data) if measure else 0
    if 8 < length <= len(data):
        yield 8, length


def _curve(data: bytes) -> int:
    """Return the length of a sampled or parametric curve; 0 if it is neither."""
    if data[:4] == b"curv" and len(data) >= 12:
        return 12 + 2 * int.from_bytes(data[8:12], "big")
    if data[:4] == b"para" and len(data) >= 12 and int.from_bytes(data[8:10], "big") < len(_PARAMETERS):
        return 12 + 4 * _PARAMETERS[int.from_bytes(data[8:10], "big")]
    return 0


def _table(data: bytes) -> int:
    """Return the length of a lut8 or lut16 table: input tables, grid and output tables."""
    if len(data) < 52:
        return 0
    inputs, outputs, grid = data[8:11]
    # grid**inputs must stay computable.
    if inputs > _MOST_CHANNELS:
        return 0
    before, after = (256, 256) if data[:4] == b"mft1" else unpack_from(">HH", data, 48)
    entries: int = inputs * before + grid**inputs * outputs + outputs * after
    return 48 + entries if data[:4] == b"mft1" else 52 + 2 * entries


def _transform(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a lutAToB or lutBToA transform: curves, matrix and grid (ICC.1 10.12)."""
    if len(data) < 32:
        return
    yield 8, 10
    yield 12, 32
    inputs, outputs = data[8:10]
    b_curves, matrix, m_curves, grid, a_curves = unpack_from(">5I", data, 12)
    if matrix and matrix + 48 <= len(data):
        yield matrix, matrix + 48
    if grid and grid + 20 <= len(data):
        entries = prod(data[grid : grid + inputs]) * outputs * data[grid + 16]
        yield grid, grid + inputs
        yield grid + 16, grid + 17
        if grid + 20 + entries <= len(data):
            yield grid + 20, grid + 20 + entries
    # B and M curves are on the side of the connection space, A curves on the side of the device.
    colors, channels = (outputs, inputs) if data[:4] == b"mAB " else (inputs, outputs)
    for at, curves in ((b_curves, colors), (m_curves, colors), (a_curves, channels)):
        for _ in range(curves if at else 0):
            length = _curve(data[at:])
            if not length or at + length > len(data):
                return
            yield at, at + 4
            yield at + 8, at + length
            # Curves start at multiples of 4 bytes.
            at += length + -length % 4


def _numbers(most: int, width: int) -> Callable[[bytes], int]:
    return lambda data: 8 + min(len(data) - 8, most) // width * width


# Type -> length of a tag's data. Of any other type only the type signature is kept.
_LENGTHS: Mapping[bytes, Callable[[bytes], int]] = {
    b"XYZ ": _numbers(12, 12),
    b"curv": _curve,
    b"para": _curve,
    b"mft1": _table,
    b"mft2": _table,
    b"sf32": _numbers(36, 4),
    b"uf32": _numbers(36, 4),
    b"chrm": lambda data: 12 + 8 * min(int.from_bytes(data[8:10], "big"), 4),
    b"view": _numbers(28, 4),
    b"meas": _numbers(28, 4),
}
