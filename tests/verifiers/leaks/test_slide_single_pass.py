"""One pass over a slide file gives the same digests and hits as simpler means, for any chunks."""

from __future__ import annotations

import mmap
import struct
import sys
import zlib
from hashlib import sha256
from pathlib import Path

import pytest
from medsanitize.sanitize.context import KnownValue
from medsanitize.verifiers.leaks import slide_single_pass
from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch, build_identifier_search
from medsanitize.verifiers.leaks.slide_single_pass import CHUNK, SinglePassReader, TileSums, sums_of

WORD = b"s26-0047119"


def read(path: Path, tiles: list[tuple[int, int]], net: IdentifierSearch) -> tuple[set[str], str, bytes]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        one = SinglePassReader(data, tiles)
        rules = {hit.rule for hit in one.hits(net)}
        return rules, one.sha256, one.tiles


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(200, 250)) * ((2 * CHUNK + 5000) // 50))
    return path


@pytest.mark.parametrize("spelled", [WORD, WORD.upper(), WORD.decode().encode("utf-16-le")])
@pytest.mark.parametrize("place", [0, CHUNK - 5, 2 * CHUNK - 3, 2 * CHUNK + 4000])
def test_a_word_of_the_source_is_found_across_chunks(large: Path, place: int, spelled: bytes) -> None:
    data = large.read_bytes()
    large.write_bytes(data[:place] + spelled + data[place:])
    rules, digest, _ = read(large, [], build_identifier_search(()).with_words([WORD]))
    assert (rules, digest) == ({"source-text"}, sha256(large.read_bytes()).hexdigest())


@pytest.mark.parametrize("people", [1, 2500])
def test_a_search_with_additional_words_still_finds_known_identifiers(large: Path, people: int) -> None:
    large.write_bytes(large.read_bytes() + b" Zebrowski^Xaverine " + WORD)
    known = [
        KnownValue("name", "Zebrowski^Xaverine"),
        *(KnownValue("id", f"QX{n:07d}") for n in range(people)),
    ]
    rules, _, _ = read(large, [], build_identifier_search(known).with_words([WORD]))
    assert rules == {"name", "source-text"}


def test_a_word_with_other_separators_does_not_match(large: Path) -> None:
    large.write_bytes(large.read_bytes() + b" s26 0047119 ")
    assert read(large, [], build_identifier_search(()).with_words([WORD]))[0] == set()


def test_tile_sums_depend_on_the_picture_and_not_on_the_file(large: Path) -> None:
    tiles = [(CHUNK - 100, 2 * CHUNK + 50), (0, 70), (90, CHUNK - 100), (0, 70)]
    data = large.read_bytes()
    sums = [struct.pack(">QI", b - a, zlib.crc32(data[a:b])) for a, b in tiles]
    assert read(large, tiles, build_identifier_search(()))[2] == b"".join(sums)


def test_tile_sums_are_the_same_without_the_extra(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = [(CHUNK - 100, 2 * CHUNK + 50), (0, 70)]
    with_extra = sums_of(large.read_bytes(), tiles)
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    monkeypatch.setattr(slide_single_pass, "_crc32", slide_single_pass._crc32.__wrapped__)

    assert sums_of(large.read_bytes(), tiles) == with_extra


def test_overlapping_tiles_have_no_sums() -> None:
    sums = TileSums(bytes(300), [(0, 250), (50, 260)])
    sums.take(bytes(200), 0)

    with pytest.raises(ValueError, match="overlap"):
        sums.take(bytes(100), 200)


def test_tables_before_the_scan_are_ignored(tmp_path: Path) -> None:
    found = set()
    for head in (b"\xff\xd8", b"\xff\xd8\xff\xfe\0\x06note"):
        path = tmp_path / f"{len(head)}"
        path.write_bytes(head + b"\xff\xda\0\x02image\xff\xd9")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            sums = TileSums(data, [(0, len(data))])
            sums.take(data[:], 0)
            found.add(sums.joined())
    assert len(found) == 1
