"""Slides under a policy that keeps more: regenerated labels, color profiles, tile metadata."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import openslide
import pytest
from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.tiff.page import FieldValue
from medsanitize.sanitize.formats.tiff.pyramid import read_pyramid
from medsanitize.sanitize.result import SlideRecord
from medsanitize.sanitize.wsi.registry import plan_edits
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.verifiers.leaks.identifier_search import build_identifier_search
from medsanitize.verifiers.leaks.slide_audit import StagedSlide, audit_slide
from PIL import ImageCms

from tests.helpers import slides

pytestmark = pytest.mark.wsi

NAME = SlideName("2.25.98765432109876543210987654321098765432", b"k" * 32)
REPLACED = WholeSlides(label="replace")
SEGMENTS = WholeSlides(tile_metadata="keep")
PROFILES = WholeSlides(icc_profile="keep")
LABELED = ("aperio", "aperio-gt450", "philips")


def saved(source: SlideView, rules: WholeSlides, folder: Path, *, metadata: bool = False) -> StagedSlide:
    """The slide released under a policy, on disk next to its source."""
    before = folder / "in" / source.files[0].name
    before.parent.mkdir(parents=True)
    before.write_bytes(bytes(source.data))
    plan = plan_edits(source, rules, NAME)
    ((suffix, data),) = slides.written(source, plan).items()
    path = folder / f"{NAME.instance}{suffix}"
    path.write_bytes(data)
    facts = plan.facts
    stated = SlideRecord(facts.vendor, facts.levels, facts.mpp, facts.objective)
    return StagedSlide(path, sha256(data).hexdigest(), stated, sources=(before,), metadata=metadata)


def audited(staged: StagedSlide) -> set[str]:
    return {finding.rule for finding in audit_slide(staged, search=build_identifier_search(()))}


def profiled() -> SlideView:
    """A slide whose first level has a color profile with texts."""
    pages = [slides.page(slides.CLASSIC, one, {}) for one in slides.levels()]
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    pages[0].values[34675] = FieldValue(7, len(profile), profile)
    return slides.view(("x.tif", slides.tiff(slides.CLASSIC, pages)))


@pytest.mark.parametrize("vendor", LABELED)
def test_a_viewer_shows_a_regenerated_label(vendor: str, tmp_path: Path) -> None:
    staged = saved(slides.MAKERS[vendor](), REPLACED, tmp_path)

    with openslide.OpenSlide(staged.main) as slide:
        label = slide.associated_images["label"].convert("L")

    assert label.getextrema() == (0, 255)


@pytest.mark.parametrize("vendor", LABELED)
def test_a_regenerated_label_passes_the_audit(vendor: str, tmp_path: Path) -> None:
    assert audited(saved(slides.MAKERS[vendor](), REPLACED, tmp_path)) == set()


def test_a_label_that_shows_another_name_is_found(tmp_path: Path) -> None:
    staged = saved(slides.aperio(), REPLACED, tmp_path)
    other = staged.main.rename(tmp_path / "2.25.1.svs")

    assert "audit:picture" in audited(StagedSlide(other, staged.sha256, staged.stated))


@pytest.mark.parametrize("vendor", LABELED)
def test_a_slide_with_a_new_label_is_released_unchanged(vendor: str) -> None:
    source = slides.MAKERS[vendor]()
    ((suffix, once),) = slides.written(source, plan_edits(source, REPLACED, NAME)).items()
    again = slides.view((f"x{suffix}", once))

    (twice,) = slides.written(again, plan_edits(again, REPLACED, NAME)).values()

    assert twice == once


def test_a_single_level_without_thumbnail_gets_no_label_that_readers_would_misread(tmp_path: Path) -> None:
    said = "Aperio Image Library v12\r\n256x256 (64x64) JPEG/RGB Q=85|AppMag = 20|MPP = 0.5"
    only = slides.page(slides.CLASSIC, slides.levels()[0], {270: said})
    staged = saved(slides.view(("x.svs", slides.tiff(slides.CLASSIC, [only]))), REPLACED, tmp_path)

    with openslide.OpenSlide(staged.main) as slide:
        assert not slide.associated_images


@pytest.mark.parametrize("vendor", sorted(set(slides.MAKERS) - {*LABELED, "afi"}))
def test_other_formats_drop_the_label(vendor: str) -> None:
    source = slides.MAKERS[vendor]()

    assert plan_edits(source, REPLACED, NAME) == plan_edits(source, WholeSlides(), NAME)


@pytest.mark.parametrize("vendor", slides.MAKERS)
def test_tile_segments_are_kept_if_the_policy_keeps_them(vendor: str) -> None:
    cut = plan_edits(slides.MAKERS[vendor](), WholeSlides(), NAME).rules
    kept = plan_edits(slides.MAKERS[vendor](), SEGMENTS, NAME).rules

    assert "C:tile-metadata" not in kept
    assert kept.get("K:tile-metadata") == cut.get("C:tile-metadata")


def test_tiles_with_kept_segments_are_complete() -> None:
    source = slides.generic()
    first = slides.tiles(slides.levels()[0])[0]

    (data,) = slides.written(source, plan_edits(source, SEGMENTS, NAME)).values()

    assert first in data


def test_the_ndpi_restart_index_is_kept_if_nothing_is_removed() -> None:
    source = slides.hamamatsu()

    (data,) = slides.written(source, plan_edits(source, SEGMENTS, NAME)).values()

    tiffs = (source.tiff, read_pyramid(data))
    before, after = (tiff.numbers(tiff.directories[0], 65426).tolist() for tiff in tiffs)
    assert before == after


def test_bytes_after_a_tile_are_removed_even_if_its_segments_are_kept() -> None:
    tile = slides.jpeg(slides.tissue(64))
    view = slides.view(("x", tile + b"hidden"))

    (piece,) = view.cleaner(SEGMENTS).clean(0, len(tile) + 6, 7)

    assert not isinstance(piece, bytes)
    assert piece.length == len(tile)


@pytest.mark.parametrize(("metadata", "expected"), [(True, False), (False, True)])
def test_segments_pass_the_audit_only_if_the_policy_keeps_them(
    metadata: bool, expected: bool, tmp_path: Path
) -> None:
    staged = saved(slides.generic(), SEGMENTS, tmp_path, metadata=metadata)

    assert ("audit:tile-metadata" in audited(staged)) is expected


def test_words_of_the_source_are_found_in_kept_segments(tmp_path: Path) -> None:
    assert "audit:source-text" in audited(saved(slides.aperio(), SEGMENTS, tmp_path, metadata=True))


def test_a_color_profile_is_kept_without_its_texts(tmp_path: Path) -> None:
    staged = saved(profiled(), PROFILES, tmp_path)

    with openslide.OpenSlide(staged.main) as slide:
        assert slide.color_profile is not None
    assert b"sRGB" not in staged.main.read_bytes()


def test_a_numeric_color_profile_passes_the_audit(tmp_path: Path) -> None:
    assert audited(saved(profiled(), PROFILES, tmp_path)) == set()


def test_a_color_profile_with_texts_is_found(tmp_path: Path) -> None:
    data = bytes(profiled().data)
    path = tmp_path / "x.tif"
    path.write_bytes(data)

    staged = StagedSlide(path, sha256(data).hexdigest(), SlideRecord("generic-tiff", ((256, 256),)))

    assert "audit:metadata" in audited(staged)


def test_a_color_profile_is_removed_by_default() -> None:
    source = profiled()

    (data,) = slides.written(source, plan_edits(source, WholeSlides(), NAME)).values()

    assert b"acsp" not in data


def test_an_invalid_color_profile_is_removed() -> None:
    page = slides.page(slides.CLASSIC, slides.levels()[0], {})
    page.values[34675] = FieldValue(7, 200, bytes(200))
    source = slides.view(("x.tif", slides.tiff(slides.CLASSIC, [page])))

    assert plan_edits(source, PROFILES, NAME).rules["X:color-profile"] == 1
