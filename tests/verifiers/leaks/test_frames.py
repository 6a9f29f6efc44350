"""Tiles of DICOM slides have the digest of the same tiles in a vendor's file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pydicom
import pytest
from medsanitize.verifiers.leaks.dicom_reader import read
from medsanitize.verifiers.leaks.pixel_digest import pixel_digest
from medsanitize.verifiers.leaks.slide_audit import tile_digest
from medsanitize.verifiers.leaks.tile_digest import frames_digest
from pydicom.encaps import encapsulate

from tests.helpers import slides

ACROSS = 256 // slides.TILE


def digest(data: pydicom.Dataset) -> str | None:
    out = io.BytesIO()
    data.save_as(out, enforce_file_format=True)
    return frames_digest(read(out.getvalue()))


def bare(tile: bytes) -> bytes:
    """A tile without its comment, as in a cleaned copy."""
    return tile.replace(tile[2 : tile.index(b"\xff\xdb")], b"")


def test_a_vendor_slide_and_its_dicom_have_the_same_digest(tmp_path: Path) -> None:
    path = tmp_path / "x.svs"
    path.write_bytes(bytes(slides.aperio().data))
    assert digest(slides.dicom()) == tile_digest(path, ()) is not None


def test_comments_in_frames_and_padding_do_not_change_the_digest() -> None:
    tiles = slides.tiles(slides.levels()[0])
    assert {len(tile) % 2 for tile in tiles} == {0, 1}
    assert digest(slides.dicom([bare(tile) for tile in tiles])) == digest(slides.dicom(tiles))


def test_sparse_tiles_are_digested_row_by_row() -> None:
    tiles = slides.tiles(slides.levels()[0])
    order = [5, 3, 0, *(n for n in range(len(tiles)) if n not in (5, 3, 0))]
    data = slides.dicom([tiles[number] for number in order])
    data.PerFrameFunctionalGroupsSequence = [placed(number) for number in order]
    assert digest(data) == digest(slides.dicom())


def placed(number: int) -> pydicom.Dataset:
    position, group = pydicom.Dataset(), pydicom.Dataset()
    position.RowPositionInTotalImagePixelMatrix = number // ACROSS * slides.TILE + 1
    position.ColumnPositionInTotalImagePixelMatrix = number % ACROSS * slides.TILE + 1
    group.PlanePositionSlideSequence = [position]
    return group


@pytest.mark.parametrize("change", ["order", "one", "fewer"])
def test_other_tiles_have_another_digest(change: str) -> None:
    tiles = slides.tiles(slides.levels()[0])
    other: Sequence[bytes] = {
        "order": tiles[::-1],
        "one": [slides.jpeg(slides.tissue(slides.TILE)[::-1]), *tiles[1:]],
        "fewer": tiles[:-1],
    }[change]
    assert digest(slides.dicom(other)) != digest(slides.dicom())


def test_pixel_and_tile_digests_differ() -> None:
    out = io.BytesIO()
    slides.dicom().save_as(out, enforce_file_format=True)
    assert pixel_digest(out.getvalue()) not in (None, frames_digest(read(out.getvalue())))


def test_other_objects_and_uncompressed_frames_have_no_tile_digest() -> None:
    other = slides.dicom()
    other.SOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    plain = slides.dicom()
    plain.decompress()
    assert (digest(other), digest(plain)) == (None, None)


def test_fragmented_frames_have_no_tile_digest() -> None:
    data = slides.dicom()
    data.PixelData = encapsulate(slides.tiles(slides.levels()[0]), fragments_per_frame=2, has_bot=False)
    assert digest(data) is None
