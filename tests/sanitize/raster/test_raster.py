"""PNG, JPEG and TIFF files: metadata removed everywhere, pixels unchanged."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context, KnownValue
from medsanitize.sanitize.formats.ground import mask_of
from medsanitize.sanitize.formats.png.png_file import read_png
from medsanitize.sanitize.formats.png.png_samples import blank_png, png_colors
from medsanitize.sanitize.formats.tiff.tiff_file import read_tiff_image
from medsanitize.sanitize.formats.tiff.tiff_samples import blank_pages, page_colors
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.sanitize.raster.clean_picture_text import page_views
from medsanitize.sanitize.raster.raster_sanitizer import RasterSanitizer, inspect_raster, is_raster
from medsanitize.sanitize.result import CheckResult, Outcome, Sanitized
from medsanitize.verifiers.leaks.identifier_search import build_identifier_search
from medsanitize.verifiers.leaks.raster_files import audit_raster, raster_digest
from PIL import Image, ImageDraw, ImageFont

from tests.helpers.raster_files import (
    MARKER,
    RAW,
    ascii_entry,
    encoded,
    exif_block,
    jpeg_with,
    number,
    pixels_of,
    planted_jpegs,
    planted_pngs,
    planted_tiffs,
    png_of,
    png_parts,
    png_with,
    scene,
    segment,
    tiff_with,
)

# No structure refers to the marker there: a strip moved over it turns it into pixels.
UNREFERENCED = {"TIFF between", "TIFF behind the end", "TIFF long strip", "TIFF deflate", "TIFF packed"}
KEYS = derive_sub_keys(bytes(range(64)), scope="project")
CONTEXT = Context("object:aa", "aa")
PLANTED = {
    f"{form} {name}": data
    for form, planted in (("PNG", planted_pngs()), ("JPEG", planted_jpegs()), ("TIFF", planted_tiffs()))
    for name, data in planted.items()
}
NOTHING_KNOWN = build_identifier_search(())


def policy(extra: str = "") -> Policy:
    return loads(
        "version: 1\npreset: ps3.15-basic\nrelease: {name: x, version: '1', mode: pseudonymous}\n"
        f"inputs: [in]\noutput: out\nstate: state\nkeys: {{env: X}}\nraster: {{action: clean}}\n{extra}",
        base=Path("/"),
    )


POLICY = policy()


def sanitized(data: bytes, chosen: Policy = POLICY, context: Context = CONTEXT) -> Sanitized:
    return RasterSanitizer(chosen, KEYS)(data, context)


def released(data: bytes) -> bytes:
    result = sanitized(data)
    assert result.record.outcome is Outcome.RELEASED, result.record.findings
    return b"".join(piece for piece in result.files[0].pieces if isinstance(piece, bytes))


def rule_of(data: bytes, chosen: Policy = POLICY) -> str:
    record = sanitized(data, chosen).record
    return record.findings[0].rule if record.outcome is Outcome.QUARANTINED else "released"


def samples_of(data: bytes) -> bytes:
    with Image.open(BytesIO(data)) as image:
        return image.tobytes()


def audited(data: bytes, folder: Path) -> list[str]:
    suffix = {b"\x89PN": "png", b"\xff\xd8\xff": "jpg"}.get(data[:3], "tif")
    path = folder / f"picture.{suffix}"
    path.write_bytes(data)
    return [finding.rule for finding in audit_raster(path, search=NOTHING_KNOWN)]


@pytest.mark.parametrize("name", PLANTED)
def test_no_planted_text_survives(name: str, tmp_path: Path) -> None:
    data = PLANTED[name]
    assert RAW[:4] in data, "the marker is not where the test means to put it"
    out = released(data)
    assert all(RAW[at : at + 4] not in out for at in range(len(RAW) - 3))
    assert audited(out, tmp_path) == []


@pytest.mark.filterwarnings("ignore:Image appears to be a malformed MPO")
@pytest.mark.parametrize("name", PLANTED)
def test_no_pixel_changes(name: str) -> None:
    assert np.array_equal(pixels_of(released(PLANTED[name])), pixels_of(PLANTED[name]))


# Inside of decoder input: only a reader that decodes notices the excess.
HIDDEN_FROM_AUDIT = frozenset(
    [
        *("PNG cHRM", "PNG gAMA", "PNG pHYs", "PNG sBIT", "PNG suggested palette", "PNG unused colors"),
        *("JPEG unused table", "JPEG behind the last block", "JPEG behind a progressive scan"),
        *("TIFF resolution", "TIFF packed"),
    ]
)


@pytest.mark.parametrize("name", sorted(PLANTED.keys() - HIDDEN_FROM_AUDIT))
def test_the_audit_finds_planted_text_in_the_source(name: str, tmp_path: Path) -> None:
    assert "audit:structure" in audited(PLANTED[name], tmp_path)


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "I;16"])
def test_every_kind_of_png_keeps_its_pixels_and_stream(mode: str) -> None:
    image = Image.fromarray(np.arange(2400, dtype=np.uint16).reshape(40, 60) * 17)
    data = encoded(image if mode == "I;16" else scene().convert(mode), "PNG")
    out = released(data)
    with Image.open(BytesIO(data)) as before, Image.open(BytesIO(out)) as after:
        assert before.mode == after.mode
        assert np.array_equal(np.asarray(before), np.asarray(after))
    if mode in ("L", "RGB", "RGBA"):
        assert b"".join(body for name, body in png_parts(data) if name == b"IDAT") in out


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"restart_marker_blocks": 3}, {"optimize": True, "subsampling": 0}]
)
def test_a_jpeg_without_metadata_is_unchanged(mode: str, options: dict[str, object]) -> None:
    data = encoded(scene().convert(mode), "JPEG", **options)
    assert released(data) == data


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"])
@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "I;16", "F"])
def test_every_kind_of_tiff_keeps_its_pixels(mode: str, compression: str | None, tmp_path: Path) -> None:
    if compression == "jpeg" and mode in ("1", "P", "I;16", "F"):
        compression = "tiff_lzw"
    wide = {"I;16": np.uint16, "F": np.float32}
    ramp = np.arange(2400).reshape(40, 60) * 17
    image = Image.fromarray(ramp.astype(wide[mode])) if mode in wide else scene().convert(mode)
    data = encoded(image, "TIFF", compression=compression, description=MARKER)
    out = released(data)
    with Image.open(BytesIO(data)) as before, Image.open(BytesIO(out)) as after:
        assert np.array_equal(np.asarray(before), np.asarray(after))
    assert RAW not in out
    assert audited(out, tmp_path) == []


def test_predicted_strips_and_multiple_pages_are_preserved() -> None:
    data = encoded(
        scene(), "TIFF", compression="tiff_lzw", tiffinfo={317: 2}, save_all=True, append_images=[scene(9, 9)]
    )
    result = sanitized(data)
    assert (result.record.frames, result.record.rows, result.record.columns) == (2, 48, 70)
    assert np.array_equal(pixels_of(released(data)), pixels_of(data))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF"])
def test_of_the_metadata_only_the_orientation_is_kept(form: str, tmp_path: Path) -> None:
    data = {
        "PNG": png_with(b"eXIf", exif_block(6)),
        "JPEG": jpeg_with(segment(0xE1, b"Exif\0\0" + exif_block(6))),
        "TIFF": tiff_with((274, 3, 1, b"\6\0"), ascii_entry(315)),
    }[form]
    out = released(data)
    with Image.open(BytesIO(out)) as image:
        assert dict(image.getexif()).get(274) == 6 or (form == "TIFF" and image.tag_v2.get(274, 6) == 6)
    assert (RAW not in out, audited(out, tmp_path)) == (True, [])


@pytest.mark.parametrize(
    ("rule", "data"),
    [
        ("animated-png", png_with(b"acTL", bytes(8))),
        ("png-structure", png_with(b"QUIX", b"")),
        ("png-structure", encoded(scene(), "PNG").replace(b"IDAT", b"IDAR")),
        ("png-truncated", encoded(scene(), "PNG")[:-20]),
        ("jpeg-truncated", jpeg_with()[:-300]),
        ("jpeg-unsupported", jpeg_with().replace(b"\xff\xc0", b"\xff\xc9")),
        ("tiff-structure", b"II*\0" + bytes(40)),
        ("tiff-truncated", tiff_with(number(273, 100_000))),
        ("tiff-unsupported", tiff_with(compression=4)),
        ("tiff-unsupported", tiff_with((50706, 1, 4, b"\1\4\0\0"))),
        ("big-tiff", encoded(scene(), "TIFF", big_tiff=True)),
        ("unreadable", b"GIF89a" + bytes(50)),
    ],
)
def test_unsupported_content_is_quarantined_with_a_rule(rule: str, data: bytes) -> None:
    assert rule_of(data) == rule


@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF"])
def test_an_image_bomb_is_rejected_by_its_declared_size(form: str) -> None:
    parts = png_parts(encoded(scene(), "PNG"))
    huge = struct.pack(">II", 2**30, 2**30) + parts[0][1][8:]
    jpeg = bytearray(jpeg_with())
    place = jpeg.index(b"\xff\xc0") + 5
    jpeg[place : place + 4] = b"\xff\xf0\xff\xf0"
    data = {
        "PNG": png_of([(b"IHDR", huge), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]),
        "JPEG": bytes(jpeg),
        "TIFF": tiff_with(number(256, 2**30), number(257, 2**30), number(278, 2**30)),
    }[form]
    assert rule_of(data) == "image-too-large"


def test_deflated_zeros_are_not_inflated_beyond_the_declared_size() -> None:
    parts = png_parts(encoded(scene(), "PNG"))
    bomb = png_of([parts[0], (b"IDAT", zlib.compress(bytes(50_000_000))), (b"IEND", b"")])
    assert len(released(bomb)) < 20_000


@pytest.mark.parametrize(
    "data",
    [
        tiff_with(number(322, 256), number(323, 256)),
        tiff_with(ascii_entry(270, b"Aperio Image Library v12")),
        tiff_with(ascii_entry(270, b"<OME xmlns='x'>")),
        tiff_with((700, 1, 20, b"<iScan UnitNumber='1")),
        tiff_with(number(65420, 1)),
        encoded(scene(1200, 1400), "TIFF", save_all=True, append_images=[scene(600, 700), scene(300, 350)]),
        encoded(scene(4200, 16), "TIFF", save_all=True, append_images=[scene(9, 9)]),
    ],
    ids=["tiles", "Aperio", "OME", "Ventana", "Hamamatsu", "layers", "large pages"],
)
def test_a_slide_is_not_read_as_a_picture(data: bytes) -> None:
    seen = inspect_raster(data)
    assert (rule_of(data), seen and (seen.kind, seen.rule)) == (
        "slide-not-supported",
        ("unreadable", "slide-not-supported"),
    )


def test_formats_are_detected_by_content_and_dicom_first() -> None:
    dual = tiff_with()[:128].ljust(128, b"\0") + b"DICM"
    assert [is_raster(data) for data in (jpeg_with(), tiff_with(), dual, b"\x89PNG", b"")] == [
        *(True, True, False, False, False)
    ]


def test_names_in_metadata_are_collected() -> None:
    iptc = b"\x1c\x02\x50\0\x09Roe^Janet" + b"\x1c\x02\x78\0\x12Patient: Ann Other"
    photoshop = segment(0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x20" + iptc)
    comment = segment(0xFE, b"MRN: A-4471 taken 2021-03-04")
    seen = [
        inspect_raster(jpeg_with(photoshop, comment)),
        inspect_raster(png_with(b"tEXt", b"Author\0Ada Quill")),
        inspect_raster(tiff_with(ascii_entry(315, b"Bo Reed"), ascii_entry(306, b"2020:05:06 01:02:03"))),
    ]
    known = frozenset().union(*(one.known for one in seen if one))
    assert {
        KnownValue("name", "Roe^Janet"),
        KnownValue("name", "Ann Other"),
        KnownValue("id", "A-4471"),
        KnownValue("date", "20210304"),
        KnownValue("name", "Ada Quill"),
        KnownValue("name", "Bo Reed"),
        KnownValue("date", "20200506"),
    } <= known


def test_each_picture_is_its_own_patient() -> None:
    one, again = sanitized(jpeg_with()).record, sanitized(jpeg_with()).record
    other = sanitized(jpeg_with(), context=Context("object:bb", "bb")).record
    assert (one, one.study, one.series, one.modality) == (again, "", "", "")
    assert one.instance.startswith("2.25.")
    assert not {one.patient, one.instance} & {other.patient, other.instance}


def test_unread_text_in_pixels_is_stated_or_quarantined() -> None:
    quarantine = policy("pixels: {at_risk: quarantine}\n")
    assert sanitized(jpeg_with()).record.pixels is CheckResult.NOT_RUN
    assert rule_of(jpeg_with(), quarantine) == "burned-in-text-risk"


def test_a_set_decision_can_exclude_a_picture() -> None:
    result = sanitized(jpeg_with(), context=replace(CONTEXT, refuse="some-rule"))
    assert result.record.findings[0].rule == "some-rule"


def test_equal_pixels_have_one_digest_in_every_format(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(scene(), "PNG"))
    (tmp_path / "b.tif").write_bytes(encoded(scene(), "TIFF", compression="tiff_lzw"))
    (tmp_path / "c.tif").write_bytes(encoded(scene(49), "TIFF"))
    digests = [raster_digest(path) for path in sorted(tmp_path.iterdir())]
    assert digests[0] is not None
    assert (digests[0] == digests[1], digests[1] == digests[2]) == (True, False)


def test_the_audit_finds_a_known_name_and_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png_with(b"tEXt", b"Author\0" + RAW))
    found = audit_raster(path, search=build_identifier_search([KnownValue("name", MARKER)]), digest="0" * 64)
    assert {finding.rule for finding in found} == {"audit:name", "audit:digest", "audit:structure"}


BLANKED = (5, 10, 33, 20)


def masked(rows: int, columns: int) -> np.ndarray:
    return mask_of([BLANKED], (rows, columns))


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "I;16"])
def test_blanking_a_png_changes_nothing_else(mode: str) -> None:
    wide = Image.fromarray(np.arange(48 * 70, dtype=np.uint16).reshape(48, 70) * 17 + 9)
    png = read_png(encoded(wide if mode == "I;16" else scene().convert(mode), "PNG"), 10**6)
    mask = masked(48, 70)
    made = read_png(blank_png(png, [BLANKED]).write(), 10**6)
    assert np.array_equal(png_colors(made)[~mask], png_colors(png)[~mask])
    assert len(np.unique(png_colors(made)[mask], axis=0)) == 1
    assert made.header == replace(png.header, interlaced=False)


def test_a_jpeg_declared_uncompressed_by_a_tiff_is_quarantined() -> None:
    stream = encoded(Image.new("L", (8, 8)), "JPEG")
    data = tiff_with(strip=stream[:2] + segment(0xFE, RAW) + stream[2:], compression=1)
    assert rule_of(data) == "tiff-structure"


def test_a_repeated_tag_that_is_no_text_is_quarantined() -> None:
    twice = number(278, 8), number(278, 8)
    assert rule_of(tiff_with(*twice)) == "tiff-structure"


def test_a_repeated_text_overlapping_the_pixels_is_quarantined() -> None:
    data = tiff_with(ascii_entry(270, b"scene"), ascii_entry(270), strip=bytes(64))
    place = data.index(RAW)
    moved = data.replace(struct.pack("<HHII", 273, 4, 1, 8), struct.pack("<HHII", 273, 4, 1, place - 40))
    assert (rule_of(data + bytes(64)), rule_of(moved + bytes(64))) == ("released", "tiff-structure")


def test_a_tag_overlapping_the_pixels_is_quarantined() -> None:
    data = tiff_with((270, 2, len(RAW), RAW), strip=bytes(64))
    place = data.index(RAW)
    moved = data.replace(struct.pack("<HHII", 273, 4, 1, 8), struct.pack("<HHII", 273, 4, 1, place - 40))
    assert (rule_of(data + bytes(64)), rule_of(moved + bytes(64))) == ("released", "tiff-structure")


def test_an_exif_value_overlapping_the_pixels_is_quarantined() -> None:
    data = planted_tiffs()["EXIF"]
    moved = data.replace(struct.pack("<HHII", 273, 4, 1, 8), struct.pack("<HHII", 273, 4, 1, data.index(RAW)))
    assert (rule_of(data), rule_of(moved + bytes(64))) == ("released", "tiff-structure")


def test_a_strip_that_overlaps_a_tag_is_truncated() -> None:
    data = tiff_with((270, 2, len(RAW), RAW))
    longer = data.replace(struct.pack("<HHII", 279, 4, 1, 64), struct.pack("<HHII", 279, 4, 1, len(data) - 8))
    assert RAW not in released(longer)


@pytest.mark.parametrize(
    ("mode", "compression"),
    [("1", None), ("L", "packbits"), ("P", "tiff_lzw"), ("RGB", "tiff_lzw"), ("RGB", "jpeg"), ("CMYK", None)],
)
def test_blanking_a_tiff_changes_nothing_else(mode: str, compression: str | None) -> None:
    tiff = read_tiff_image(encoded(scene().convert(mode), "TIFF", compression=compression), 10**6)
    mask = masked(48, 70)
    made = read_tiff_image(blank_pages(tiff, {0: [BLANKED]}).write(), 10**6)
    before, after = page_colors(tiff, tiff.pages[0]), page_colors(made, made.pages[0])
    assert np.array_equal(after[~mask], before[~mask])
    assert len(np.unique(after[mask], axis=0)) == 1


@pytest.mark.parametrize("mode", ["L", "P", "LA", "RGB", "RGBA"])
def test_an_area_of_a_png_gets_the_ground_around_it(mode: str) -> None:
    page = Image.new("RGBA", (70, 48), (30, 60, 160, 200))
    page.paste((255, 255, 0, 255), (8, 13, 30, 17))
    png = read_png(encoded(page.convert(mode), "PNG"), 10**6)
    ground = png_colors(png)[0, 0]

    made = png_colors(read_png(blank_png(png, [BLANKED]).write(), 10**6))

    assert (made == ground).all()


def test_an_area_of_a_tiff_gets_the_ground_around_it() -> None:
    page = Image.new("RGB", (70, 48), (30, 60, 160))
    page.paste((255, 255, 0), (8, 13, 30, 17))
    tiff = read_tiff_image(encoded(page, "TIFF"), 10**6)

    made = read_tiff_image(blank_pages(tiff, {0: [BLANKED]}).write(), 10**6)

    assert (page_colors(made, made.pages[0]) == (30, 60, 160)).all()


def test_transparent_pixels_are_checked_too() -> None:
    samples = np.zeros((8, 8, 4), np.uint8)
    assert len(page_views(samples)) == 1
    samples[2, 2, 3] = 255
    assert [view.ndim for view in page_views(samples)] == [3, 2, 3]


def test_a_color_picture_is_treated_as_showing_a_person() -> None:
    strict = policy("pixels: {faces: quarantine}\n")
    assert rule_of(jpeg_with(), strict) == "photograph-of-person"
    assert rule_of(encoded(scene().convert("L").convert("RGB"), "PNG"), strict) == "released"


def test_burned_in_names_are_blanked_and_clinical_words_kept() -> None:
    image = Image.new("L", (420, 160), 20)
    for text, top in (("FAIRWEATHER IMOGEN", 12), ("CHEST PA", 120)):
        ImageDraw.Draw(image).text((10, top), text, font=ImageFont.load_default(24), fill=255)
    result = sanitized(encoded(image, "PNG"), policy("dicom: {options: {clean_pixel_data: true}}\n"))
    out = pixels_of(b"".join(piece for piece in result.files[0].pieces if isinstance(piece, bytes)))
    assert (result.record.pixels, result.record.pixel_regions_cleaned) == (CheckResult.PASSED, 1)
    assert (int(out[:60, :, 0].max()), int(out[110:, :, 0].max())) == (20, 255)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(PLANTED)),
    st.lists(st.tuples(st.integers(0, 2**32), st.binary(min_size=1, max_size=4)), max_size=3),
    st.integers(0, 2**32),
)
def test_a_damaged_file_is_released_clean_or_quarantined(
    tmp_path_factory: pytest.TempPathFactory, name: str, changes: list[tuple[int, bytes]], cut: int
) -> None:
    data = bytearray(PLANTED[name])
    for place, value in changes:
        at = place % len(data)
        data[at : at + len(value)] = value
    if cut % 4 == 0:
        del data[cut // 4 % len(data) :]
    result = sanitized(bytes(data))
    if result.record.outcome is Outcome.RELEASED:
        out = b"".join(piece for piece in result.files[0].pieces if isinstance(piece, bytes))
        assert RAW not in out or (name in UNREFERENCED and RAW in samples_of(out)), (
            "a strip may come to lie there"
        )
        assert audited(out, tmp_path_factory.mktemp("out")) == []
    else:
        assert result.files == ()
    inspect_raster(bytes(data))
