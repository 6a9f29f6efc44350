"""Blanking areas of real frames in every syntax: outside nothing changes, inside nothing remains."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pydicom
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.burned_in import clean, frame_search
from medsanitize.sanitize.burned_in.areas import areas_outside
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.context import Context, ReviewDecision
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.formats import jpeg2000
from medsanitize.sanitize.formats.dicom import decode, native
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.transfer_syntax import TRANSFER_SYNTAXES
from medsanitize.sanitize.formats.frame_header import FrameHeader
from medsanitize.sanitize.formats.jpeg import dct
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import CheckResult, Outcome, Sanitized
from numpy.typing import NDArray
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, generate_frames
from pydicom.pixels import get_decoder

from tests.helpers.released_bytes import released_bytes
from tests.helpers.text_maps import no_text

Real = Callable[[str], Dataset]
Load = Callable[..., bytes]
Run = Callable[..., tuple[Sanitized, bytes]]

EXPLICIT = "1.2.840.10008.1.2.1"
JPEG_BASELINE = "1.2.840.10008.1.2.4.50"
AREA = (2, 3, 22, 12)
LEFT, TOP, RIGHT, BOTTOM = AREA

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader finds nothing: only the areas of the policy are blanked."""
    for name in ("read", "read_changes"):
        monkeypatch.setattr(TextReader, name, lambda self, *_: ())  # noqa: ARG005
    # Without a reader, real text would be blanked as unread.
    monkeypatch.setattr(clean, "text_chances", no_text)
    for module in (clean, frame_search):
        monkeypatch.setattr(module, "find_codes", lambda _, **__: ())


@pytest.fixture
def blank(make_policy: Callable[..., Policy], subkeys: SubKeys, load_bytes: Load) -> Run:
    """Sanitize an object whose frames are blanked in ``AREA``."""

    def run(
        source: Any, decisions: tuple[ReviewDecision, ...] = (), fixed: bool = True, **rules: Any
    ) -> tuple[Sanitized, bytes]:
        boxes = [[LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP]]
        # Some of the test files are of devices in the table.
        rules = {
            "search": "every-image",
            "known_devices": False,
            **({"regions": [{"boxes": boxes}]} if fixed else {}),
            **rules,
        }
        dicom = rules.pop("dicom", {})
        policy = make_policy("research", pixels={"faces": "ignore", **rules}, dicom=dicom)
        data = load_bytes(source)
        done = DicomSanitizer(policy, subkeys)(data, Context("id:a", "key", decisions=decisions))
        return done, released_bytes(done, data)

    return run


def samples(data_set: Dataset) -> NDArray[Any]:
    """Decoded frames, (frames, rows, columns, samples), without color space conversion."""
    syntax = data_set.file_meta.TransferSyntaxUID
    found = (
        get_decoder(syntax).as_array(data_set, raw=True)[0] if syntax.is_compressed else data_set.pixel_array
    )
    shape = (int(data_set.get("NumberOfFrames", 1) or 1), data_set.Rows, data_set.Columns, -1)
    return found.reshape(shape)


def inside_mask(shape: tuple[int, ...], area: tuple[int, int, int, int] = AREA) -> NDArray[np.bool_]:
    mask = np.zeros(shape[1:3], bool)
    mask[area[1] : area[3], area[0] : area[2]] = True
    return mask


def assert_blanked(before: NDArray[Any], after: NDArray[Any]) -> None:
    mask = inside_mask(before.shape)
    assert np.array_equal(before[:, ~mask], after[:, ~mask])
    for frame in after:
        inside = frame[TOP:BOTTOM, LEFT:RIGHT]
        # Where two grounds meet, rows or columns have the value of the one beside them.
        assert (inside == inside[:, :1]).all() or (inside == inside[:1]).all()


LOSSLESS = [
    "CT_small.dcm",
    "ExplVR_BigEnd.dcm",
    "MR_small_RLE.dcm",
    "MR_small_bigendian.dcm",
    "MR_small_implicit.dcm",
    "MR_small_jp2klossless.dcm",
    "MR_small_jpeg_ls_lossless.dcm",
    "J2K_pixelrep_mismatch.dcm",
    "SC_rgb_jpeg_gdcm.dcm",
    "SC_rgb_rle.dcm",
    "SC_rgb_rle_16bit_2frame.dcm",
    "SC_rgb_rle_32bit_2frame.dcm",
    "SC_ybr_full_422_uncompressed.dcm",
    "examples_overlay.dcm",
    "examples_palette.dcm",
    "examples_rgb_color.dcm",
    "image_dfl.dcm",
    "liver_1frame.dcm",
    "liver_expb_1frame.dcm",
    "rtdose_expb.dcm",
    "rtdose_rle.dcm",
]


@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_frames_change_only_inside_the_area_and_keep_their_syntax(
    name: str, real: Real, blank: Run
) -> None:
    source = real(name)

    done, out = blank(name)

    released = pydicom.dcmread(BytesIO(out))
    assert released.file_meta.TransferSyntaxUID == source.file_meta.TransferSyntaxUID
    assert done.record.pixel_regions_cleaned == 1
    assert_blanked(samples(source), samples(released))


def test_large_words_are_blanked_beside_the_area(real: Real, blank: Run) -> None:
    name = "GDCMJ2K_TextGBR.dcm"  # a picture of three words, 60 pixels high
    source = real(name)

    done, out = blank(name)

    released = pydicom.dcmread(BytesIO(out))
    assert released.file_meta.TransferSyntaxUID == source.file_meta.TransferSyntaxUID
    assert done.record.pixel_regions_cleaned == 3
    ground = samples(source)[0, -1, -1]
    assert (samples(released)[0, 20:] == ground).all(axis=2).mean() > 0.99


LOSSY = [
    "693_J2KI.dcm",
    "JPEG2000.dcm",
    "JPEGLSNearLossless_08.dcm",
    "JPEGLSNearLossless_16.dcm",
    "SC_rgb_gdcm_KY.dcm",
    "SC_rgb_jls_lossy_line.dcm",
    "SC_rgb_jls_lossy_sample.dcm",
]


@pytest.mark.parametrize("name", LOSSY)
def test_lossy_frames_that_cannot_be_edited_are_stored_decoded(name: str, real: Real, blank: Run) -> None:
    source = real(name)

    done, out = blank(name)

    released = pydicom.dcmread(BytesIO(out))
    assert done.record.transfer_syntax == released.file_meta.TransferSyntaxUID == EXPLICIT
    assert_blanked(samples(source), samples(released))


@pytest.mark.parametrize("name", ["693_J2KI.dcm", "JPGExtended.dcm", "JPEGLSNearLossless_08.dcm"])
def test_lossy_frames_that_cannot_be_edited_are_quarantined_if_configured(name: str, blank: Run) -> None:
    done, out = blank(name, lossy="quarantine")

    assert [finding.rule for finding in done.record.findings] == ["lossy-pixels"]
    assert out == b""


def test_a_12_bit_extended_jpeg_states_its_original_compression(blank: Run) -> None:
    _, out = blank("JPGExtended.dcm")

    released = pydicom.dcmread(BytesIO(out))
    assert released.LossyImageCompression == "01"
    assert released.pixel_array.max() > 255


BASELINE = [
    ("SC_jpeg_no_color_transform.dcm", 8, 8),
    ("SC_jpeg_no_color_transform_2.dcm", 8, 8),
    ("SC_rgb_dcmtk_+eb+cr.dcm", 8, 8),
    ("SC_rgb_dcmtk_+eb+cy+n1.dcm", 16, 16),
    ("SC_rgb_dcmtk_+eb+cy+n2.dcm", 16, 8),
    ("SC_rgb_dcmtk_+eb+cy+s4.dcm", 8, 8),
    ("SC_rgb_jpeg_lossy_gdcm.dcm", 16, 16),
    ("examples_ybr_color.dcm", 16, 8),
]


@pytest.mark.parametrize(("name", "width", "height"), BASELINE)
def test_baseline_jpeg_changes_only_in_whole_blocks(
    name: str, width: int, height: int, real: Real, blank: Run
) -> None:
    source = real(name)

    _, out = blank(name)

    released = pydicom.dcmread(BytesIO(out))
    before, after = samples(source), samples(released)
    # A decoder interpolates chroma across block borders: one pixel beyond may differ.
    reach = (0, 0, -(-RIGHT // width) * width + 1, -(-BOTTOM // height) * height + 1)
    assert released.file_meta.TransferSyntaxUID == JPEG_BASELINE
    assert np.array_equal(
        before[:, ~inside_mask(before.shape, reach)], after[:, ~inside_mask(after.shape, reach)]
    )
    luma = after[:, TOP:BOTTOM, LEFT:RIGHT, 0]
    assert (luma == luma[:, :, :1]).all()


@pytest.mark.parametrize("name", ["SC_rgb_dcmtk_+eb+cy+n1.dcm", "SC_rgb_dcmtk_+eb+cr.dcm"])
def test_coefficients_of_other_blocks_are_unchanged(name: str, real: Real) -> None:
    frame = next(generate_frames(real(name).PixelData, number_of_frames=1))

    new = dct.blank_blocks(frame, [(0, 0, 8, 8)], white=False)

    with dct._files(frame) as (first, _, _), dct._files(new) as (second, _, _):
        before, after = dct._read(first), dct._read(second)
    for index, (old, changed) in enumerate(zip(before.components, after.components, strict=True)):
        vertical, horizontal = before.sampling[index]
        kept = np.ones(old.shape[:2], bool)
        kept[:vertical, :horizontal] = False
        assert np.array_equal(old[kept], changed[kept])
        assert not changed[:vertical, :horizontal, 1:].any()


def test_a_blanked_jpeg_keeps_the_segment_that_determines_its_colors(real: Real) -> None:
    frame = next(generate_frames(real("SC_jpeg_no_color_transform_2.dcm").PixelData, number_of_frames=1))

    new = dct.blank_blocks(frame, [AREA], white=False)

    assert new.count(b"Adobe") == frame.count(b"Adobe") == 1


def with_pixels(data_set: Dataset, raw: bytes, **attributes: Any) -> Dataset:
    for name, value in attributes.items():
        setattr(data_set, name, value)
    if "PlanarConfiguration" in data_set and data_set.SamplesPerPixel == 1:
        del data_set.PlanarConfiguration
    data_set.PixelData = raw + b"\0" * (len(raw) & 1)
    return data_set


def test_anatomy_of_monochrome_1_is_blanked_with_its_value_for_black(real: Real, blank: Run) -> None:
    source = real("CT_small.dcm")
    source.PhotometricInterpretation = "MONOCHROME1"

    _, out = blank(source)

    released = pydicom.dcmread(BytesIO(out)).pixel_array
    assert released[TOP, LEFT] == source.pixel_array.max()


def test_anatomy_of_a_palette_image_is_blanked_with_its_darkest_color(real: Real, blank: Run) -> None:
    source = real("examples_palette.dcm")
    colors = np.random.default_rng(11).integers(0, 256, source.pixel_array.shape, np.uint8)
    source.PixelData = colors.astype(source.pixel_array.dtype).tobytes()

    _, out = blank(source)

    released = pydicom.dcmread(BytesIO(out))
    tables = (released.RedPaletteColorLookupTableData, released.GreenPaletteColorLookupTableData)
    red, green = (np.frombuffer(table, "<u2") for table in tables)
    index = released.pixel_array[TOP, LEFT]
    assert (red[index], green[index]) == (red.min(), green.min())


@pytest.mark.parametrize("name", ["examples_palette.dcm", "CT_small.dcm"])
def test_text_on_a_flat_ground_gets_its_value(name: str, real: Real, blank: Run) -> None:
    source = real(name)
    values = source.pixel_array.copy()
    ground, ink = values[0, 0], values[40, 60]
    values[: BOTTOM + 8, : RIGHT + 8] = ground
    values[TOP + 3 : BOTTOM - 3, LEFT + 4 : RIGHT - 4 : 2] = ink
    source.PixelData = values.tobytes()

    _, out = blank(source)

    after = pydicom.dcmread(BytesIO(out)).pixel_array
    assert (after[: BOTTOM + 8, : RIGHT + 8] == ground).all()


def test_text_on_a_flat_ground_with_shared_chroma_gets_its_color(real: Real, blank: Run) -> None:
    source = real("SC_ybr_full_422_uncompressed.dcm")
    cells = np.frombuffer(source.PixelData, np.uint8).reshape(100, 50, 4).copy()
    cells[:30, :20] = ground = [40, 40, 200, 90]
    cells[TOP + 3 : BOTTOM - 3, 3:8] = [255, 0, 128, 128]
    source.PixelData = cells.tobytes()

    _, out = blank(source)

    after = np.frombuffer(pydicom.dcmread(BytesIO(out)).PixelData, np.uint8).reshape(100, 50, 4)
    assert (after[:30, :20] == ground).all()


def test_color_by_plane_is_preserved(real: Real, blank: Run) -> None:
    colors = real("examples_rgb_color.dcm").pixel_array
    raw = colors.transpose(2, 0, 1).tobytes()
    source = with_pixels(real("examples_rgb_color.dcm"), raw, PlanarConfiguration=1)

    _, out = blank(source)

    released = pydicom.dcmread(BytesIO(out))
    assert released.PlanarConfiguration == 1
    assert_blanked(colors[None], released.pixel_array[None])


def test_packed_bits_of_neighboring_frames_are_separated(real: Real, blank: Run) -> None:
    bits = np.random.default_rng(5).integers(0, 2, (3, 33, 31), np.uint8)
    raw = np.packbits(bits.reshape(-1), bitorder="little").tobytes()
    source = with_pixels(real("liver_1frame.dcm"), raw, Rows=33, Columns=31, NumberOfFrames=3)
    for name in ("PerFrameFunctionalGroupsSequence", "SegmentSequence"):
        source.pop(name, None)

    _, out = blank(source)

    assert_blanked(bits[..., None], samples(pydicom.dcmread(BytesIO(out))))


def test_odd_frames_in_big_endian_words_are_read_in_order(real: Real, blank: Run) -> None:
    colors = np.random.default_rng(6).integers(0, 256, (2, 31, 33, 3), np.uint8)
    flat = colors.tobytes()
    words = np.frombuffer(flat + b"\0" * (len(flat) & 1), "<u2").astype(">u2").tobytes()
    source = with_pixels(
        real("SC_rgb_small_odd_big_endian.dcm"), words, Rows=31, Columns=33, NumberOfFrames=2
    )
    source["PixelData"].VR = "OW"

    _, out = blank(source)

    released = pydicom.dcmread(BytesIO(out))
    swapped = np.frombuffer(released.PixelData, ">u2").astype("<u2").tobytes()[: len(flat)]
    assert_blanked(colors, np.frombuffer(swapped, np.uint8).reshape(colors.shape))


def test_float_pixels_that_vary_are_blanked_with_their_minimum(real: Real, blank: Run) -> None:
    values = np.random.default_rng(7).normal(size=(40, 50)).astype("<f4")
    values[20, 20] = np.nan
    source = real("CT_small.dcm")
    del source.PixelData, source.PixelRepresentation, source.BitsStored, source.HighBit
    source.SOPClassUID = source.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.30"
    source.Rows, source.Columns, source.BitsAllocated = 40, 50, 32
    source.FloatPixelData = values.tobytes()

    _, out = blank(source)

    found = np.frombuffer(pydicom.dcmread(BytesIO(out)).FloatPixelData, "<f4").reshape(40, 50)
    mask = inside_mask((1, 40, 50))
    assert np.array_equal(found[~mask], values[~mask], equal_nan=True)
    assert np.unique(found[mask]).tolist() == [np.nanmin(values)]


def compressed(data_set: Dataset, uid: str, stated: FrameHeader | None, *frames: NDArray[Any]) -> Dataset:
    """The data set with frames encoded in ``uid`` by the product's own codec."""
    syntax = TRANSFER_SYNTAXES[uid]
    geometry = Geometry(
        data_set.Rows,
        data_set.Columns,
        data_set.SamplesPerPixel,
        len(frames),
        data_set.BitsAllocated,
        data_set.BitsStored,
        data_set.HighBit,
        bool(data_set.PixelRepresentation),
        data_set.PhotometricInterpretation,
    )
    encoded = [decode._encoded(np.ascontiguousarray(frame), syntax, geometry, stated) for frame in frames]
    data_set.PixelData = encapsulate(encoded)
    data_set["PixelData"].VR = "OB"
    data_set["PixelData"].is_undefined_length = True
    data_set.file_meta.TransferSyntaxUID = uid
    if len(frames) > 1:
        data_set.NumberOfFrames = len(frames)
    return data_set


@pytest.mark.parametrize("last", ["57", "70"])
@pytest.mark.parametrize(("bits", "signed"), [(8, 0), (12, 0), (16, 0), (16, 1)])
def test_lossless_jpeg_of_any_precision_keeps_its_syntax(
    last: str, bits: int, signed: int, real: Real, blank: Run
) -> None:
    low = -(1 << (bits - 1)) if signed else 0
    allocated = 8 if bits == 8 else 16
    kind = f"<{'i' if signed else 'u'}{allocated // 8}"
    values = np.random.default_rng(8).integers(low, low + (1 << bits), (40, 48)).astype(kind)
    source = real("CT_small.dcm")
    source.Rows, source.Columns, source.PixelRepresentation = 40, 48, signed
    source.BitsAllocated, source.BitsStored, source.HighBit = allocated, bits, bits - 1
    uid = f"1.2.840.10008.1.2.4.{last}"
    source = compressed(source, uid, FrameHeader(40, 48, 1, bits, process=0xC3), values)

    _, out = blank(source)

    released = pydicom.dcmread(BytesIO(out))
    assert released.file_meta.TransferSyntaxUID == uid
    assert_blanked(values[None, ..., None], samples(released))


@pytest.mark.parametrize("last", ["57", "70", "80", "90"])
def test_color_images_keep_their_lossless_syntax(last: str, real: Real, blank: Run) -> None:
    source = real("examples_rgb_color.dcm")
    colors = source.pixel_array
    uid = f"1.2.840.10008.1.2.4.{last}"
    source = compressed(source, uid, FrameHeader(240, 320, 3, 8, process=0xC3), colors)

    _, out = blank(source)

    released = pydicom.dcmread(BytesIO(out))
    assert released.file_meta.TransferSyntaxUID == uid
    assert_blanked(colors[None], samples(released))


def test_high_throughput_frames_are_stored_decoded(real: Real, blank: Run) -> None:
    source = real("MR_small_jp2klossless.dcm")
    before = samples(source)
    source.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.4.201"

    _, out = blank(source)

    released = pydicom.dcmread(BytesIO(out))
    assert released.file_meta.TransferSyntaxUID == EXPLICIT
    assert_blanked(before, samples(released))


def test_a_progressive_jpeg_is_stored_with_decoded_colors(real: Real, blank: Run) -> None:
    source = real("SC_rgb_jpeg_dcmtk.dcm")
    stream = BytesIO()
    picture = Image.fromarray(real("examples_rgb_color.dcm").pixel_array)
    picture.save(stream, "JPEG", progressive=True, quality=90)
    source.Rows, source.Columns, source.PhotometricInterpretation = 240, 320, "YBR_FULL_422"
    source.PixelData = encapsulate([stream.getvalue()])
    source["PixelData"].is_undefined_length = True
    before = samples(source)

    _, out = blank(source)

    released = pydicom.dcmread(BytesIO(out))
    assert (released.PhotometricInterpretation, released.PlanarConfiguration) == ("YBR_FULL", 0)
    assert released.LossyImageCompression == "01"
    stored = np.frombuffer(released.PixelData, np.uint8).reshape(1, 240, 320, 3)
    assert_blanked(before, stored)


def test_an_icon_of_a_changed_image_is_always_removed(real: Real, blank: Run) -> None:
    source = real("examples_overlay.dcm")
    icon = Dataset()
    icon.Rows, icon.Columns, icon.SamplesPerPixel, icon.PhotometricInterpretation = 2, 2, 1, "MONOCHROME2"
    icon.BitsAllocated, icon.BitsStored, icon.HighBit, icon.PixelRepresentation = 8, 8, 7, 0
    icon.PixelData = b"\1\2\3\4"
    source.IconImageSequence = [icon]

    _, out = blank(source, dicom={"attributes": {"IconImageSequence": "K"}})

    assert "IconImageSequence" not in pydicom.dcmread(BytesIO(out))


def test_deflated_frames_are_deflated_again(real: Real, blank: Run) -> None:
    source = real("CT_small.dcm")
    values = source.pixel_array
    uid, like = "1.2.840.10008.1.2.8.1", "1.2.840.10008.1.2.4.80"  # a UID of equal length that pydicom writes
    source = compressed(source, uid, None, values)
    data = BytesIO()
    source.file_meta.TransferSyntaxUID = like
    source.save_as(data)

    _, out = blank(data.getvalue().replace(like.encode(), uid.encode() + b"\0", 1))

    released = pydicom.dcmread(BytesIO(out))
    frame = next(generate_frames(released.PixelData, number_of_frames=1))
    found = np.frombuffer(zlib.decompress(frame, -zlib.MAX_WBITS), "<i2")[: values.size].reshape(values.shape)
    assert_blanked(values[None, ..., None], found[None, ..., None])


@pytest.mark.parametrize(
    ("uid", "bits"),
    [("1.2.840.10008.1.2.5", None), ("1.2.840.10008.1.2.4.80", 16), ("1.2.840.10008.1.2.4.90", 16)],
)
def test_only_changed_frames_are_reencoded(uid: str, bits: int | None, real: Real, blank: Run) -> None:
    source = real("CT_small.dcm")
    one = source.pixel_array.astype("<u2")
    frames = [one, one[::-1].copy(), one[:, ::-1].copy()]
    source.PixelRepresentation = 0
    stated = FrameHeader(128, 128, 1, bits) if bits else None
    source = compressed(source, uid, stated, *frames)
    old = list(generate_frames(source.PixelData, number_of_frames=3))
    if uid.endswith("90"):
        old = [jpeg2000.strip_jpeg2000_metadata(frame) for frame in old]
    asked = ReviewDecision("pixels/frame 2/box 30,40,60,50", "blank")

    done, out = blank(source, decisions=(asked,), fixed=False)

    released = pydicom.dcmread(BytesIO(out))
    new = list(generate_frames(released.PixelData, number_of_frames=3))
    assert done.record.outcome is Outcome.RELEASED
    changed = [a.rstrip(b"\0") != b.rstrip(b"\0") for a, b in zip(old, new, strict=True)]
    assert changed == [False, True, False]


def test_unchanged_native_frames_remain_spans_of_the_source(real: Real, blank: Run) -> None:
    frames = np.random.default_rng(9).integers(0, 256, (4, 1024, 1024), np.uint8)
    source = real("image_dfl.dcm")
    source.file_meta.TransferSyntaxUID = EXPLICIT
    source = with_pixels(source, frames.tobytes(), Rows=1024, Columns=1024, NumberOfFrames=4)

    done, out = blank(source)

    held = sum(len(piece) for piece in done.files[0].pieces if isinstance(piece, bytes))
    assert held < 4 * 16 * 1024 + 20_000
    assert_blanked(frames[..., None], samples(pydicom.dcmread(BytesIO(out))))


def test_pixels_without_blanking_are_not_touched(real: Real, blank: Run) -> None:
    done, out = blank("MR_small_RLE.dcm", fixed=False)

    assert pydicom.dcmread(BytesIO(out)).PixelData == real("MR_small_RLE.dcm").PixelData
    assert done.record.pixels is CheckResult.PASSED


# -- what is refused ----------------------------------------------------------------------


def rules(done: Sanitized) -> list[str]:
    return [finding.rule for finding in done.record.findings]


def test_an_image_bomb_is_rejected_by_its_declared_size(real: Real, blank: Run) -> None:
    source = real("MR_small_RLE.dcm")
    source.Rows = source.Columns = 30_000

    done, _ = blank(source, fixed=False)

    assert rules(done) == ["pixels-too-large"]


@pytest.mark.parametrize(
    "name", ["MR_small_jp2klossless.dcm", "MR_small_jpeg_ls_lossless.dcm", "SC_rgb_jpeg.dcm"]
)
def test_a_code_stream_of_another_size_than_the_header_is_not_decoded(
    name: str, real: Real, blank: Run
) -> None:
    source = real(name)
    if source.SamplesPerPixel == 3:
        source = real("SC_rgb_jpeg_dcmtk.dcm")
    source.Rows *= 2

    done, _ = blank(source)

    assert rules(done) == ["pixel-geometry-differs"]


@pytest.mark.parametrize("name", ["MR_small_jp2klossless.dcm", "MR_small_jpeg_ls_lossless.dcm"])
def test_undecodable_frames_are_quarantined(name: str, real: Real, blank: Run) -> None:
    source = real(name)
    frame = next(generate_frames(source.PixelData, number_of_frames=1))
    half = len(frame) // 2 & ~1
    source.PixelData = encapsulate([frame[:half] + b"\xff\xd9"])
    source["PixelData"].is_undefined_length = True

    done, out = blank(source)

    assert done.record.outcome is Outcome.QUARANTINED
    assert out == b""


def test_pixel_data_shorter_than_its_frames_is_quarantined_if_it_must_be_read(real: Real, blank: Run) -> None:
    source = real("CT_small.dcm")
    source.PixelData = source.PixelData[: len(source.PixelData) // 2]

    done, _ = blank(source)

    assert rules(done) == ["pixels-undecodable"]


def test_a_reviewer_can_quarantine_an_object_for_its_pixels(blank: Run) -> None:
    done, _ = blank("CT_small.dcm", decisions=(ReviewDecision("pixels/frame 1", "quarantine"),))

    assert rules(done) == ["refused-in-review"]


# -- ultrasound regions -------------------------------------------------------------------


def test_everything_outside_the_ultrasound_regions_is_blanked(real: Real, blank: Run) -> None:
    source = real("examples_rgb_color.dcm")
    region = Dataset()
    region.RegionSpatialFormat, region.RegionDataType, region.RegionFlags = 1, 1, 0
    region.RegionLocationMinX0, region.RegionLocationMinY0 = 40, 60
    region.RegionLocationMaxX1, region.RegionLocationMaxY1 = 279, 159
    source.SequenceOfUltrasoundRegions = [region]
    before = source.pixel_array

    _, out = blank(source, fixed=False, mask="outside-ultrasound-regions")

    after = pydicom.dcmread(BytesIO(out)).pixel_array
    assert np.array_equal(after[60:160, 40:280], before[60:160, 40:280])
    around = inside_mask((1, *after.shape), (40, 60, 280, 160))
    assert len(np.unique(after[~around], axis=0)) == 1


def test_areas_outside_regions_cover_everything_else() -> None:
    kept = [(2, 2, 6, 5), (4, 4, 9, 8)]

    found = areas_outside(kept, (10, 12))

    count = np.zeros((10, 12), int)
    for left, top, right, bottom in [*found]:
        count[top:bottom, left:right] += 1
    covered = np.zeros((10, 12), bool)
    for left, top, right, bottom in kept:
        covered[top:bottom, left:right] = True
    assert np.array_equal(count, (~covered).astype(int))


def test_native_samples_round_trip_exactly() -> None:
    geometry = Geometry(3, 4, 1, 1, 16, 12, 11, True, "MONOCHROME2")
    raw = struct.pack("<12h", *range(-6, 6))

    assert native.pack_samples(native.unpack_samples(raw, geometry, big=False), geometry, big=False) == raw


def test_decoder_warnings_do_not_stop_a_run(blank: Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done, _ = blank("MR_small_jp2klossless.dcm")

    assert done.record.outcome is Outcome.RELEASED
