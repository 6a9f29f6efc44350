"""A run that keeps slide content named in the policy: audit and manifest agree."""

from __future__ import annotations

import json
from pathlib import Path

import openslide
import pytest
from medsanitize.pipeline.run import Options, run
from medsanitize.release.manifest import read_rows
from medsanitize.sanitize.formats.tiff.page import FieldValue
from medsanitize.verifiers.leaks.audit import audit_release
from PIL import ImageCms

from tests.helpers import slides
from tests.helpers.hospital import prepare

pytestmark = pytest.mark.wsi

KEEPING = "{label: replace, icc_profile: keep, tile_metadata: keep}"


def save(folder: Path) -> None:
    """A slide with comments in its tiles and a color profile."""
    said = "Aperio Image Library v12\r\n256x256 (64x64) JPEG/RGB Q=85|AppMag = 20|MPP = 0.5"
    pages = [slides.page(slides.CLASSIC, one, {270: said}) for one in slides.levels()]
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    pages[0].values[34675] = FieldValue(7, len(profile), profile)
    folder.mkdir()
    (folder / "x.svs").write_bytes(slides.tiff(slides.CLASSIC, pages))


def test_a_partially_kept_macro_passes_both_audits(tmp_path: Path) -> None:
    policy = prepare(tmp_path, wsi="{macro: {keep: [0.4, 0, 1, 1]}}")
    policy.inputs[0].mkdir()
    (policy.inputs[0] / "x.svs").write_bytes(bytes(slides.aperio().data))
    (policy.inputs[0] / "x.bif").write_bytes(bytes(slides.ventana().data))

    run(policy, Options(workers=1))

    rows = {row.slide_vendor: row for row in read_rows(policy.output)}
    assert audit_release(policy.output).findings == ()
    assert rows["ventana"].slide_macros is None
    with openslide.OpenSlide(policy.output / rows["aperio"].path) as slide:
        assert slide.associated_images["macro"].size == (120, 40)
    assert len(rows["aperio"].slide_macros or "") == 64
    assert (rows["aperio"].check_pixels, rows["ventana"].check_pixels) == ("passed", "not_applicable")


def test_kept_slide_content_passes_both_audits_and_is_in_the_manifest(tmp_path: Path) -> None:
    policy = prepare(tmp_path, wsi=KEEPING)
    save(policy.inputs[0])

    run(policy, Options(workers=1))

    (row,) = read_rows(policy.output)
    assert audit_release(policy.output).findings == ()
    assert {"C:slide-label", "C:color-profile", "K:tile-metadata"} <= set(json.loads(row.rules))
    with openslide.OpenSlide(policy.output / row.path) as slide:
        assert set(slide.associated_images) == {"label"}
        assert slide.color_profile is not None
