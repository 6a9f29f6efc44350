"""From an export to a published, verified release in a browser, and the same by the command line."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from medsanitize import load_policy, status, verify
from medsanitize.pipeline.review.pages import apply_decisions, make_review
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from playwright.sync_api import Page

from tests.helpers.desk import open_desk
from tests.helpers.desk_browser import opened_page, severe_findings
from tests.helpers.hospital import CANARIES, make_export, tree

pytestmark = [pytest.mark.slow, pytest.mark.desk, pytest.mark.system, pytest.mark.pixels]


def walk_to_review(page: Page) -> None:
    """Answer the questions, count the export, and run."""
    page.click("text=New release")
    page.click("text=data/")
    page.click("text=export/")
    page.click("text=Use this folder")
    page.wait_for_selector(".CodeMirror")
    page.fill("input[name=name]", "chest")
    page.wait_for_timeout(1_000)
    page.click("text=Create the release")
    page.wait_for_url("**/inventory")
    page.click("button:has-text('Count the export')")
    page.wait_for_selector("text=A run takes about", timeout=120_000)
    page.click("nav >> text=Run")
    page.click("main button:has-text('Run')")
    page.wait_for_selector("text=Awaiting review", timeout=300_000)


def review(page: Page) -> None:
    """Draw a box on one image, and quarantine another one, by keyboard."""
    page.click("nav >> text=Review")
    page.click("nav >> text=Series")
    series = page.url
    # The order follows pseudonyms, and some series have no image.
    for number in range(page.locator(".montage a").count()):
        page.goto(series)
        page.locator(".montage a").nth(number).click()
        page.locator(".montage a").first.click()
        page.wait_for_selector("#drawing", state="attached")
        if (
            page.get_attribute("#drawing", "data-live")
            and page.get_attribute("#drawing", "data-rows") == "128"
        ):
            break
    page.wait_for_selector("#canvas")
    page.locator("#whole").evaluate("image => image.decode()")
    place = page.locator("#canvas").bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + 20, place["y"] + 20)
    page.mouse.down()
    page.mouse.move(place["x"] + 120, place["y"] + 60, steps=4)
    page.mouse.up()
    page.wait_for_selector("text=Stored. The next run applies it.")
    assert severe_findings(page) == []
    page.click("nav >> text=Queue")
    page.wait_for_selector("#queue-item:visible")
    while page.inner_text("#item-rule") != "sample":
        page.keyboard.press("n")
    page.keyboard.press("q")
    page.wait_for_selector("text=Every decision is stored.")
    assert severe_findings(page) == []


def test_a_release_is_made_without_a_terminal_and_equals_that_of_the_command_line(tmp_path: Path) -> None:
    make_export(tmp_path / "data" / "export", 4)
    with open_desk(tmp_path / "data") as desk, opened_page(desk) as page:
        walk_to_review(page)
        review(page)
        page.click("text=Run again with the decisions")
        page.wait_for_url("**/run")
        page.wait_for_selector("text=Awaiting review", timeout=300_000)
        page.click("nav >> text=Review")
        page.click("text=Approve and publish")
        page.wait_for_url("**/run")
        page.wait_for_selector("text=Open the release", timeout=300_000)
        page.click("text=Open the release")
        page.click("text=Verify the release")
        page.wait_for_selector("text=Every file is as it was published")
        assert severe_findings(page) == []
        assert not any(one in page.url for one in CANARIES)

    made = load_policy(tmp_path / "data" / "chest" / "policy.yaml")
    assert (status(made).state, verify(made.output).status) == ("published", "intact")
    assert status(made).rules["quarantined"]["review"] == 1
    assert tree(Path(str(made.output))) == tree(again(tmp_path, made.state))


def again(tmp_path: Path, state: Path) -> Path:
    """Make the same release by the command line: same policy, key and decisions."""
    other = tmp_path / "data" / "other"
    other.mkdir()
    for name in ("policy.yaml", "release.key"):
        shutil.copy2(state.parent / name, other / name)
    policy = load_policy(other / "policy.yaml")
    run(policy, Options(workers=1))
    make_review(policy)
    page = workspace_of(policy).review_page().read_text().partition('data-page="')[2].partition('"')[0]
    made = {"version": 1, "page": page, "approve": None, "decisions": decisions_of(state)}
    (policy.state / "decisions.json").write_text(json.dumps(made))
    apply_decisions(policy, policy.state / "decisions.json")
    staged = run(policy, Options(workers=1))
    assert run(policy, Options(workers=1, approve=staged.digest)).ending == "published"
    return Path(str(policy.output))


def decisions_of(state: Path) -> dict[str, str]:
    """The decisions that the desk stored, as a file of decisions names them."""
    with closing(sqlite3.connect(state / "chest-1.0.sqlite")) as db:
        rows = db.execute("SELECT id, location, verdict FROM decisions").fetchall()
    made = {}
    for number, location, verdict in rows:
        box = re.fullmatch(r"pixels/frame (\d+)/box (\d+),(\d+),(\d+),(\d+)", location)
        name = f"object-{number}" if box is None else f"box-{number}-{'-'.join(box.groups())}"
        made[name] = verdict
    assert sorted(made.values()) == ["blank", "quarantine"]
    return made
