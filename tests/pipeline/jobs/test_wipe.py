"""Wiping in place: the same tissue in the same file, and nothing else in it."""

from __future__ import annotations

from pathlib import Path

import openslide
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.wipe_slide import wipe_slides
from PIL import Image

from tests.helpers import slides

pytestmark = pytest.mark.wsi

SEEN = ("aperio", "aperio-gt450", "hamamatsu", "leica", "philips", "ventana", "generic", "ome")


def tissue(path: Path) -> list[object]:
    with openslide.OpenSlide(path) as slide:
        pixels = [
            slide.read_region((0, 0), level, size).tobytes()
            for level, size in enumerate(slide.level_dimensions)
        ]
        return [slide.properties["openslide.vendor"], slide.level_dimensions, *pixels]


def saved(kind: str, folder: Path) -> Path:
    file = slides.MAKERS[kind]().files[0]
    path = folder / file.name
    path.write_bytes(bytes(file.data))
    return path


@pytest.mark.parametrize("kind", SEEN)
def test_tissue_is_unchanged_and_other_images_are_removed(kind: str, tmp_path: Path) -> None:
    path = saved(kind, tmp_path)
    before = tissue(path)
    assert wipe_slides([path]).wiped == 1
    assert tissue(path) == before
    with openslide.OpenSlide(path) as slide:
        assert set(slide.associated_images) <= {"thumbnail"}


@pytest.mark.parametrize("kind", [*SEEN, "akoya", "trestle"])
def test_metadata_is_removed_except_for_comments_in_tiles(kind: str, tmp_path: Path) -> None:
    path = saved(kind, tmp_path)
    wipe_slides([path])
    data = path.read_bytes()
    comment = b"\xff\xfe\x00\x13" + slides.MARKER.encode()
    assert slides.MARKER.encode() not in data.replace(comment, b"")
    assert b"2026:03:14" not in data


def test_a_wiped_slide_can_be_wiped_again(tmp_path: Path) -> None:
    path = saved("aperio", tmp_path)
    wipe_slides([path])
    before = tissue(path)
    assert wipe_slides([path]).wiped == 1
    assert tissue(path) == before


def test_a_slide_that_cannot_be_wiped_is_left_unchanged(tmp_path: Path) -> None:
    czi, picture = saved("zeiss", tmp_path), tmp_path / "picture.tif"
    Image.new("L", (8, 8)).save(picture)
    paths = [czi, picture, saved("afi", tmp_path)]
    before = [path.read_bytes() for path in paths]
    assert wipe_slides(paths).refused == {"slide-not-supported": 3}
    assert [path.read_bytes() for path in paths] == before


def test_links_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "link.svs").symlink_to(saved("aperio", tmp_path))
    with pytest.raises(UsageError):
        wipe_slides([tmp_path / "link.svs"])


def test_the_command_asks_for_confirmation(tmp_path: Path) -> None:
    path = saved("aperio", tmp_path)
    before = path.read_bytes()
    assert CliRunner().invoke(cli, ["wipe", str(path)], input="n\n").exit_code != 0
    assert path.read_bytes() == before
    told = CliRunner().invoke(cli, ["wipe", str(path), "--yes"])
    assert (told.exit_code, "1 slides wiped" in told.output, path.read_bytes() != before) == (0, True, True)
