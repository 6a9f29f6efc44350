"""Macro images of which a policy keeps a part: re-encoded, with the rest uniform."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import openslide
import pytest
from medsanitize.policies.model import KeptMacro, WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan
from medsanitize.sanitize.formats.tiff.writer import integer_values
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import SlideRecord
from medsanitize.sanitize.wsi import macro, macro_ocr
from medsanitize.sanitize.wsi.registry import plan_edits
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.verifiers.leaks.identifier_search import build_identifier_search
from medsanitize.verifiers.leaks.slide_audit import StagedSlide, audit_slide
from PIL import Image, ImageDraw, ImageFont

from tests.helpers import slides

pytestmark = pytest.mark.wsi

NAME = SlideName("2.25.98765432109876543210987654321098765432", b"k" * 32)
PART = (0.4, 0.0, 1.0, 1.0)
RULES = WholeSlides(macro=KeptMacro(keep=PART))
# Left border of the kept part in a picture 240 pixels wide.
LEFT = 96


def glass(text: str = "") -> np.ndarray:
    """A glass with a label on its left two fifths, and optionally a text on its tissue."""
    picture = Image.new("RGB", (240, 160), (215, 210, 220))
    pen = ImageDraw.Draw(picture)
    for row in range(8):
        pen.rectangle((4, 8 + 18 * row, 80, 16 + 18 * row), (20 * row, 30, 120))
    pen.polygon([(120, 140), (150, 70), (175, 120), (205, 95), (225, 150)], (180, 90, 160))
    if text:
        pen.text((110, 30), text, (10, 10, 20), ImageFont.load_default(26))
    return np.array(picture)


MAKERS: dict[str, Callable[[np.ndarray], SlideView]] = {
    "aperio": lambda picture: slides.aperio(macro=picture),
    "aperio-gt450": slides.aperio_gt450,
    "hamamatsu": slides.hamamatsu,
    "leica": slides.leica,
    "philips": slides.philips,
    "philips-coded": lambda picture: slides.philips(picture, coded=True),
}
WITHOUT = sorted(set(slides.MAKERS) - {*MAKERS, "afi"})


@cache
def released(vendor: str) -> tuple[SlideView, EditPlan]:
    """A slide and its edit plan, read once for all tests."""
    source = MAKERS[vendor](glass())
    return source, plan_edits(source, RULES, NAME)


def staged(source: SlideView, plan: EditPlan, folder: Path, part: tuple[float, ...] = PART) -> StagedSlide:
    """The released slide, on disk next to its source."""
    before = folder / "in" / source.files[0].name
    before.parent.mkdir(parents=True)
    before.write_bytes(bytes(source.data))
    ((suffix, data),) = slides.written(source, plan).items()
    path = folder / f"{NAME.instance}{suffix}"
    path.write_bytes(data)
    facts = plan.facts
    stated = SlideRecord(
        facts.vendor, facts.levels, facts.mpp, facts.objective, macros=",".join(facts.macros)
    )
    left, top, right, bottom = part
    kept = (left, top, right, bottom)
    return StagedSlide(path, sha256(data).hexdigest(), stated, sources=(before,), macro=kept)


def audited(one: StagedSlide) -> set[str]:
    return {finding.rule for finding in audit_slide(one, search=build_identifier_search(()))}


def shown(one: StagedSlide) -> np.ndarray:
    with openslide.OpenSlide(one.main) as slide:
        return np.array(slide.associated_images["macro"].convert("RGB"))


@pytest.mark.parametrize("vendor", MAKERS)
def test_the_kept_region_is_preserved_and_the_rest_is_uniform(vendor: str, tmp_path: Path) -> None:
    picture = shown(staged(*released(vendor), tmp_path)).astype(int)

    assert not picture[:, :LEFT].any()
    assert np.abs(picture[:, LEFT:] - glass()[:, LEFT:]).mean() < 3


@pytest.mark.parametrize("vendor", MAKERS)
def test_a_kept_macro_passes_the_audit(vendor: str, tmp_path: Path) -> None:
    assert audited(staged(*released(vendor), tmp_path)) == set()


@pytest.mark.parametrize("vendor", MAKERS)
def test_nothing_of_the_original_encoding_remains(vendor: str) -> None:
    source, plan = released(vendor)
    original = slides.jpeg(glass(), comment=False)
    scans = {original[at : at + 64] for at in range(len(original) // 2, len(original) - 64, 64)}

    (data,) = slides.written(source, plan).values()

    assert slides.MARKER.encode() not in data
    assert not any(scan in data for scan in scans)


@pytest.mark.parametrize("vendor", MAKERS)
def test_the_macro_is_dropped_by_default(vendor: str, tmp_path: Path) -> None:
    source = MAKERS[vendor](glass())
    one = staged(source, plan_edits(source, WholeSlides(), NAME), tmp_path)

    with openslide.OpenSlide(one.main) as slide:
        assert not set(slide.associated_images) - {"thumbnail"}


@pytest.mark.parametrize("vendor", WITHOUT)
def test_other_formats_drop_the_macro(vendor: str) -> None:
    source = slides.MAKERS[vendor]()

    assert plan_edits(source, RULES, NAME) == plan_edits(source, WholeSlides(), NAME)


def test_the_result_is_deterministic() -> None:
    source, plan = released("hamamatsu")

    assert plan_edits(source, RULES, NAME) == plan


def test_every_channel_of_a_list_keeps_its_macro() -> None:
    source = slides.afi()

    plan = plan_edits(source, RULES, NAME)

    assert plan.rules["C:slide-macro"] == len(plan.facts.macros) == 2


def test_a_new_label_and_a_macro_can_be_combined(tmp_path: Path) -> None:
    source = slides.aperio(macro=glass())
    rules = WholeSlides(label="replace", macro=KeptMacro(keep=PART))

    assert audited(staged(source, plan_edits(source, rules, NAME), tmp_path)) == set()


# -- text ---------------------------------------------------------------------------------


def test_text_in_the_kept_region_is_blanked(tmp_path: Path) -> None:
    source = slides.aperio(macro=glass("DOE 1942"))
    plan = plan_edits(source, RULES, NAME)

    picture = shown(staged(source, plan, tmp_path))

    assert plan.rules["C:burned-in-text"] >= 1
    assert len(np.unique(picture[32:56, 112:216].reshape(-1, 3), axis=0)) == 1
    assert np.abs(picture[40, 160].astype(int) - glass()[40, 160]).max() <= 3
    assert not macro_ocr.text_areas(picture, (LEFT, 0, 240, 160), [])


def test_text_readable_after_blanking_is_quarantined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macro_ocr, "text_areas", lambda *_: [(100, 10, 140, 30)])
    source = slides.aperio(macro=glass())

    with pytest.raises(Quarantined, match="burned-in-text-remains"):
        plan_edits(source, RULES, NAME)


# -- what is not as it should be ----------------------------------------------------------


def left_out(source: SlideView, rules: WholeSlides = RULES) -> bool:
    plan = plan_edits(source, rules, NAME)
    return plan.rules.get("X:slide-macro") == 1 and not plan.facts.macros


def test_a_macro_that_cannot_be_decoded_is_dropped() -> None:
    source = slides.philips(glass(), coded=True)
    broken = bytes(source.data).replace(b'IMAGE_DATA">/9j/', b'IMAGE_DATA">AAAA')

    assert left_out(slides.view(("x.tiff", broken)))


def test_a_macro_over_the_pixel_limit_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macro, "_MOST_PIXELS", 240 * 160 - 1)

    assert left_out(slides.aperio(macro=glass()))


def test_a_macro_larger_than_the_tissue_is_dropped() -> None:
    assert left_out(slides.aperio(macro=np.zeros((300, 300, 3), np.uint8)))


def test_a_rotated_macro_is_dropped() -> None:
    pages = aperio_pages()
    pages[-1].values[274] = integer_values(slides.CLASSIC, 3, [6])

    assert left_out(slides.view(("x.svs", slides.tiff(slides.CLASSIC, pages))))


def test_two_macros_are_dropped() -> None:
    pages = aperio_pages()

    assert left_out(slides.view(("x.svs", slides.tiff(slides.CLASSIC, [*pages, pages[-1]]))))


def test_a_single_level_without_thumbnail_keeps_no_macro_that_readers_would_misread() -> None:
    first, _, _, *rest = aperio_pages()

    assert left_out(slides.view(("x.svs", slides.tiff(slides.CLASSIC, [first, *rest, rest[-1]]))))


def test_a_region_without_a_whole_block_keeps_nothing() -> None:
    assert left_out(slides.aperio(macro=glass()), WholeSlides(macro=KeptMacro(keep=(0.5, 0.5, 0.51, 0.51))))


def aperio_pages() -> list[slides.Page]:
    """Level, thumbnail, level, macro."""
    said = "Aperio Image Library v12\r\n256x256 (64x64) JPEG/RGB Q=85|AppMag = 20|MPP = 0.5"
    first, second = slides.levels()
    return [
        slides.page(slides.CLASSIC, first, {270: said}),
        slides.page(slides.CLASSIC, slides.tissue(96), {270: said}, tiled=False),
        slides.page(slides.CLASSIC, second, {270: said}),
        slides.page(slides.CLASSIC, glass(), {270: "Aperio\r\nmacro 240x160"}, tiled=False, subfile=9),
    ]


def test_two_images_of_tissue_keep_a_black_macro_so_that_viewers_open_them(tmp_path: Path) -> None:
    source = slides.leica_twice()
    one = staged(source, plan_edits(source, WholeSlides(), NAME), tmp_path, (0.0, 0.0, 0.0, 0.0))

    assert not shown(one).any()
    assert audited(one) == set()


# -- the audit ----------------------------------------------------------------------------


def test_an_undeclared_macro_is_found(tmp_path: Path) -> None:
    one = staged(*released("aperio"), tmp_path)
    other = SlideRecord(one.stated.vendor, one.stated.levels, one.stated.mpp, one.stated.objective)

    assert audited(StagedSlide(one.main, one.sha256, other)) == {"audit:picture"}


def test_another_macro_than_the_declared_one_is_found(tmp_path: Path) -> None:
    one = staged(*released("hamamatsu"), tmp_path)
    facts = one.stated
    other = SlideRecord(facts.vendor, facts.levels, facts.mpp, facts.objective, macros="0" * 64)

    assert audited(StagedSlide(one.main, one.sha256, other)) == {"audit:picture"}


def test_a_macro_showing_more_than_the_policy_keeps_is_found(tmp_path: Path) -> None:
    one = staged(*released("philips"), tmp_path, (0.6, 0.0, 1.0, 1.0))

    assert audited(one) == {"audit:picture"}


def test_a_missing_declared_macro_is_found(tmp_path: Path) -> None:
    source = slides.aperio(macro=glass())
    one = staged(source, plan_edits(source, WholeSlides(), NAME), tmp_path)
    facts = one.stated
    stated = SlideRecord(facts.vendor, facts.levels, facts.mpp, facts.objective, macros="0" * 64)

    assert audited(StagedSlide(one.main, one.sha256, stated)) == {"audit:picture"}
