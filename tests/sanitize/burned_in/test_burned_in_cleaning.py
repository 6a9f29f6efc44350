"""Text drawn into real frames, cleaned by the object function with the real reader."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pydicom
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.burned_in import ocr_models
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.clean import clean_frames
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.context import Context, ReviewDecision
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import PIXEL_DATA, WrittenPixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import EXPLICIT_LITTLE, TRANSFER_SYNTAXES
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import CheckResult, Outcome, Sanitized
from numpy.typing import NDArray
from PIL import Image as Pictures
from PIL import ImageDraw, ImageFont
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate

from tests.helpers.released_bytes import released_bytes

Real = Callable[[str], Dataset]
Load = Callable[..., bytes]
Frame = NDArray[Any]
Run = Callable[..., tuple[Sanitized, Dataset]]
Drawn = tuple[int, int, int, int]

NAME, NUMBER, HARMLESS, ORDINARY = "GRZBOWSKA ANNA", "MRN 4471902", "120 kVp", "CHEST AXIAL LUNG"
AT = {NAME: (20, 12), NUMBER: (20, 44), HARMLESS: (20, 340), ORDINARY: (20, 76)}

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def run(make_policy: Callable[..., Policy], subkeys: SubKeys, load_bytes: Load) -> Run:
    """Sanitize an object under ``research``; sanitizers are cached, since each loads the models."""
    kept: dict[str, DicomSanitizer] = {}

    def go(source: Dataset, *decisions: ReviewDecision, **rules: Any) -> tuple[Sanitized, Dataset]:
        policy = make_policy("research", pixels={"faces": "ignore", **rules})
        sanitizer = kept.setdefault(repr(rules), DicomSanitizer(policy, subkeys))
        data = load_bytes(source)
        done = sanitizer(data, Context("id:a", "key", inspect_dicom(data).known, decisions=decisions))
        return done, pydicom.dcmread(BytesIO(released_bytes(done, data)), force=True)

    return go


@pytest.fixture(scope="module")
def still(real: Real) -> Callable[..., Dataset]:
    """A secondary capture of a real slice, enlarged six times, with texts drawn into it."""

    def make(*texts: str, value: int | None = None) -> Dataset:
        source = real("MR_small.dcm")
        frame = np.kron(source.pixel_array, np.ones((6, 6), np.int16))
        for text in texts:
            frame[glyphs(text, frame.shape)] = frame.max() if value is None else value
        source.SOPClassUID = source.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
        source.Modality, source.ConversionType, source.BurnedInAnnotation = "OT", "WSD", "NO"
        source.PatientName, source.PatientID = "Grzbowska^Anna", "4471902"
        source.Rows, source.Columns = frame.shape
        source.PixelData = frame.astype("<i2").tobytes()
        return source

    return make


def glyphs(text: str, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    picture = Pictures.new("L", (shape[1], shape[0]))
    ImageDraw.Draw(picture).text(AT[text], text, 255, font=ImageFont.load_default(20))
    return np.asarray(picture) > 100


def is_hidden(text: str, frame: Frame) -> bool:
    """Whether no pixel of the text's strokes differs from those beside them in its row or in its column."""
    mask = glyphs(text, frame.shape)
    rows, columns = np.nonzero(mask)
    inside = frame[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    # Where two grounds meet, rows or columns get the ground beside them.
    return bool((inside == inside[:, :1]).all() or (inside == inside[:1]).all())


@pytest.fixture(scope="module")
def cleaned(still: Callable[..., Dataset], run: Run) -> tuple[Sanitized, Dataset, Dataset]:
    """One object with a name, a number and a harmless text: result, original and released data set."""
    source = still(NAME, NUMBER, HARMLESS)
    done, released = run(source)
    return done, source, released


def test_identifying_text_is_blanked_and_other_text_is_kept(
    cleaned: tuple[Sanitized, Dataset, Dataset],
) -> None:
    done, source, released = cleaned

    before, after = source.pixel_array, released.pixel_array
    assert is_hidden(NAME, after)
    assert is_hidden(NUMBER, after)
    mask = glyphs(HARMLESS, after.shape)
    assert np.array_equal(after[mask], before[mask])
    assert np.array_equal(after[100:330], before[100:330])
    assert done.record.pixels is CheckResult.PASSED
    assert done.record.pixel_regions_cleaned == done.record.rules["C:burned-in-text"] > 0


def test_the_header_states_that_the_pixels_were_cleaned(cleaned: tuple[Sanitized, Dataset, Dataset]) -> None:
    _, _, released = cleaned

    codes = [item.CodeValue for item in released.DeidentificationMethodCodeSequence]
    assert "113101" in codes
    assert released.BurnedInAnnotation == "NO"


def test_pixels_without_identifying_text_are_unchanged(still: Callable[..., Dataset], run: Run) -> None:
    source = still(HARMLESS)

    done, released = run(source)

    assert released.PixelData == source.PixelData
    assert done.record.pixels is CheckResult.PASSED
    assert done.record.pixel_regions_cleaned == 0


def test_all_text_is_blanked_if_configured(still: Callable[..., Dataset], run: Run) -> None:
    _, released = run(still(NAME, HARMLESS), mask="all-text")

    assert is_hidden(NAME, released.pixel_array)
    assert is_hidden(HARMLESS, released.pixel_array)


def test_dark_text_on_an_inverted_image_is_found(still: Callable[..., Dataset], run: Run) -> None:
    source = still(NAME, value=0)
    source.PhotometricInterpretation = "MONOCHROME1"

    _, released = run(source)

    assert is_hidden(NAME, released.pixel_array)


def test_lines_are_kept_or_blanked_as_decided_in_the_review(still: Callable[..., Dataset], run: Run) -> None:
    source = still(NAME, HARMLESS)
    keep = ReviewDecision("pixels/frame 1/box 10,5,240,40", "keep")
    blank = ReviewDecision("pixels/frame 1/box 18,340,110,366", "blank")

    _, released = run(source, keep, blank)

    mask = glyphs(NAME, source.pixel_array.shape)
    assert np.array_equal(released.pixel_array[mask], source.pixel_array[mask])
    assert is_hidden(HARMLESS, released.pixel_array)


def test_a_name_in_a_baseline_jpeg_is_blanked_block_by_block(still: Callable[..., Dataset], run: Run) -> None:
    source = still(NAME)
    frame = source.pixel_array.astype(np.float32)
    gray = (frame * (255 / frame.max())).astype(np.uint8)
    stream = BytesIO()
    Pictures.fromarray(gray).save(stream, "JPEG", quality=90)
    source.BitsAllocated, source.BitsStored, source.HighBit, source.PixelRepresentation = 8, 8, 7, 0
    source.PixelData = encapsulate([stream.getvalue()])
    source["PixelData"].VR = "OB"
    source["PixelData"].is_undefined_length = True
    source.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.4.50"

    _, released = run(source)

    assert released.file_meta.TransferSyntaxUID == "1.2.840.10008.1.2.4.50"
    assert is_hidden(NAME, released.pixel_array)
    assert np.array_equal(released.pixel_array[100:], np.asarray(Pictures.open(stream))[100:])


def test_static_text_is_blanked_in_every_frame(still: Callable[..., Dataset], run: Run) -> None:
    source = still(NAME)
    frame = source.pixel_array.copy()
    noise = np.random.default_rng(4).integers(0, 40, frame.shape, np.int16)
    faint = np.where(glyphs(NAME, frame.shape), frame.max() // 2, frame)
    source.NumberOfFrames = 2
    source.PixelData = np.stack([frame, faint + noise]).astype("<i2").tobytes()

    _, released = run(source)

    assert all(is_hidden(NAME, one) for one in released.pixel_array)


def test_review_items_contain_pictures_and_no_text(
    cleaned: tuple[Sanitized, Dataset, Dataset],
) -> None:
    done, _, _ = cleaned

    assert done.review_items
    assert all(
        one.after.startswith(b"\x89PNG") for one in done.review_items if one.rule == "burned-in-text-overview"
    )
    assert "GRZBOWSKA" not in repr(done.review_items)


def test_objects_without_text_load_no_model(real: Real, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: str) -> None:
        raise AssertionError(kind)

    monkeypatch.setattr(ocr_models, "_session", refuse)

    done, _ = run(real("CT_small.dcm"), search="at-risk", lossy="quarantine")

    assert done.record.outcome is Outcome.RELEASED
    assert done.record.pixels is CheckResult.NOT_APPLICABLE


class _Seeing:
    """Reads a name in every frame; lower each time if it ``moves``."""

    def __init__(self, *, moves: bool) -> None:
        self.step, self.seen = 8 * moves, 0

    def read(self, *_: object) -> tuple[TextBox, ...]:
        top = self.step * self.seen
        self.seen += 1
        return (TextBox(10, top, 40, top + 5, NAME, 0.99),)

    def read_changes(self, *_: object) -> tuple[TextBox, ...]:
        return self.read()


def _noise() -> ImageFrames:
    geometry = Geometry(40, 60, 1, 1, 8, 8, 7, False, "MONOCHROME2")
    raw = np.random.default_rng(3).integers(0, 256, 2400, np.uint8).tobytes()
    pixels = WrittenPixels([b"head", raw], [], 0, PIXEL_DATA)
    syntax = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]
    return ImageFrames(StoredFrames(b"", pixels, EXPLICIT_LITTLE, syntax, geometry), syntax, geometry)


def test_text_readable_after_four_attempts_is_quarantined() -> None:
    reader: Any = _Seeing(moves=True)

    with pytest.raises(Quarantined) as refused:
        clean_frames(
            _noise(), CleaningOptions(lambda boxes: boxes), reader, decompress=True, most_bytes=1 << 20
        )

    assert refused.value.rule == "burned-in-text-remains"
    assert refused.value.review_items[0].location == "pixels/frame 1/box 10,32,40,37"


def test_a_line_read_in_a_blanked_area_is_ignored() -> None:
    reader: Any = _Seeing(moves=False)
    assert (
        clean_frames(
            _noise(), CleaningOptions(lambda boxes: boxes), reader, decompress=True, most_bytes=1 << 20
        ).regions
        == 1
    )


class _Cutting:
    """Reads a name and a harmless line; after the name is blanked, another text in place of the line."""

    def __init__(self, later: str) -> None:
        self.lines = [
            (TextBox(2, 2, 30, 8, NAME, 0.99), TextBox(2, 20, 30, 26, "PORTABLE", 0.99)),
            (TextBox(6, 20, 30, 26, later, 0.99),),
        ]

    def read(self, *_: object) -> tuple[TextBox, ...]:
        return self.lines.pop(0)

    def read_changes(self, *_: object) -> tuple[TextBox, ...]:
        return self.lines.pop(0) if self.lines else ()


@pytest.mark.parametrize("later", ["ORTABLE", "ORBAN"])
def test_a_harmless_line_whose_pixels_do_not_change_is_not_judged_again(later: str) -> None:
    reader: Any = _Cutting(later)
    order = CleaningOptions(lambda boxes: tuple(box for box in boxes if box.text != "PORTABLE"))

    assert clean_frames(_noise(), order, reader, decompress=True, most_bytes=1 << 20).regions == 1


class _Amplified:
    """Reads one line in the first rendering and others in the second."""

    def __init__(self, first: tuple[TextBox, ...], second: tuple[TextBox, ...]) -> None:
        self.lines = [first, second]
        self.seen = 0

    def read(self, frame: Frame, *_: object) -> tuple[TextBox, ...]:
        self.seen += 1
        return self.lines[(self.seen - 1) % 2] if frame.std() > 1 else ()

    def read_changes(self, *_: object) -> tuple[TextBox, ...]:
        return ()


def _amplified(reader: Any) -> int:
    """Areas blanked in a uniform image with faint noise, in which every reading identifies."""
    raw = np.full((40, 60), 100, np.uint8)
    raw[30:, :20] += np.random.default_rng(3).integers(0, 2, (10, 20), np.uint8)
    raw[0, 0] = 255
    geometry = Geometry(40, 60, 1, 1, 8, 8, 7, False, "MONOCHROME2")
    syntax = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]
    pixels = WrittenPixels([b"head", raw.tobytes()], [], 0, PIXEL_DATA)
    image = ImageFrames(StoredFrames(b"", pixels, EXPLICIT_LITTLE, syntax, geometry), syntax, geometry)
    assert len(image.pictures(image.samples(raw.tobytes()), raw.tobytes())) == 2
    return clean_frames(
        image, CleaningOptions(lambda boxes: boxes), reader, decompress=True, most_bytes=1 << 20
    ).regions


def test_uncertain_letters_in_an_amplified_rendering_only_are_noise() -> None:
    specks = (TextBox(10, 10, 20, 15, "II", 0.8), TextBox(22, 10, 30, 15, "1", 0.6))

    assert _amplified(_Amplified((), specks)) == 0
    assert _amplified(_Amplified((), (TextBox(10, 10, 20, 15, "LI", 0.95),))) > 0


def test_a_never_word_is_blanked_although_its_words_are_ordinary(
    make_policy: Callable[..., Policy], subkeys: SubKeys, load_bytes: Load, still: Callable[..., Dataset]
) -> None:
    policy = make_policy("research", pixels={"faces": "ignore"}, text={"deny_list": [ORDINARY.title()]})
    data = load_bytes(still(ORDINARY, HARMLESS))

    done = DicomSanitizer(policy, subkeys)(data, Context("id:a", "key", inspect_dicom(data).known))

    after = pydicom.dcmread(BytesIO(released_bytes(done, data)), force=True).pixel_array
    assert is_hidden(ORDINARY, after)
    assert not is_hidden(HARMLESS, after)
    assert done.record.pixel_regions_cleaned == 1
