"""Slides of every vendor: no identifier remains, and a viewer shows the same tissue."""

from __future__ import annotations

import base64
import codecs
import struct
import time
from pathlib import Path

import numpy as np
import openslide
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import read_pyramid
from medsanitize.sanitize.formats.tiff.writer import ascii_value, integer_values
from medsanitize.sanitize.formats.xml import child_text, parse_xml
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.registry import plan_edits, vendor_of
from medsanitize.sanitize.wsi.source import SlideName, SlideView, SourceFile
from medsanitize.sanitize.wsi.tiff_pages import copy_page
from medsanitize.sanitize.wsi.tiles import TileCleaner
from medsanitize.sanitize.wsi.vendors import aperio_afi

from tests.helpers import slides

pytestmark = pytest.mark.wsi

NAME = SlideName("2.25.4711", b"k" * 32)
RULES = WholeSlides()
# OpenSlide does not support QPTIFF and AFI, and of CZI only whole-slide images.
OPENABLE = [name for name in slides.MAKERS if name not in ("akoya", "zeiss", "afi")]


def released(source: SlideView, rules: WholeSlides = RULES) -> dict[str, bytes]:
    return slides.written(source, plan_edits(source, rules, NAME))


def spellings(text: str) -> list[bytes]:
    return [text.encode(), text.encode("utf-16-le"), base64.b64encode(text.encode()).rstrip(b"=")[:-1]]


def saved(source: SlideView, folder: Path) -> Path:
    for file in source.files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(file.data))
    return folder / source.files[0].name


def saved_release(files: dict[str, bytes], folder: Path) -> Path:
    folder.mkdir()
    for name, data in files.items():
        path = folder / f"{NAME.instance}{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / f"{NAME.instance}{next(iter(files))}"


def seen(path: Path) -> tuple[object, ...]:
    """Output of OpenSlide: vendor, levels, resolution, magnification, and the pixels of every level."""
    with openslide.OpenSlide(path) as slide:
        pixels = [
            np.asarray(slide.read_region((0, 0), level, size)).tobytes()
            for level, size in enumerate(slide.level_dimensions)
        ]
        said = slide.properties
        keys = ("openslide.vendor", "openslide.mpp-x", "openslide.objective-power")
        return (*(said.get(key) for key in keys), slide.level_dimensions, pixels)


@pytest.mark.parametrize("vendor", slides.MAKERS)
def test_no_marker_remains_in_any_byte(vendor: str) -> None:
    files = released(slides.MAKERS[vendor]())

    everything = b"".join(files.values())
    assert not any(spelling in everything for spelling in spellings(slides.MARKER))


@pytest.mark.parametrize("vendor", slides.MAKERS)
def test_no_date_remains(vendor: str) -> None:
    everything = b"".join(released(slides.MAKERS[vendor]()).values())

    assert b"2026" not in everything


@pytest.mark.parametrize("vendor", OPENABLE)
def test_a_viewer_shows_the_same_tissue(vendor: str, tmp_path: Path) -> None:
    source = slides.MAKERS[vendor]()

    assert seen(saved_release(released(source), tmp_path / "out")) == seen(saved(source, tmp_path / "in"))


@pytest.mark.parametrize("vendor", OPENABLE)
def test_label_and_macro_are_removed(vendor: str, tmp_path: Path) -> None:
    path = saved_release(released(slides.MAKERS[vendor]()), tmp_path / "out")

    with openslide.OpenSlide(path) as slide:
        assert set(slide.associated_images) <= {"thumbnail"}


@pytest.mark.parametrize("vendor", slides.MAKERS)
def test_a_released_slide_is_released_unchanged(vendor: str) -> None:
    once = released(slides.MAKERS[vendor]())
    names = [f"{NAME.instance}{name}" for name in once]

    again = slides.view(*zip(names, once.values(), strict=True))

    assert released(again) == once


def test_the_thumbnail_is_removed_on_request(tmp_path: Path) -> None:
    files = released(slides.aperio(), WholeSlides(thumbnail="drop"))

    with openslide.OpenSlide(saved_release(files, tmp_path / "out")) as slide:
        assert not slide.associated_images


def test_tiles_are_copied_and_never_reencoded() -> None:
    source = slides.aperio()
    first = slides.tiles(slides.levels()[0])[0]
    comment = first[2 : first.index(b"\xff\xdb")]

    (data,) = released(source).values()

    assert first.replace(comment, b"") in data


@pytest.mark.parametrize("vendor", slides.MAKERS)
def test_every_format_is_recognized(vendor: str) -> None:
    assert vendor_of(slides.MAKERS[vendor]())


def test_a_file_that_is_no_slide_is_not_recognized() -> None:
    assert not vendor_of(slides.view(("x", b"no slide at all, just some text")))


def test_the_vendor_library_reads_the_same_pixels_of_a_czi(tmp_path: Path) -> None:
    source = slides.zeiss()
    paths = saved(source, tmp_path / "in"), saved_release(released(source), tmp_path / "out")

    before, after = (czi_pixels(path) for path in paths)

    assert before[0] == after[0]
    assert np.array_equal(before[1], after[1])


def czi_pixels(path: Path) -> tuple[object, np.ndarray]:
    from pylibCZIrw import czi

    with czi.open_czi(str(path)) as document:
        return document.total_bounding_box, document.read(plane={"C": 0})


def test_tifffile_reads_the_same_pixels_of_a_qptiff(tmp_path: Path) -> None:
    source = slides.akoya()
    paths = saved(source, tmp_path / "in"), saved_release(released(source), tmp_path / "out")

    before, after = (tifffile.imread(path) for path in paths)

    assert np.array_equal(before, after)


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [("utf-16-le", codecs.BOM_UTF16_LE), ("utf-16-be", codecs.BOM_UTF16_BE), ("utf-16-le", b"")],
)
def test_a_qptiff_described_in_utf16_is_released_like_one_in_ascii(encoding: str, mark: bytes) -> None:
    wide = slides.akoya(encoding, mark)

    assert vendor_of(wide) == vendor_of(slides.akoya())
    assert released(wide) == released(slides.akoya())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
@given(words=st.text(st.characters(codec="utf-8", exclude_characters="<>&\r\n", exclude_categories=["C"])))
def test_xml_is_read_in_each_encoding(encoding: str, words: str) -> None:
    document = f"<a><b>{words}</b></a>".encode(encoding)

    assert child_text(parse_xml(document + b"\0\0"), "b") == words.strip()


# -- files that lie -----------------------------------------------------------------------


def refused(data: bytes) -> str:
    with pytest.raises(Quarantined) as caught:
        plan_edits(slides.view(("x", data)), RULES, NAME)
    return caught.value.rule


def patched(data: bytes, tag: int, value: int, *, field: int = 8) -> bytes:
    """The first entry of a tag in a classic TIFF's first directory, with another count or value."""
    at = struct.unpack_from("<I", data, 4)[0]
    count = struct.unpack_from("<H", data, at)[0]
    for number in range(count):
        place = at + 2 + 12 * number
        if struct.unpack_from("<H", data, place)[0] == tag:
            return data[: place + field] + struct.pack("<I", value) + data[place + field + 4 :]
    raise AssertionError("no such tag")


def generic_bytes() -> bytes:
    return bytes(slides.generic().data)


def test_a_slide_whose_writer_repeats_the_description_is_released_without_it(tmp_path: Path) -> None:
    path = tmp_path / "slide.tif"
    tissue = np.random.default_rng(5).integers(120, 240, (512, 512, 3), np.uint8)
    # The writer adds the shape of the page in a second ImageDescription.
    with tifffile.TiffWriter(path) as writer:
        for step in (1, 2):
            page = tissue[::step, ::step]
            writer.write(page, tile=(128, 128), photometric="rgb", description="Oda Vestergren")
    made = b"".join(released(slides.view((path.name, path.read_bytes()))).values())

    assert not any(word in made for word in (b"Vestergren", b"Oda", b"shape"))


def test_offsets_beyond_the_end_are_quarantined() -> None:
    assert refused(patched(generic_bytes(), 324, 0x7FFFFFF0)) == "tiff-structure"


def test_a_billion_tiles_are_rejected_immediately() -> None:
    start = time.process_time()

    assert refused(patched(generic_bytes(), 324, 1_000_000_000, field=4)) == "tiff-structure"
    assert time.process_time() - start < 2


def test_a_loop_of_directories_is_quarantined() -> None:
    data = generic_bytes()
    at = struct.unpack_from("<I", data, 4)[0]
    link = at + 2 + 12 * struct.unpack_from("<H", data, at)[0]

    assert refused(data[:link] + struct.pack("<I", at) + data[link + 4 :]) == "tiff-directory-loop"


def test_a_tile_shared_by_several_positions_is_counted_once() -> None:
    two = np.tile(slides.tissue(2 * slides.TILE)[: slides.TILE], (2, 2, 1))
    data = slides.tiff(slides.CLASSIC, [slides.page(slides.CLASSIC, two, {})])
    tiff, cleaner = read_pyramid(data), TileCleaner(data)
    page = copy_page(tiff, tiff.directories[0], cleaner)
    assert (len(page.segments), cleaner.rules) == (8, {"C:tile-metadata": 2})


def test_tiles_are_read_in_file_order(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    plain = TileCleaner.clean

    def clean(cleaner: TileCleaner, offset: int, *more: int) -> object:
        looked_at.append(offset)
        return plain(cleaner, offset, *more)

    monkeypatch.setattr(TileCleaner, "clean", clean)
    tiff = read_pyramid(generic_bytes())
    copy_page(tiff, tiff.directories[0], TileCleaner(tiff.data))
    assert len(looked_at) > 1
    assert looked_at == sorted(looked_at)


def test_a_picture_larger_than_its_tiles_is_quarantined() -> None:
    assert refused(patched(generic_bytes(), 256, 1 << 30)) == "tiff-structure"


def test_overlapping_tiles_are_quarantined() -> None:
    source = slides.generic()
    tiff = read_pyramid(source.data)
    field = tiff.directories[0].fields[324]
    offsets = tiff.numbers(tiff.directories[0], 324).tolist()
    offsets[1] = offsets[0] + 2
    lied = integer_values(tiff.dialect, 4, offsets).data
    data = bytes(source.data)

    rule = refused(data[: field.start] + lied + data[field.start + len(lied) :])

    assert rule in ("tiff-overlapping-data", "slide-tile-structure")


@pytest.mark.parametrize("untouched", [False, True], ids=["released", "wiped"])
def test_a_tag_overlapping_a_tile_is_quarantined(untouched: bool) -> None:
    facts = {256: 16, 257: 16, 258: 8, 259: 1, 262: 1, 277: 1, 322: 16, 323: 16}
    values = {tag: integer_values(slides.CLASSIC, 4, [fact]) for tag, fact in facts.items()}
    plain = OutputPage(values | {270: ascii_value(slides.MARKER * 20)}, [(bytes(range(256)),)], True)
    data = slides.tiff(slides.CLASSIC, [plain])
    fields = read_pyramid(data).directories[0].fields
    place = fields[324].start
    lied = data[:place] + struct.pack("<I", fields[270].start) + data[place + 4 :]

    def keep(source: bytes) -> OutputPage:
        found = read_pyramid(source)
        return copy_page(found, found.directories[0], TileCleaner(source, untouched=untouched))

    assert keep(data).tiled
    with pytest.raises(Quarantined, match="tiff-overlapping-data"):
        keep(lied)


def test_a_jpeg_declared_uncompressed_by_a_page_is_quarantined() -> None:
    tile = slides.jpeg(slides.tissue(64))

    with pytest.raises(Quarantined):
        TileCleaner(tile).clean(0, len(tile), 1, 64)


def test_bytes_after_the_end_of_a_tile_are_removed() -> None:
    tile = slides.jpeg(slides.tissue(64), comment=False)

    pieces = TileCleaner(tile + b"hidden").clean(0, len(tile) + 6, 7)

    assert sum(piece.length for piece in pieces if not isinstance(piece, bytes)) < len(tile) + 6


def test_a_second_picture_inside_a_tile_is_removed() -> None:
    tile = slides.jpeg(slides.tissue(64), comment=False)
    cleaner = TileCleaner(tile + tile)

    cleaner.clean(0, 2 * len(tile), 7)

    assert cleaner.rules["C:tile-slack"] == 1


@pytest.mark.parametrize(
    "bomb",
    [
        b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>',
        b"<x>" * 100,
        b"\xff\xfe<\x00",
    ],
)
def test_xml_bombs_and_malformed_xml_are_quarantined(bomb: bytes) -> None:
    with pytest.raises(Quarantined, match="slide-xml"):
        parse_xml(bomb)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(slides.MAKERS)), st.data())
def test_a_damaged_slide_is_quarantined_or_clean(vendor: str, data: st.DataObject) -> None:
    source = slides.MAKERS[vendor]()
    number = data.draw(st.integers(0, len(source.files) - 1))
    raw = bytearray(bytes(source.files[number].data))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(raw))))
    files = [(file.name, bytes(file.data)) for file in source.files]
    files[number] = (files[number][0], bytes(raw[:cut]))

    try:
        left = b"".join(released(slides.view(*files)).values())
    except Quarantined:
        return

    assert slides.MARKER.encode() not in left


def test_an_oversized_text_is_rejected_before_it_is_copied() -> None:
    data = bytearray(patched(generic_bytes(), 270, 100 << 20, field=4))
    data += bytes(110 << 20)

    assert refused(bytes(data)) in ("tiff-too-many-values", "tiff-structure")


@pytest.mark.parametrize(
    ("across", "side", "rule"), [(40, 8, "tiff-structure"), (1025, 16, "tiff-too-many-values")]
)
def test_too_small_or_too_many_tiles_are_quarantined(across: int, side: int, rule: str) -> None:
    picture = slides.tissue(64)
    page = slides.page(slides.BIG, picture, {270: "Aperio Image Library v1|AppMag = 40"})
    longs = {256: across * side, 257: across * side, 322: side, 323: side}
    page.values.update({tag: integer_values(slides.BIG, 4, [value]) for tag, value in longs.items()})
    whole = OutputPage(page.values, [page.segments[0]] * across * across, True)
    source = SlideView((SourceFile("slide.svs", slides.tiff(slides.BIG, [whole])),))

    started = time.process_time()
    with pytest.raises(Quarantined) as refused:
        plan_edits(source, RULES, NAME)

    assert (refused.value.rule, time.process_time() - started < 2) == (rule, True)


# -- lists of channels --------------------------------------------------------------------


def listing(*paths: str) -> SlideView:
    """The list of two channels, with other names in it."""
    source = slides.afi()
    images = "".join(f"<Image><Path>{path}</Path></Image>" for path in paths)
    xml = f"<ImageList>{images}</ImageList>".encode()
    return SlideView((SourceFile("x.afi", xml), *source.files[1:]))


def channel_names() -> list[str]:
    return [file.name for file in slides.afi().files[1:]]


def test_a_channel_list_contains_only_released_channel_names() -> None:
    files = released(slides.afi())

    assert list(files) == [".afi", "_1_DAPI.svs", "_2.svs"]
    assert files[".afi"].split() == [
        b"<?xml",
        b'version="1.0"?>',
        b"<ImageList><Image><Path>2.25.4711_1_DAPI.svs</Path></Image>"
        b"<Image><Path>2.25.4711_2.svs</Path></Image></ImageList>",
    ]


def test_a_viewer_shows_each_channel_as_before(tmp_path: Path) -> None:
    source = slides.afi()
    saved(source, tmp_path)
    main = saved_release(released(source), tmp_path / "out")

    for before, after in zip(channel_names(), ("_1_DAPI.svs", "_2.svs"), strict=True):
        assert seen(tmp_path / before) == seen(main.parent / f"{NAME.instance}{after}")


def test_the_label_of_a_channel_shows_its_name(tmp_path: Path) -> None:
    main = saved_release(released(slides.afi(), WholeSlides(label="replace")), tmp_path / "out")

    with openslide.OpenSlide(main.parent / f"{NAME.instance}_2.svs") as slide:
        assert set(slide.associated_images) == {"label", "thumbnail"}


@pytest.mark.parametrize(
    "path", ["../x.svs", "/etc/x.svs", "sub/x.svs", "..\\x.svs", "C:\\scans\\x.svs", "C:x.svs", ".."]
)
def test_a_channel_list_with_files_elsewhere_is_quarantined(path: str) -> None:
    with pytest.raises(Quarantined, match="slide-file-elsewhere"):
        plan_edits(listing(*channel_names(), path), RULES, NAME)


def test_a_channel_list_with_a_missing_channel_is_quarantined() -> None:
    with pytest.raises(Quarantined, match="slide-file-missing"):
        plan_edits(listing(*channel_names(), "third.svs"), RULES, NAME)


def test_a_channel_list_of_other_pictures_is_quarantined() -> None:
    other = SourceFile("a.svs", slides.generic().data)
    view = SlideView((SourceFile("x.afi", b"<ImageList><Path>a.svs</Path></ImageList>"), other))

    with pytest.raises(Quarantined, match="slide-not-supported"):
        plan_edits(view, RULES, NAME)


@pytest.mark.parametrize(
    "listed",
    [b"<ImageList>.svs", b"<!DOCTYPE x><ImageList><Path>a.svs</Path></ImageList>", b"<ImageList/>"],
)
def test_a_malformed_or_empty_channel_list_is_quarantined(listed: bytes) -> None:
    with pytest.raises(Quarantined, match=r"slide-xml|slide-description"):
        plan_edits(SlideView((SourceFile("x.afi", listed),)), RULES, NAME)


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        (b"<Path>a.svs</Path><Path>\r\n b.SVS </Path>", {"a.svs", "b.SVS"}),
        (b"<Path><![CDATA[a & b.svs]]></Path><Path>c&amp;d.svs</Path>", {"a & b.svs", "c&d.svs"}),
        ("\ufeff<Path>ä.svs</Path>".encode("utf-16-le"), {"ä.svs"}),
        (b"<Path>../a.svs</Path><Path>ct.dcm</Path><Path>a\\b.svs</Path><Path></Path>", set()),
    ],
)
def test_channels_are_slides_in_the_same_folder(listed: bytes, names: set[str]) -> None:
    assert aperio_afi.companions(listed) == names
