"""Every page of a project: accessible, usable at 200 % and with keys alone, no value in its address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from medsanitize.pipeline.run import Options, run
from playwright.sync_api import Page

from tests.helpers.desk import open_desk
from tests.helpers.desk_browser import opened_page, severe_findings
from tests.helpers.hospital import CANARIES, make_export, prepare

pytestmark = [pytest.mark.slow, pytest.mark.desk, pytest.mark.system]
AWAITING = '{name: chest-ct, version: "1.0", mode: pseudonymous, approve: required}'
PAGES = ("", "/policy", "/inventory", "/plan", "/plan/objects", "/run", "/review", "/review/series")
FURTHER = ("/review/decisions", "/review/persons", "/review/values", "/review/lists", "/release")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("pages") / "data"
    make_export(base / "export", 4)
    run(prepare(base, release=AWAITING), Options(workers=1))
    return base


@pytest.fixture(params=["light", "dark"])
def page(root: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    with open_desk(root) as desk, opened_page(desk, color_scheme=request.param) as opened:
        yield opened


def test_every_page_is_accessible_and_fits_half_the_width(page: Page) -> None:
    page.click("text=chest-ct")
    base = page.url
    # 1280 pixels at 200 %.
    page.set_viewport_size({"width": 640, "height": 800})
    for name in (*PAGES, *FURTHER):
        page.goto(base + name)
        page.wait_for_load_state("networkidle")
        assert severe_findings(page) == [], name
        width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1], name
        assert not any(one in page.url or one in page.title() for one in (*CANARIES, "chest"))


def test_a_queue_is_decided_by_keys_alone(page: Page) -> None:
    page.click("text=chest-ct")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Review":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("#queue-item:visible")
    before = int(page.inner_text("#count-sampled"))
    page.keyboard.press("r")
    page.wait_for_selector("text=Every decision is stored.")
    assert int(page.inner_text("#count-sampled")) == before - 1
    page.keyboard.press("u")
    page.wait_for_timeout(500)
    page.reload()
    page.wait_for_selector("#queue-item:visible")
    assert int(page.inner_text("#count-decided")) == 0
