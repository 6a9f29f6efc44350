"""Boxes that a reviewer draws on a picture of the sample, in a browser, become regions of the policy."""

from __future__ import annotations

import io
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from medsanitize.policies.load import loads
from medsanitize.policies.model import FixedRegion
from medsanitize.release.review import PictureSource, ReviewCard, ReviewPage, data_uri, render_review_page
from medsanitize.sanitize.burned_in.areas import fixed_areas
from medsanitize.sanitize.burned_in.device import Device
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from PIL import Image

from tests.helpers.browser import Browser, browser

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium (tests/install_system.sh)"),
]

ROWS, COLUMNS = 600, 800
SCREEN = PictureSource(
    (("manufacturer", 'ACME "X" & <i>'), ("model", "U-7"), ("modality", "US"), ("image_type", "A\\B")),
    ROWS,
    COLUMNS,
)
DETECTOR = PictureSource((("modality", "DX"),), 3000, 2500)


def card(number: int, source: PictureSource | None, size: tuple[int, int]) -> ReviewCard:
    stream = io.BytesIO()
    Image.new("L", size, 60).save(stream, "PNG")
    picture = data_uri(stream.getvalue())
    return ReviewCard(
        f"object-{number}", "sample", "An image", (("release", "Release"),), after=picture, source=source
    )


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Browser]:
    """A page with a sample of two screens of one device, half in size, a radiograph, and a picture."""
    review = ReviewPage(
        name="chest-ct",
        version="1.0",
        ending="awaiting_approval",
        id="00",
        digest="11",
        number=1,
        names=("page",),
        command="medsanitize run policy.yaml",
        sample=(
            card(1, SCREEN, (400, 300)),
            card(2, SCREEN, (400, 300)),
            card(3, DETECTOR, (427, 512)),
            card(4, None, (90, 30)),
        ),
    )
    file = tmp_path / "page.html"
    file.write_bytes(render_review_page(review))
    with browser(tmp_path / "profile") as opened:
        opened.open(file, tmp_path)
        yield opened


def drag(page: Browser, number: int, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw with the mouse on a picture, from and to shares of its width and height."""
    name = f"document.querySelectorAll('article')[{number}]"
    page.ask(f"{name}.scrollIntoView({{block: 'center'}})")
    left, top, width, height = page.ask(
        f"(() => {{ const box = {name}.querySelector('img').getBoundingClientRect();"
        " return [box.x, box.y, box.width, box.height] })()"
    )
    places = [(left + x * width, top + y * height) for x, y in (start, end)]
    kinds = ("mousePressed", "mouseMoved", "mouseReleased")
    for kind, (x, y) in zip(kinds, (places[0], places[1], places[1]), strict=True):
        page.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)


def regions(lines: str) -> tuple[FixedRegion, ...]:
    """The regions of a policy with these lines."""
    content: dict[str, Any] = {
        "version": 1,
        "preset": "research",
        "release": {"name": "test", "version": "1.0", "mode": "pseudonymous"},
        "inputs": ["./export"],
        "output": "./release",
        "state": "./state",
        "keys": {"file": "./release.key"},
        **yaml.safe_load(lines),
    }
    return loads(json.dumps(content), base=Path("/nowhere")).pixels.regions


def lines_of(page: Browser) -> str:
    return str(page.ask("document.getElementById('lines').value"))


def is_near(found: tuple[int, ...], wanted: tuple[int, ...], most: int) -> bool:
    return all(abs(one - other) <= most for one, other in zip(found, wanted, strict=True))


def test_a_box_becomes_a_region_in_pixels_of_the_image_for_images_of_the_same_device(page: Browser) -> None:
    page.click("article .pen")
    drag(page, 0, (0.75, 0.2), (0.25, 0.1))

    (region,) = regions(lines_of(page))
    device = Device(manufacturer='acme "x" & <I>', model="u-7", modality="US", image_type="A\\B")
    (area,) = fixed_areas([region], device, Geometry(ROWS, COLUMNS, 1, 1, 8, 8, 7, False, "MONOCHROME2"))
    assert is_near(area, (200, 60, 600, 120), 3)
    assert page.ask("document.querySelectorAll('article i').length") == 1
    assert page.ask("document.querySelector('.zoom').getAttribute('aria-pressed')") == "false"
    assert page.complaints() == []


def test_boxes_of_one_device_are_one_region(page: Browser) -> None:
    for number in (0, 1, 2):
        page.click(f"article:nth-of-type({number + 1}) .pen")
        drag(page, number, (0.1, 0.1), (0.5, 0.2))

    screen, detector = regions(lines_of(page))

    assert (screen.model, len(screen.boxes)) == ("U-7", 2)
    assert (detector.modality, detector.rows, detector.manufacturer) == ("DX", 3000, None)
    assert is_near(detector.boxes[0], (250, 300, 1000, 300), 15)


def test_a_box_can_be_changed_and_removed_by_numbers(page: Browser) -> None:
    page.click("article .add")
    page.ask(
        "(() => { const input = document.querySelectorAll('.boxes input')[3]; input.value = '99999';"
        " input.dispatchEvent(new Event('change')) })()"
    )
    assert regions(lines_of(page))[0].boxes == ((0, 0, COLUMNS, ROWS),)

    page.click(".boxes button")
    assert lines_of(page) == ""
    assert page.ask("document.getElementById('download').disabled")


def test_the_lines_are_downloaded_as_they_are_shown(page: Browser, tmp_path: Path) -> None:
    page.click("article .add")
    page.click("#download")

    deadline = time.monotonic() + 30
    while not (tmp_path / "regions.yaml").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (tmp_path / "regions.yaml").read_text() == lines_of(page)


def test_pictures_without_a_device_have_no_tools_and_nothing_is_drawn_unless_asked(page: Browser) -> None:
    drag(page, 0, (0.1, 0.1), (0.5, 0.2))

    assert lines_of(page) == ""
    assert page.ask("document.querySelectorAll('article')[3].querySelector('.pen')") is None
