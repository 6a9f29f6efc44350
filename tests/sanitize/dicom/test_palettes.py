"""Palettes are read as viewers read them, so that text is looked for in the colors that are shown."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.dicom.display_attributes import read_palette
from medsanitize.sanitize.dicom.segmented_palette import expand_segments
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.transfer_syntax import EXPLICIT_LITTLE, encode_element
from medsanitize.sanitize.quarantine import Quarantined

IMAGE = Geometry(8, 8, 1, 1, 16, 16, 15, False, "PALETTE COLOR")
# Two entries, a line of three, and the first segment again.
SEGMENTS = (0, 2, 700, 900, 1, 3, 3000, 2, 1, 0, 0)
ENTRIES = [700, 900, 1600, 2300, 3000, 700, 900]


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def elements(descriptor: bytes, table: bytes, first: int = 0x00281221) -> list[bytes]:
    """The three descriptors and tables of a palette."""
    return [
        *(encode_element(EXPLICIT_LITTLE, 0x00281101 + color, b"US", descriptor) for color in range(3)),
        *(encode_element(EXPLICIT_LITTLE, first + color, b"OW", table) for color in range(3)),
    ]


def test_runs_lines_and_references_are_expanded() -> None:
    found = expand_segments(words(*SEGMENTS), 16, 7, big=False)

    assert found is not None
    assert found.tolist() == ENTRIES


def test_words_may_be_big_endian_and_entries_bytes() -> None:
    big = struct.pack(f">{len(SEGMENTS)}H", *SEGMENTS)
    small = bytes([0, 2, 7, 9, 1, 3, 30, 2, 1, 0, 0, 0, 0])

    assert np.array_equal(expand_segments(big, 16, 7, big=True), ENTRIES)
    assert np.array_equal(expand_segments(small, 8, 7, big=False), [7, 9, 16, 23, 30, 7, 9])


@pytest.mark.parametrize("count", [6, 8, 65536])
def test_a_table_of_another_length_is_malformed(count: int) -> None:
    assert expand_segments(words(*SEGMENTS), 16, count, big=False) is None


@given(st.binary(max_size=64), st.sampled_from([8, 16]), st.integers(1, 40))
def test_malformed_segments_are_refused(data: bytes, bits: int, count: int) -> None:
    found = expand_segments(data, bits, count, big=False)

    assert found is None or len(found) == count


def test_a_segmented_palette_shows_the_same_colors_as_a_plain_one() -> None:
    descriptor = words(7, 0, 16)
    plain = elements(descriptor, words(*ENTRIES), 0x00281201)
    segmented = elements(descriptor, words(*SEGMENTS))

    one, other = (read_palette(out, EXPLICIT_LITTLE, IMAGE) for out in (plain, segmented))

    assert one is not None
    assert other is not None
    assert np.array_equal(one.colors, other.colors)


@pytest.mark.parametrize(
    "out", [[], elements(words(8, 0, 16), words(*SEGMENTS)), elements(words(7, 0, 16), b"\0\0", 0x00281201)]
)
def test_an_image_without_a_readable_palette_is_quarantined(out: list[bytes]) -> None:
    with pytest.raises(Quarantined, match="pixels-undecodable"):
        read_palette(out, EXPLICIT_LITTLE, IMAGE)
