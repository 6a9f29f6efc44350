"""Inventory, plan and run, from the desk and beside it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from medsanitize import inventory, load_policy, status, stop, stored_inventory
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy

from tests.helpers.desk import DeskProcess, open_desk
from tests.helpers.desk_browser import opened_page, severe_findings
from tests.helpers.hospital import CANARIES, make_export, prepare

pytestmark = [pytest.mark.desk, pytest.mark.system]
SLOW = pytest.mark.slow  # a run, or a browser, takes seconds
AWAITING = '{name: chest-ct, version: "1.0", mode: pseudonymous, approve: required}'


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    make_export(tmp_path / "data" / "export", 6)
    return prepare(tmp_path / "data", release=AWAITING)


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_inventory_counts_and_names_nobody(policy: Policy) -> None:
    counts = inventory(policy, workers=1)
    assert (counts.files, counts.kinds["dicom"], counts.kinds["dicomdir"]) == (14, 11, 1)
    assert counts.patients == 7  # three, those of the real files, and that of the cut file
    assert counts.modalities["CT"] >= 7
    assert counts.problems == {"empty-file": 1}
    assert stored_inventory(policy) == counts
    stored = (policy.state / "chest-ct-1.0.inventory.json").read_text()
    assert not any(one in stored for one in CANARIES)
    assert status(policy).state == "planned"


def test_the_status_follows_a_release_from_new_to_published(policy: Policy) -> None:
    assert (status(policy).state, status(policy).next_step != "") == ("new", True)
    run(policy, Options(workers=1))
    waiting = status(policy)
    assert (waiting.state, waiting.outcomes["released"] > 0, waiting.progress) == (
        "awaiting_review",
        True,
        None,
    )
    run(policy, Options(workers=1, approve=waiting.digest))
    assert status(policy).state == "published"
    # Reading the state leaves nothing beside it.
    assert not list(policy.state.glob("*-wal"))


def test_a_killed_run_is_stopped_and_goes_on(policy: Policy) -> None:
    left = policy.state / "chest-ct-1.0.progress.json"
    policy.state.mkdir()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    facts = {"stage": "sanitize", "done": 1, "total": 9, "stage_seconds": 1, "run_seconds": 1, "finished": []}
    facts |= {"messages": [], "pid": dead.pid, "host": os.uname().nodename}
    left.write_text(json.dumps(facts))
    assert (status(policy).state, status(policy).reason) == ("stopped", "The run was killed.")
    assert not stop(policy)


@pytest.fixture
def desk(policy: Policy) -> Iterator[DeskProcess]:
    with open_desk(policy.state.parent) as found:
        yield found


@SLOW
def test_a_run_of_the_command_line_is_shown_live_and_stopped(policy: Policy, desk: DeskProcess) -> None:
    desk.enter()
    project = re.findall(r'href="(/project/[^"]+)"', desk.get("/").text)[0]
    command = [sys.executable, "-m", "medsanitize", "run", str(policy.state.parent / "policy.yaml")]
    started = subprocess.Popen([*command, "--workers", "1"], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: status(policy).state == "running" or started.poll() is not None)
        events = desk.get(f"{project}/events").text
        started.wait(60)
    finally:
        started.kill()
    told = [json.loads(line.removeprefix("data: ")) for line in events.splitlines() if line]
    assert told[0]["state"] == "running"
    assert told[0]["stage"]
    assert (told[-1]["busy"], told[-1]["state"]) == (False, "awaiting_review")
    assert not any(one in events for one in CANARIES)


@SLOW
def test_killing_the_desk_does_not_stop_its_run(policy: Policy) -> None:
    with open_desk(policy.state.parent) as desk:
        desk.enter()
        project = re.findall(r'href="(/project/[^"]+)"', desk.get("/").text)[0]
        assert desk.post(f"{project}/start", command="run").status == 303
        wait_until(lambda: status(policy).state == "running")
        desk.process.send_signal(signal.SIGKILL)
        desk.process.wait(10)
    wait_until(lambda: status(policy).state == "awaiting_review")


@SLOW
def test_a_second_run_is_refused_and_says_why(policy: Policy, desk: DeskProcess) -> None:
    desk.enter()
    project = re.findall(r'href="(/project/[^"]+)"', desk.get("/").text)[0]
    assert desk.post(f"{project}/start", command="run").status == 303
    answer = desk.post(f"{project}/start", command="run")
    assert (answer.status, "at work" in answer.text) == (409, True)
    desk.post(f"{project}/stop")
    wait_until(lambda: status(policy).state in ("new", "stopped", "awaiting_review"))


@SLOW
def test_the_plan_shows_an_object_before_and_after(policy: Policy, desk: DeskProcess) -> None:
    with opened_page(desk) as page:
        page.click("text=chest-ct")
        page.click("nav >> text=Plan")
        page.fill("#search", "(0010,0010)")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=1 attribute matches")
        assert "PatientName" not in page.url
        page.click("text=See an object before and after")
        page.click("text=export/")
        page.click("text=p0/")
        page.click("text=i0000")
        page.wait_for_selector("text=Before and after", timeout=60_000)
        header = page.inner_text("#header")
        assert f"{CANARIES[0]}^A" in header
        assert "i0000" not in page.url
        assert page.evaluate("document.querySelector('#compare img').naturalWidth") == 128
        assert severe_findings(page) == []
    assert not policy.state.exists()


@SLOW
def test_hostile_values_change_nothing_on_a_page(policy: Policy, desk: DeskProcess) -> None:
    from pydicom import dcmread

    file = policy.state.parent / "export" / "p0" / "i0000"
    data = dcmread(file)
    data.PatientName = "<script>document.title='taken'</script>"
    data.add_new("PatientComments", "UT", "A" * 2**20)
    data.ImageComments = '"><img src=x onerror=alert(1)>'
    data.OtherPatientNames = [f"<b>N{number}" for number in range(3000)]
    file.unlink()
    data.save_as(file.with_name("<img src=x onerror=alert(1)>"))
    with opened_page(desk) as page:
        page.click("text=chest-ct")
        page.click("nav >> text=Plan")
        page.click("text=See an object before and after")
        page.click("text=export/")
        page.click("text=p0/")
        page.click("text=<img src=x")
        page.wait_for_selector("text=Before and after", timeout=60_000)
        assert page.title() == "Object – medsanitize desk"
        assert page.locator("main img[src='x'], main script, main b").count() == 0
        assert "<script>document.title" in page.inner_text("#header")
        assert len(page.content()) < 500_000
    assert load_policy(policy.state.parent / "policy.yaml") == policy
