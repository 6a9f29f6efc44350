"""Values, lists, persons and scopes of decisions, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from medsanitize import decision_log, site_lists
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.result import ReviewItem, Sanitized
from playwright.sync_api import Page

from tests.helpers.desk import open_desk
from tests.helpers.desk_browser import opened_page, severe_findings
from tests.helpers.hospital import prepare, write_ct

pytestmark = [pytest.mark.desk, pytest.mark.system]
QUICK = {
    "preset": "research",
    "validation": "'off'",
    "dicom": "{options: {clean_pixel_data: false}}",
    "pixels": "{at_risk: release, faces: ignore}",
    "release": '{name: test, version: "1.0", mode: pseudonymous, approve: {reviewers: 2, sample: 50 %}}',
}


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Policy:
    """Four staged objects with one doubtful text at one place, each with a picture of its own."""
    original = DicomSanitizer.__call__

    def call(self: DicomSanitizer, data: Any, context: Context) -> Sanitized:
        done = original(self, data, context)
        item = ReviewItem("frame 1 box 0,0,9,9", "ocr:unsure", "ACME", context.patient.encode())
        return replace(done, review_items=() if context.decisions else (item,))

    monkeypatch.setattr(DicomSanitizer, "__call__", call)
    for number in range(1, 5):
        write_ct(tmp_path / f"export/{number}.dcm", number, f"P{number}", number, StudyDescription="CT chest")
    policy = prepare(tmp_path, **QUICK)
    assert run(policy, Options(workers=1)).ending == "awaiting_approval"
    return policy


@pytest.fixture
def page(staged: Policy) -> Iterator[Page]:
    with open_desk(staged.state.parent) as desk, opened_page(desk) as page:
        page.click("h2 a")
        page.click("nav >> text=Review")
        page.wait_for_selector("#queue-item:visible")
        yield page


def test_an_attribute_that_is_wrong_becomes_a_rule_and_a_value_a_never_word(
    page: Page, staged: Policy
) -> None:
    page.click("nav >> text=Values")
    page.fill("input[name=search]", "CHEST")
    page.click("text=List the values")
    row = page.locator("tbody tr", has_text="StudyDescription")
    assert "CT chest" in row.inner_text()
    assert "chest" not in page.url.lower()
    assert severe_findings(page) == []
    row.locator("text=Never-word").click()
    page.wait_for_selector("text=The value is a never-word of the site.")
    assert site_lists(staged).deny == ("CT chest",)
    page.click("text=List the values")
    row.locator("text=Remove the attribute").click()
    page.wait_for_selector("text=The policy removes the attribute.")
    assert "StudyDescription: X" in (staged.state.parent / "policy.yaml").read_text()


def test_words_are_added_to_the_lists_and_removed(page: Page, staged: Policy) -> None:
    page.click("nav >> text=Lists of the site")
    never = page.locator("section", has_text="Never-words")
    never.locator("textarea").fill("Quux\nFrobnitz ward\n")
    never.locator("text=Add to the").click()
    never.locator("td >> text=Frobnitz ward").wait_for()
    assert site_lists(staged).deny == ("Frobnitz ward", "Quux")
    assert severe_findings(page) == []
    never.locator("tr", has_text="Quux").locator("text=Remove").click()
    never.locator("td >> text=Quux").wait_for(state="detached")
    assert site_lists(staged).deny == ("Frobnitz ward",)


def test_one_decision_holds_for_all_that_look_alike_and_is_under_the_name_of_the_person(
    page: Page, staged: Policy
) -> None:
    page.click("nav >> text=Persons")
    page.fill("input[name=reviewer]", "Ann Ward")
    page.click("text=Change")
    page.wait_for_selector("text=Nothing was decided yet.")
    assert "0 of 2" in page.inner_text(".tiles")
    page.click("nav >> text=Queue")
    page.wait_for_selector("#queue-item:visible")
    page.keyboard.press("s")
    page.keyboard.press("k")
    page.wait_for_selector("text=Every decision is stored.")
    page.click("nav >> text=Persons")
    page.wait_for_selector("td >> text=all that look alike")
    assert "Ann Ward" in page.inner_text("tbody")
    assert severe_findings(page) == []
    (made,) = decision_log(staged)
    assert (made.reviewer, made.verdict, made.scope, made.objects) == ("Ann Ward", "keep", "alike", 4)


def test_a_release_shows_what_changed_since_an_earlier_version(tmp_path: Path) -> None:
    for version, count in (("1.0", 2), ("1.1", 3)):
        base = tmp_path / version
        for number in range(1, count + 1):
            write_ct(base / f"export/{number}.dcm", number, f"P{number}", number)
        release = f'{{name: test, version: "{version}", mode: pseudonymous}}'
        assert run(prepare(base, **{**QUICK, "release": release}), Options(workers=1)).ending == "published"
    with open_desk(tmp_path) as desk, opened_page(desk) as page:
        page.locator("h2 a", has_text="1.1").click()
        page.click("nav >> text=Release")
        page.click("text=What changed since 1.0")
        page.wait_for_selector("h2:has-text('What changed')")
        tiles = page.locator("h2:has-text('What changed') + dl").inner_text().split("\n")
        assert tiles[tiles.index("Objects added") + 1] == "1"
        assert tiles[tiles.index("Same") + 1] == "2"
        assert severe_findings(page) == []
