"""ICC profiles (ICC.1): colour numbers stay, every text, date and identifier in them is blanked."""

from __future__ import annotations

from hashlib import sha256
from struct import unpack_from

_HEADER = 128
_NUMERIC_TYPES = frozenset(
    [
        b"XYZ ",
        b"curv",
        b"para",
        b"mft1",
        b"mft2",
        b"mAB ",
        b"mBA ",
        b"sf32",
        b"uf32",
        b"ui08",
        b"ui16",
        b"ui32",
        b"chrm",
        b"sig ",
        b"view",
        b"meas",
    ]
)
_PUBLIC = frozenset(
    [
        "20b2861ed86bfc80a86a58866f800c2652418c2e492173c0d54f8cd85f22c971",  # sRGB IEC61966-2.1 of palettes
        "2b3aa1645779a9e634744faf9b01e9102b0c9b88fd6deced7934df86b949af7e",  # sRGB IEC61966-2.1, 1998
    ]
)
"""SHA-256 of profiles that are the same everywhere and so say nothing of anybody."""
_BLANKED_HEADER = ((4, 8), (24, 36), (40, 44), (48, 56), (56, 64), (80, 128))


def clean_profile(profile: bytes) -> bytes | None:
    """The profile with only its numeric tags' contents; ``None`` if it is not well formed."""
    if sha256(profile).hexdigest() in _PUBLIC:
        return profile
    if len(profile) < _HEADER + 4 or profile[36:40] != b"acsp":
        return None
    size = int.from_bytes(profile[:4], "big")
    count = int.from_bytes(profile[_HEADER : _HEADER + 4], "big")
    table_end = _HEADER + 4 + 12 * count
    if not table_end <= size <= len(profile) or count > 200:
        return None
    out = bytearray(size)
    out[:table_end] = profile[:table_end]
    for start, end in _BLANKED_HEADER:
        out[start:end] = bytes(end - start)
    for index in range(count):
        _, offset, length = unpack_from(">4sII", profile, _HEADER + 4 + 12 * index)
        if offset < table_end or offset + length > size or length < 8:
            return None
        kind = profile[offset : offset + 4]
        keep = length if kind in _NUMERIC_TYPES else 8
        out[offset : offset + keep] = profile[offset : offset + keep]
    return bytes(out)
