"""One object before and after, also if it is made to break its reader."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import pytest
from medsanitize import Previewer, UsageError, attribute_rules, inventory
from medsanitize.desk.previews import Previews
from medsanitize.pipeline.jobs.preview_object import text_changes

from tests.helpers.hospital import CANARIES, prepare, real_file, write_ct


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write_ct(tmp_path / "export" / "i0", 0, PatientComments=f"Call {CANARIES[0]} at home")
    prepare(tmp_path)
    return tmp_path


def test_the_header_is_a_difference_and_nothing_is_written(base: Path) -> None:
    before = sorted(base.rglob("*"))
    shown = Previewer(base / "policy.yaml")(base / "export" / "i0")
    rows = {row.tag: row for row in shown.header if not row.depth}
    assert shown.outcome == "released"
    assert (rows["(0010,0010)"].before, rows["(0010,0010)"].state) == (f"{CANARIES[0]}^A", "changed")
    assert rows["(0010,4000)"].state == "removed"
    assert rows["(0012,0062)"].state == "added"
    assert rows["(0028,0010)"].state == "same"
    assert (shown.before[:4], shown.after[:4], shown.changed) == (b"\x89PNG", b"\x89PNG", b"")
    assert CANARIES[0] not in repr(shown)
    assert sorted(base.rglob("*")) == before


def test_without_the_release_key_a_preview_says_so(base: Path) -> None:
    (base / "release.key").unlink()
    shown = Previewer(base / "policy.yaml")(base / "export" / "i0")
    assert any("pseudonyms differ" in note for note in shown.notes)


def test_words_that_are_cut_are_marked() -> None:
    assert text_changes("seen by Dr Vane today", "seen by today") == (
        ("same", "seen by"),
        ("cut", "Dr Vane"),
        ("same", "today"),
    )
    assert text_changes("VANE^A", "PSEUDO") == ()


def bomb(side: int) -> bytes:
    """A PNG of side x side pixels in a few kilobytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((side // 8 + 1) * 64)) if side > 20_000 else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_bombs_have_no_picture(base: Path) -> None:
    (base / "export" / "bomb.png").write_bytes(bomb(60_000))
    large = write_ct(base / "export" / "large", 1, Rows=65_000, Columns=65_000)
    preview = Previewer(base / "policy.yaml")
    for file in (base / "export" / "bomb.png", large):
        shown = preview(file)
        assert (shown.before, shown.after) == (b"", b"")


@pytest.mark.desk
def test_a_worker_that_dies_ends_neither_the_desk_nor_the_next_preview(base: Path) -> None:
    previews = Previews()
    try:
        with pytest.raises(UsageError, match="crashed"):
            previews._call(os._exit, 3)
        assert previews.of(base / "policy.yaml", base / "export" / "i0").outcome == "released"
        assert previews.header(base / "export" / "i0") == ()
    finally:
        previews.close()


def test_an_export_of_many_makers_and_values_is_counted_in_bounded_space(base: Path) -> None:
    for number in range(80):
        write_ct(base / "export" / f"m{number}", number + 10, Manufacturer=f"<b>{number}" + "A" * 5000)
    counts = inventory(base / "policy.yaml", workers=1)
    assert len(counts.makers) == 51
    assert counts.makers["others"] == 31
    assert max(map(len, counts.makers)) <= 140
    assert counts.files == 81


def test_an_attribute_in_no_table_is_found_by_its_keyword() -> None:
    (found,) = [one for one in attribute_rules("ps3.15-basic", "KVP") if one.keyword == "KVP"]
    assert (found.tag, found.action, found.source) == ("(0018,0060)", "G", "unlisted")
    assert not [one for one in attribute_rules("ps3.15-basic") if one.source == "unlisted"]
    assert {one.source for one in attribute_rules("research")} == {"E.1-1", "option", "policy"}


def test_an_encapsulated_document_has_a_header_and_no_picture(base: Path) -> None:
    shown = Previewer(base / "policy.yaml")(real_file("waveform_ecg.dcm"))
    assert (shown.before, bool(shown.header)) == (b"", True)
