"""The output of doctor for a machine and a policy, and the absence of PHI in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from medsanitize.cli import cli
from medsanitize.pipeline.jobs import doctor

from tests.helpers.hospital import prepare

HOST, BUCKET = "pacs.st-elsewhere.example", "st-elsewhere-export"
INPUTS = f"[s3://{BUCKET}/a, {{dimse: 'PACS@{HOST}:104', query: {{StudyDate: '20240101'}}}}]"


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., Result]:
    """Run the command on a policy with these sections, or without a policy."""

    def run(*more: str, **sections: str) -> Result:
        words = ["doctor", *more]
        if sections:
            prepare(tmp_path, **sections)
            words.append(str(tmp_path / "policy.yaml"))
        return CliRunner().invoke(cli, words)

    return run


def test_a_machine_without_a_problem_gives_exit_code_0(call: Callable[..., Result]) -> None:
    result = call("--json")
    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["problems"], all(facts["switches"].values())) == (0, [], True)


def test_connections_are_shown_by_policy_key_and_kind(call: Callable[..., Result]) -> None:
    facts = json.loads(call("--json", inputs=INPUTS).stdout)
    assert [one["key"] for one in facts["connections"]] == ["inputs[0]", "inputs[1]"]
    assert [one["service"].split(",")[0].split(":")[0] for one in facts["connections"]] == [
        "S3",
        "a DICOM peer",
    ]


@pytest.mark.parametrize("form", ["--json", "--log-json"])
def test_the_output_identifies_no_person_hospital_or_machine(
    call: Callable[..., Result], tmp_path: Path, form: str
) -> None:
    shown = call(form, inputs=INPUTS).output
    words = (HOST, BUCKET, str(tmp_path), str(Path.home()), Path.home().name + "@", doctor.platform.node())
    assert [word for word in words if word in shown] == []


def test_a_missing_required_extra_is_a_problem(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(doctor.MODULES, "pixels", ("no_such_module",))
    result = call("--json", inputs="[./export]", preset="research")
    facts = json.loads(result.stdout)
    assert (result.exit_code, "medsanitize[pixels]" in facts["problems"][0]) == (5, True)


def test_a_state_folder_that_cannot_be_locked_is_a_problem(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").mkdir()
    monkeypatch.setattr(doctor, "_locks", lambda _: False)
    result = call("--json", inputs="[./export]")
    assert (result.exit_code, "no locks" in json.loads(result.stdout)["problems"][0]) == (5, True)


def test_a_queue_of_usage_reports_is_reported_and_not_removed(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = tmp_path / ".cache" / "Microsoft" / "DeveloperTools" / ".onnxruntime"
    queue.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = json.loads(call("--json").stdout)["leftovers"]
    assert ("rm -r ~/.cache" in found[0]["remedy"], queue.exists()) == (True, True)
