"""Exit report and metrics of a run for schedulers and monitors, for every ending."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from medsanitize.cli import cli
from medsanitize.errors import FoldersInUse, KeyMaterialError
from medsanitize.pipeline import evidence, preflight
from medsanitize.pipeline import run as running
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.stages import audit, deduplicate
from medsanitize.pipeline.state.shards import Shard
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation, Cancelled
from prometheus_client.parser import text_string_to_metric_families

from tests.helpers.hospital import CANARIES, prepare, write_ct

Workplace = Callable[..., Policy]
ONE = Options(workers=1)


def told(policy: Policy, name: str = "return.json") -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((policy.state / name).read_text())
    return facts


def samples(policy: Policy, name: str = "metrics.prom") -> dict[tuple[str, str], float]:
    """Values by metric and by the label that distinguishes samples of one metric."""
    found = {}
    common = {"release", "release_version", "shard"}
    for family in text_string_to_metric_families((policy.state / name).read_text()):
        assert family.documentation
        for sample in family.samples:
            own = ",".join(value for label, value in sample.labels.items() if label not in common)
            assert (sample.name, own) not in found
            found[sample.name.removeprefix("medsanitize_"), own] = sample.value
    return found


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


@pytest.fixture
def small(tmp_path: Path) -> Policy:
    """A project of three objects that can all be released."""
    for number in range(3):
        write_ct(tmp_path / "export" / f"i{number}.dcm", number)
    return prepare(tmp_path)


def test_the_report_of_a_published_run_has_counts_stages_and_gates(workplace: Workplace) -> None:
    policy = workplace()
    result = run(policy, ONE)
    facts = told(policy)
    assert (facts["ending"], facts["exit_code"], facts["error"]) == ("published", 1, None)
    assert facts["outcomes"] == {**result.outcomes, "pending": 0}
    assert facts["quarantined"] == result.quarantined
    assert facts["bytes"]["released"] == sum(path.stat().st_size for path in policy.output.rglob("*.dcm"))
    assert [stage["name"] for stage in facts["stages"]] == [stage.name for stage in result.stages]
    assert {gate["name"] for gate in facts["gates"]} == {gate.name for gate in result.gates}
    assert facts["release"] == {"name": "chest-ct", "version": "1.0"}
    assert facts["digest"] == result.digest


def test_metrics_are_prometheus_text_and_match_the_run(workplace: Workplace) -> None:
    policy = workplace()
    result = run(policy, ONE)
    found = samples(policy)
    assert found["run_exit_code", ""] == 1
    assert found["run_ending", "published"] == 1
    assert found["run_start_timestamp_seconds", ""] <= found["run_end_timestamp_seconds", ""]
    for outcome, count in result.outcomes.items():
        assert found["objects", outcome] == count
    for rule, count in result.quarantined.items():
        assert found["quarantined_objects", rule] == count
    for stage in result.stages:
        assert found["stage_wall_seconds", stage.name] == stage.wall_seconds
        assert found["stage_cpu_seconds", stage.name] == stage.cpu_seconds
    for gate in result.gates:
        assert found["gate", f"{gate.name},{gate.result}"] == 1


def test_neither_file_contains_an_identifier_a_source_or_a_path(workplace: Workplace) -> None:
    policy = workplace()
    run(policy, ONE)
    for name in ("return.json", "metrics.prom"):
        text = (policy.state / name).read_text()
        for secret in (*CANARIES, "i0003", "README.txt", "cut.dcm", str(policy.output.parent)):
            assert secret not in text
        assert (policy.state / name).stat().st_mode & 0o777 == 0o600


def test_a_refused_release_is_reported(small: Policy) -> None:
    policy = prepare(
        small.output.parent, release='{name: a, version: "1", mode: pseudonymous, approve: required}'
    )
    result = run(policy, ONE)
    facts = told(policy)
    assert (facts["ending"], facts["exit_code"]) == ("awaiting_approval", 3)
    assert facts["digest"] == result.digest
    assert facts["may_be_repeated"] is False


def test_an_error_is_reported_by_class_and_message(small: Policy) -> None:
    run(small, ONE)
    (small.output.parent / "release.key").unlink()
    with pytest.raises(KeyMaterialError):
        run(small, ONE)
    facts = told(small)
    assert (facts["ending"], facts["exit_code"], facts["error"]["class"]) == ("failed", 2, "KeyMaterialError")
    assert facts["error"]["message"]
    assert samples(small)["run_exit_code", ""] == 2


def test_a_defect_is_reported_without_its_message(small: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError(f"cannot parse {CANARIES[0]}")

    monkeypatch.setattr(deduplicate, "judge_duplicates", broken)
    with pytest.raises(ValueError, match="cannot parse"):
        run(small, ONE)
    facts = told(small)
    assert (facts["ending"], facts["exit_code"], facts["error"]["class"]) == ("failed", 70, "ValueError")
    assert (facts["outcomes"]["released"], facts["bytes"]["released"] > 0) == (3, True)
    assert CANARIES[0] not in (small.state / "return.json").read_text()


def test_a_signal_is_reported_with_the_progress_of_the_run(
    small: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Cancellation()
    monkeypatch.setattr(audit, "audit_objects", lambda *_: setattr(stop, "number", 15))
    with pytest.raises(Cancelled):
        run(small, ONE, cancellation=stop)
    facts = told(small)
    assert (facts["ending"], facts["exit_code"], facts["may_be_repeated"]) == ("stopped", 143, True)
    assert facts["stages"][-1]["name"] == "audit"
    assert facts["outcomes"]["released"] == 3


def test_a_signal_during_evidence_writing_publishes_nothing_until_the_next_run(
    small: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, write_evidence = Cancellation(), evidence.write_evidence

    def signalled(*arguments: Any, **settings: Any) -> None:
        stop.number = 15
        write_evidence(*arguments, **settings)

    monkeypatch.setattr(evidence, "write_evidence", signalled)
    with pytest.raises(Cancelled):
        run(small, ONE, cancellation=stop)
    assert not (small.output / "RELEASE.json").exists()
    assert run(small, ONE).ending == "published"
    assert [stage["name"] for stage in told(small)["stages"]] == ["publish"]


def test_a_run_without_the_lock_keeps_the_report_of_the_other(small: Policy) -> None:
    run(small, ONE)
    before = (small.state / "return.json").read_bytes()
    with preflight.locked(workspace_of(small)), pytest.raises(FoldersInUse):
        run(small, ONE)
    assert (small.state / "return.json").read_bytes() == before


def test_a_killed_run_leaves_no_earlier_report(small: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    run(small, ONE)
    seen = []
    monkeypatch.setattr(
        running, "_check_before_reading", lambda *_: seen.append((small.state / "return.json").exists())
    )
    with pytest.raises(AttributeError):
        run(small, ONE)
    assert seen == [False]


# The disk is full from the given stage on: no file can be created or grow.
FULL = """
import errno, os, sys
from medsanitize import cli
from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.stages import deduplicate
full = False
def note(event, arguments):
    if event == "open" and full and isinstance(arguments[0], (str, bytes)):
        flags = arguments[2] or 0
        made = flags & os.O_CREAT and not os.path.exists(arguments[0])
        if made or flags & os.O_TRUNC:
            raise OSError(errno.ENOSPC, "No space left on device")
def fill(*_):
    global full
    full = True
    raise EnvironmentFailure("The disk is full", "Free some space")
deduplicate.judge_duplicates = fill
sys.addaudithook(note)
cli.main()
"""


def test_a_run_that_fills_the_disk_reports_it(small: Policy, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.json"
    command = ["run", small.output.parent / "policy.yaml", "--workers", 1, "--return-file", file]
    done = subprocess.run([sys.executable, "-c", FULL, *map(str, command)], capture_output=True)

    assert done.returncode == 5
    assert told(small)["error"] == {
        "class": "EnvironmentFailure",
        "message": "The disk is full. Free some space.",
    }
    assert json.loads(file.read_text()) == told(small)
    assert samples(small)["run_exit_code", ""] == 5


def test_the_space_reserved_for_the_report_is_freed(small: Policy, tmp_path: Path) -> None:
    command = ["run", small.output.parent / "policy.yaml", "--workers", 1]
    call(*command, "--return-file", tmp_path / "told" / "return.json")
    assert sorted(path.name for path in small.state.glob("*return*")) == ["return.json"]
    assert [path.name for path in (tmp_path / "told").iterdir()] == ["return.json"]


def test_every_shard_has_its_own_report(small: Policy) -> None:
    run(small, Options(workers=1, inventory_only=True))
    for number in (1, 2):
        run(small, Options(workers=1, shard=Shard(number, 2)))
    parts = [told(small, f"return.shard-{number}-of-2.json") for number in (1, 2)]
    assert [part["shard"] for part in parts] == ["1/2", "2/2"]
    assert sum(part["objects"] for part in parts) == 3
    assert samples(small, "metrics.shard-1-of-2.prom")["run_ending", "shard_done"] == 1
    assert told(small)["ending"] == "inventory_done"


def test_an_unreadable_policy_is_reported_in_the_return_file(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("version: 2\n")
    code = call("run", tmp_path / "policy.yaml", "--return-file", tmp_path / "return.json").exit_code
    facts = json.loads((tmp_path / "return.json").read_text())
    assert (code, facts["exit_code"], facts["error"]["class"]) == (2, 2, "PolicyError")
    assert facts["release"] is None


def test_the_return_file_equals_the_report_in_the_state_folder(small: Policy) -> None:
    file = small.output.parent / "elsewhere.json"
    call("run", small.output.parent / "policy.yaml", "--workers", 1, "--return-file", file)
    assert json.loads(file.read_text()) == told(small)


def test_a_killed_run_leaves_no_earlier_return_file(small: Policy, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.json"
    command = ["run", small.output.parent / "policy.yaml", "--workers", 1, "--return-file", file]
    call(*command, "--inventory-only")
    assert json.loads(file.read_text())["exit_code"] == 0

    killed = "import os; from medsanitize import cli; from medsanitize.pipeline import run as r;"
    killed += " r._check_before_reading = lambda *_: os._exit(137); cli.main()"
    done = subprocess.run([sys.executable, "-c", killed, *map(str, command)], capture_output=True)

    assert done.returncode == 137
    assert not file.exists()


@pytest.mark.parametrize("place", ["export", "release"])
def test_a_return_file_among_sources_or_released_files_is_rejected(small: Policy, place: str) -> None:
    base = small.output.parent
    before = sorted((base / "export").iterdir())
    result = call("run", base / "policy.yaml", "--return-file", base / place / "return.json")
    assert result.exit_code == 2
    assert sorted((base / "export").iterdir()) == before
    assert not (base / "release").exists()


def test_runs_with_different_states_cannot_share_an_output(small: Policy) -> None:
    other = prepare(small.output.parent, state="./other")
    other.state.mkdir()
    small.output.mkdir()
    with preflight.locked(workspace_of(other)), pytest.raises(FoldersInUse):
        run(small, ONE)
    assert not (small.output / ".staging").exists()


def test_a_file_system_without_locks_does_not_stop_a_run(
    small: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(preflight.fcntl, "flock", without)
    assert run(small, ONE).ending == "published"
