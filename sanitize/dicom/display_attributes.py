"""Header attributes that determine how frames are displayed: palette and ultrasound regions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from medsanitize.sanitize.burned_in.rendering import Palette
from medsanitize.sanitize.dicom.assemble import raw_value
from medsanitize.sanitize.dicom.segmented_palette import expand_segments
from medsanitize.sanitize.formats.dicom.elements import read_element_header
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from medsanitize.sanitize.formats.dicom.transfer_syntax import Layout
from medsanitize.sanitize.quarantine import Quarantined

_DESCRIPTORS, _TABLES = (0x00281101, 0x00281102, 0x00281103), (0x00281201, 0x00281202, 0x00281203)
_SEGMENTED = (0x00281221, 0x00281222, 0x00281223)
_REGIONS = 0x00186011
_LEFT, _TOP, _RIGHT, _BOTTOM = 0x00186018, 0x0018601A, 0x0018601C, 0x0018601E


def read_palette(out: list[bytes], layout: Layout, geometry: Geometry) -> Palette | None:
    """Read the palette of a ``PALETTE COLOR`` object (PS3.3 C.7.6.3.1.5 and C.7.6.3.1.6).

    Returns ``None`` for other objects.

    Raises
    ------
    Quarantined
        ``pixels-undecodable`` for a malformed palette: text would be read in other colors than are shown.
    """
    if geometry.photometric != "PALETTE COLOR":
        return None
    order = "big" if layout.big else "little"
    channels, first = [], 0
    for descriptor, table, segments in zip(_DESCRIPTORS, _TABLES, _SEGMENTED, strict=True):
        said, data = raw_value(out, layout, descriptor), raw_value(out, layout, table)
        if len(said) != 6:
            raise Quarantined("pixels-undecodable", "pixels")
        # 0 entries mean 65536; the first value has the sign of the pixels.
        count = int.from_bytes(said[:2], order) or 1 << 16  # type: ignore[arg-type]
        first = int.from_bytes(said[2:4], order, signed=geometry.signed)  # type: ignore[arg-type]
        if not data:
            bits = int.from_bytes(said[4:], order)  # type: ignore[arg-type]
            runs = raw_value(out, layout, segments)
            entries = expand_segments(runs, bits, count, big=layout.big)
            if entries is None:
                raise Quarantined("pixels-undecodable", "pixels")
            channels.append((entries >> 8 if bits > 8 else entries).astype(np.uint8))
            continue
        # One word per entry, of which 16-bit entries use the high byte; otherwise one byte per entry.
        if len(data) >= 2 * count:
            cells = np.frombuffer(data, ">u2" if layout.big else "<u2", count)
            channels.append((cells >> 8 if int(cells.max()) > 255 else cells).astype(np.uint8))
        elif len(data) >= count:
            channels.append(np.frombuffer(data, np.uint8, count))
        else:
            raise Quarantined("pixels-undecodable", "pixels")
    if len({len(one) for one in channels}) != 1:
        raise Quarantined("pixels-undecodable", "pixels")
    return Palette(np.stack(channels, axis=-1), first)


def ultrasound_regions(out: list[bytes], layout: Layout, geometry: Geometry) -> tuple[Area, ...]:
    """Return the ultrasound regions (PS3.3 C.8.5.5) as half-open areas within the frame.

    Regions that are incomplete or empty are left out.
    """
    value = raw_value(out, layout, _REGIONS)
    found = []
    try:
        for item in _items(value, layout):
            bounds = dict(_numbers(item, layout))
            if not {_LEFT, _TOP, _RIGHT, _BOTTOM} <= bounds.keys():
                continue
            # The standard's bounds include the last row and column.
            right, bottom = min(bounds[_RIGHT] + 1, geometry.columns), min(bounds[_BOTTOM] + 1, geometry.rows)
            if bounds[_LEFT] < right and bounds[_TOP] < bottom:
                found.append((bounds[_LEFT], bounds[_TOP], right, bottom))
    except Quarantined:
        return ()
    return tuple(found)


def _items(value: bytes, layout: Layout) -> Iterator[bytes]:
    pos = 0
    while pos + 8 <= len(value):
        length = layout.length.unpack_from(value, pos + 4)[0]
        yield value[pos + 8 : pos + 8 + length]
        pos += 8 + length


def _numbers(item: bytes, layout: Layout) -> Iterator[tuple[int, int]]:
    """Tags and values of the elements with a value of four bytes."""
    pos = 0
    while pos + 8 <= len(item):
        tag, _, length, start = read_element_header(item, pos, len(item), layout)
        if length == 4:
            yield tag, layout.length.unpack_from(item, start)[0]
        pos = start + length
