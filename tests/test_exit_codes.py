"""Exit codes for schedulers, of the real command in its own process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from medsanitize.policies.model import Policy

from tests.helpers.hospital import CANARIES, prepare, tree, write_ct

COMMAND = [sys.executable, "-m", "medsanitize"]


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *(str(one) for one in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", timeout=120)


def start(policy: Policy, workers: int = 1) -> subprocess.Popen[str]:
    """Start a run in its own process group; its log is on stderr."""
    command = [*COMMAND, "run", str(file_of(policy)), "--workers", str(workers), "--log-json"]
    return subprocess.Popen(
        command,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_stage(process: subprocess.Popen[str], stage: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        facts = json.loads(line)
        if (facts["event"], facts.get("stage")) == ("stage-started", stage):
            return
    raise AssertionError("the run was over before")


def file_of(policy: Policy) -> Path:
    return policy.output.parent / "policy.yaml"


def told(policy: Policy) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((policy.state / "return.json").read_text())
    return facts


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, int]:
    """A project after an uninterrupted run, and its exit code."""
    base = tmp_path_factory.mktemp("published")
    for number in range(40):
        write_ct(base / "export" / f"i{number}.dcm", number)
    policy = prepare(base)
    return policy, call("run", file_of(policy), "--workers", 1).returncode


@pytest.fixture
def project(tmp_path: Path, published: tuple[Policy, int]) -> Policy:
    """The same project before its run."""
    shutil.copytree(published[0].output.parent / "export", tmp_path / "export")
    return prepare(tmp_path)


def test_0_when_everything_is_released(published: tuple[Policy, int]) -> None:
    policy, code = published
    assert (code, told(policy)["exit_code"]) == (0, 0)


def test_1_when_objects_are_quarantined(project: Policy) -> None:
    source = project.output.parent / "export" / "i1.dcm"
    source.write_bytes(source.read_bytes()[:-1000])
    assert call("run", file_of(project), "--workers", 1).returncode == 1
    assert told(project)["outcomes"]["quarantined"] == 1
    assert (project.output / "RELEASE.json").exists()


def test_2_when_the_policy_cannot_be_followed(project: Policy) -> None:
    file_of(project).write_text("version: 1\npreset: none\n")
    done = call("run", file_of(project), "--return-file", project.output.parent / "return.json")
    assert (done.returncode, "2:9" in done.stderr) == (2, True)
    assert not project.output.exists()


def test_2_when_no_worker_can_be_reached(project: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project.output.parent / ("t" * 80)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    done = call("run", file_of(project), "--workers", 2)
    assert (done.returncode, "TMPDIR" in done.stderr, told(project)["exit_code"]) == (2, True, 2)


def test_3_when_publication_is_refused(project: Policy) -> None:
    release = '{name: chest-ct, version: "1.0", mode: pseudonymous, approve: required}'
    policy = prepare(project.output.parent, release=release)
    assert call("run", file_of(policy), "--workers", 1).returncode == 3
    assert not (policy.output / "RELEASE.json").exists()
    assert told(policy)["ending"] == "awaiting_approval"


def test_4_when_a_released_file_was_changed(published: tuple[Policy, int], tmp_path: Path) -> None:
    shutil.copytree(published[0].output, tmp_path / "release")
    changed = next((tmp_path / "release").rglob("*.dcm"))
    changed.write_bytes(changed.read_bytes()[:-1] + b"\x55")
    assert call("verify", tmp_path / "release").returncode == 4


def test_5_when_another_run_holds_the_lock_and_is_not_disturbed(
    project: Policy, published: tuple[Policy, int]
) -> None:
    first = start(project)
    wait_for_stage(first, "sanitize")
    first.send_signal(signal.SIGSTOP)
    before = tree(project.output)
    second = call("run", file_of(project), "--workers", 1, "--return-file", project.output.parent / "r.json")
    facts = json.loads((project.output.parent / "r.json").read_text())
    assert (second.returncode, "run again" in second.stderr) == (5, True)
    assert (facts["may_be_repeated"], facts["error"]["class"]) == (True, "FoldersInUse")
    assert tree(project.output) == before
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert tree(project.output) == tree(published[0].output)


@pytest.mark.parametrize("group", [False, True], ids=["process", "process group"])
def test_143_on_sigterm_and_a_rerun_resumes(
    project: Policy, published: tuple[Policy, int], group: bool
) -> None:
    process = start(project, workers=2 if group else 1)
    wait_for_stage(process, "sanitize")
    if group:
        os.killpg(process.pid, signal.SIGTERM)
    else:
        process.terminate()
    _, log = process.communicate(timeout=60)
    last = json.loads(log.splitlines()[-1])
    assert (process.returncode, last["event"], last["ending"]) == (143, "ending", "stopped")
    assert told(project)["exit_code"] == 143
    assert not (project.output / "RELEASE.json").exists()
    assert call("run", file_of(project), "--workers", 1).returncode == 0
    assert tree(project.output) == tree(published[0].output)


def test_a_json_log_has_times_levels_and_no_identifiers(project: Policy) -> None:
    process = start(project)
    _, log = process.communicate(timeout=60)
    lines = [json.loads(line) for line in log.splitlines()]
    assert all({"time", "level", "event"} <= set(line) for line in lines)
    assert lines == sorted(lines, key=lambda line: line["time"])
    assert {line["level"] for line in lines} <= {"info", "warning", "error"}
    finished = [line for line in lines if line["event"] == "stage-finished"]
    sanitize = next(line for line in finished if line["stage"] == "sanitize")
    assert sanitize["objects"] == 40
    assert sanitize["cpu_seconds"] > 0 < sanitize["wall_seconds"]
    assert (lines[-1]["event"], lines[-1]["exit_code"]) == ("ending", 0)
    assert not [secret for secret in (*CANARIES, "i17.dcm", str(project.output.parent)) if secret in log]
    assert time.strptime(lines[0]["time"][:19], "%Y-%m-%dT%H:%M:%S")


def test_a_reader_that_stops_reading_is_no_defect() -> None:
    """As `medsanitize schema | head` does."""
    with subprocess.Popen([*COMMAND, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout is not None
        command.stdout.close()
        assert command.stderr is not None
        errors = command.stderr.read()
    assert (command.returncode, errors) == (128 + signal.SIGPIPE, b"")
