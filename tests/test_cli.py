"""The commands: output, files and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from medsanitize.cli import COMMANDS, cli
from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.pipeline.runtime.result import Exit, exit_code
from medsanitize.progress import Cancelled

from tests.helpers.hospital import CANARIES, make_export, prepare


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def subcommands(group: click.Group) -> list[tuple[str, click.Command]]:
    context = click.Context(group)
    named = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [(name, command) for name, command in named if command is not None]


def leaves(group: click.Group, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, command in subcommands(group):
        found += leaves(command, (*above, name)) if isinstance(command, click.Group) else [(*above, name)]
    return found


def test_the_help_lists_each_command_by_its_first_sentence() -> None:
    found = {name: command.get_short_help_str(1000) for name, command in subcommands(cli)}
    listed = {name: click.Command(name, help=text) for name, (_, text) in COMMANDS.items()}
    assert found == {name: command.get_short_help_str(1000) for name, command in listed.items()}


def test_help_imports_no_command_module() -> None:
    program = (
        "import sys\nsys.argv = ['medsanitize', '--help']\nfrom medsanitize.cli import cli\n"
        "cli(standalone_mode=False)\n"
        "sys.exit(any(name.startswith('medsanitize.commands') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A project whose policy was run once, and the output of the run."""
    base = tmp_path_factory.mktemp("project")
    make_export(base / "export")
    prepare(base)
    return base, call("run", base / "policy.yaml", "--workers", 1, "--json", "--log-json")


@pytest.mark.parametrize("command", leaves(cli), ids=" ".join)
def test_every_command_has_help_with_an_example_and_both_json_options(command: tuple[str, ...]) -> None:
    text = call(*command, "--help").output
    assert f"medsanitize {' '.join(command)}" in text.split("Example:")[1]
    assert "--json" in text
    assert "--log-json" in text


def test_help_is_fast_and_imports_nothing_heavy() -> None:
    program = (
        "import sys\nsys.argv = ['medsanitize', '--help']\nfrom medsanitize.cli import cli\n"
        "cli(standalone_mode=False)\n"
        "heavy = {'pydantic', 'pyarrow', 'numpy', 'pydicom', 'cryptography', 'rich'} & set(sys.modules)\n"
        "sys.exit(bool(heavy))"
    )
    before = os.times()
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0
    after = os.times()
    assert sum(after[2:4]) - sum(before[2:4]) < 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (UsageError("x"), 2),
        (IntegrityError("x"), 4),
        (EnvironmentFailure("x"), 5),
        (ValueError("x"), 70),
        (KeyboardInterrupt(), 130),
        (Cancelled(15), 143),
    ],
)
def test_exit_codes_match_the_error(error: BaseException | None, code: int) -> None:
    assert exit_code(error) == code


def test_exit_codes_match_the_ending() -> None:
    assert exit_code(refused=True, quarantined=5) == Exit.GATE_REFUSED
    assert exit_code(quarantined=5) == Exit.SOME_QUARANTINED


def test_run_prints_one_json_object_with_outcomes_rules_and_timings(done: tuple[Path, Result]) -> None:
    facts = json.loads(done[1].stdout)
    assert (facts["ending"], facts["exit_code"], done[1].exit_code) == ("published", 1, 1)
    assert set(facts["outcomes"]) == {"released", "dropped", "quarantined"}
    assert {"inventory", "sanitize", "audit", "publish"} <= {stage["name"] for stage in facts["stages"]}
    assert all(stage["cpu_seconds"] >= 0 <= stage["wall_seconds"] for stage in facts["stages"])


def test_log_json_writes_one_object_per_line_to_stderr(done: tuple[Path, Result]) -> None:
    lines = [json.loads(line) for line in done[1].stderr.splitlines()]
    assert {line["event"] for line in lines} == {
        "stage-started",
        "stage-progress",
        "stage-finished",
        "gate",
        "ending",
    }


def test_output_contains_no_identifier_and_no_source_name(done: tuple[Path, Result]) -> None:
    base, result = done
    printed = result.output + result.stderr + (base / "state" / "report.html").read_text()
    for secret in (*CANARIES, "i0003", "README.txt", "cut.dcm"):
        assert secret not in printed


def test_verify_reports_intact_and_then_the_changed_file(done: tuple[Path, Result], tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "release"
    shutil.copytree(done[0] / "release", copy)
    before = call("verify", copy)
    (copy / "report.html").write_bytes(b"x")
    after = call("verify", copy, "--json")
    assert (before.exit_code, before.output) == (0, "intact, unsigned\n")
    assert after.exit_code == 4
    assert {"file": "report.html", "fault": "changed"} in json.loads(after.stdout)["problems"]


def test_audit_with_the_policy_searches_for_its_identifiers(done: tuple[Path, Result]) -> None:
    base, _ = done
    result = call("audit", base / "release", "--policy", base / "policy.yaml", "--json")
    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["identifiers"], facts["findings"]) == (0, "passed", [])


def test_ledger_writes_the_link_readable_by_its_owner_only(done: tuple[Path, Result], tmp_path: Path) -> None:
    uids, patients = tmp_path / "uids.csv", tmp_path / "patients.csv"
    call("ledger", done[0] / "policy.yaml", "--uids", uids, "--patients", patients)
    rows = [line.split(",") for line in patients.read_text().splitlines()]
    folders = {path.name for path in (done[0] / "release" / "data").iterdir()}
    assert rows[0] == ["id_old", "id_new"]
    assert {row[0] for row in rows[1:]} >= {f"{CANARIES[1]}{number}" for number in range(3)}
    assert {row[1] for row in rows[1:]} <= folders
    assert uids.stat().st_mode & 0o777 == patients.stat().st_mode & 0o777 == 0o600
    assert len(uids.read_text().splitlines()) > 20


def test_ledger_overwrites_nothing(done: tuple[Path, Result], tmp_path: Path) -> None:
    (tmp_path / "uids.csv").write_text("mine")
    result = call("ledger", done[0] / "policy.yaml", "--uids", tmp_path / "uids.csv")
    assert (result.exit_code, (tmp_path / "uids.csv").read_text()) == (2, "mine")


def test_identities_counts_pairs_and_writes_them_for_their_holder_only(
    done: tuple[Path, Result], tmp_path: Path
) -> None:
    suspects = tmp_path / "suspects.csv"

    result = call("identities", done[0] / "policy.yaml", "--suspects", suspects, "--json")

    facts = json.loads(result.stdout)
    rows = suspects.read_text().splitlines()
    assert result.exit_code == 0
    assert facts["undecided"] == len(rows) - 1
    assert suspects.stat().st_mode & 0o777 == 0o600
    assert not [canary for canary in CANARIES if canary in result.output]


def test_an_anonymous_release_has_no_decisions_on_identities(tmp_path: Path) -> None:
    prepare(tmp_path, release='{name: chest-ct, version: "1.0", mode: anonymous}')

    result = call("identities", tmp_path / "policy.yaml")

    assert result.exit_code == 2
    assert "table" in result.stderr


def test_an_anonymous_release_has_no_ledger(tmp_path: Path) -> None:
    prepare(tmp_path, release='{name: a, version: "1", mode: anonymous}')
    result = call("ledger", tmp_path / "policy.yaml", "--uids", tmp_path / "u.csv")
    assert result.exit_code == 2
    assert "no ledger" in result.stderr


def test_plan_writes_nothing_and_counts_actions_and_rules(tmp_path: Path) -> None:
    make_export(tmp_path / "export")
    prepare(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    result = call("plan", tmp_path / "policy.yaml", "--workers", 1, "--json")
    facts = json.loads(result.stdout)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert facts["ending"] == "planned"
    assert facts["actions"]["removed"] > 0
    assert facts["settings"]["deduplicate"]["pixels"] == "flag"
    assert {gate["result"] for gate in facts["gates"]} >= {"passed", "not_run"}


def test_plan_and_run_agree(done: tuple[Path, Result], tmp_path: Path) -> None:
    make_export(tmp_path / "export")
    prepare(tmp_path)
    planned = json.loads(call("plan", tmp_path / "policy.yaml", "--workers", 1, "--json").stdout)
    ran = json.loads(done[1].stdout)
    for name in ("outcomes", "dropped", "quarantined", "actions", "rules"):
        assert planned[name] == ran[name]


def test_init_keygen_validate_and_schema_work_together(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    assert call("init", policy, "--name", "chest-ct").exit_code == 0
    assert call("init", policy).exit_code == 2
    assert call("keygen", tmp_path / "release.key").exit_code == 0
    assert call("keygen", tmp_path / "signing.key", "--signing").exit_code == 0
    assert (tmp_path / "release.key").stat().st_mode & 0o777 == 0o600
    assert json.loads(call("validate", policy, "--json").stdout)["valid"] is True
    assert json.loads(call("schema").stdout)["type"] == "object"


def test_policy_errors_are_reported_together_with_line_and_column(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "policy.yaml").write_text("version: 2\npreset: none\nsurprise: 1\n")
    result = call("validate", tmp_path / "policy.yaml", "--json")
    problems = json.loads(result.stdout)["problems"]
    assert result.exit_code == 2
    assert {problem["line"] for problem in problems} >= {1, 2, 3}


def test_an_error_is_a_message_and_a_json_object(tmp_path: Path) -> None:
    result = call("run", tmp_path / "nothing.yaml", "--json")
    assert json.loads(result.stdout)["exit_code"] == result.exit_code == 2
    assert result.stderr.startswith("medsanitize: ")


def test_a_defect_shows_its_code_location_but_not_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medsanitize.policies import load

    def broken(_: Path) -> Any:
        raise ValueError(f"cannot parse {CANARIES[0]}")

    monkeypatch.setattr(load, "load", broken)
    result = call("run", tmp_path / "policy.yaml")
    assert result.exit_code == 70
    assert "ValueError in" in result.stderr
    assert CANARIES[0] not in result.output + result.stderr
    assert "Traceback" not in result.stderr


def test_registry_commands_add_list_and_remove(done: tuple[Path, Result], tmp_path: Path) -> None:
    folder = ("--registry", tmp_path / "registry")
    assert call("registry", "add", done[0] / "release", *folder).exit_code == 0
    assert call("registry", "list", *folder).output.startswith("chest-ct 1.0")
    assert (
        json.loads(call("registry", "remove", "chest-ct", "1.0", *folder, "--json").stdout)["affected"] == []
    )
    assert call("registry", "remove", "chest-ct", "1.0", *folder).exit_code == 2


def test_the_demo_runs_and_no_planted_identifier_survives(tmp_path: Path) -> None:
    result = call("demo", tmp_path / "demo", "--workers", 1, "--json")
    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["ending"], facts["surviving"]) == (0, "published", 0)
    assert facts["planted"] > 50
    key = tmp_path / "demo" / "signing.key.pub"
    assert call("verify", tmp_path / "demo" / "release", "--key", key).exit_code == 0


def test_the_demo_ends_with_a_summary(tmp_path: Path) -> None:
    text = call("demo", tmp_path / "demo", "--workers", 1).output
    assert "identifiers were planted; 0 survive" in text.replace("\n", " ")
    assert "report.html" in text


def test_bad_options_are_usage_errors(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert call("run", tmp_path / "policy.yaml", "--shard", "3/2").exit_code == 2
    assert call("run", tmp_path / "policy.yaml", "--inventory-only", "--shard", "1/2").exit_code == 2
    assert call("run", tmp_path / "policy.yaml", "--nonsense").exit_code == 2


def test_review_creates_a_page_and_applies_decisions(tmp_path: Path) -> None:
    make_export(tmp_path / "export", 3)
    prepare(tmp_path, release='{name: a, version: "1", mode: pseudonymous, approve: required}')
    policy = tmp_path / "policy.yaml"
    assert call("run", policy, "--workers", 1, "--json").exit_code == 3
    told = call("review", policy)
    made = json.loads(call("review", policy, "--json").stdout)
    page = Path(made["pages"][0])
    assert (told.exit_code, made["exit_code"], made["ending"]) == (0, 0, "awaiting_approval")
    assert str(page) in told.output.replace("\n", "")
    assert page.parent == tmp_path / "state"
    assert made["sampled"] > 3
    decisions = {
        "version": 1,
        "page": page.read_text().partition('data-page="')[2].partition('"')[0],
        "approve": made["digest"],
        "decisions": {},
    }
    (tmp_path / "decisions.json").write_text(json.dumps(decisions))
    taken = call("review", policy, "--decisions", tmp_path / "decisions.json", "--json")
    facts = json.loads(taken.stdout)
    assert (taken.exit_code, facts["approved"], facts["objects"]) == (0, True, 0)
    assert json.loads(call("run", policy, "--workers", 1, "--json").stdout)["ending"] == "published"


def test_review_reports_errors_without_values(tmp_path: Path) -> None:
    make_export(tmp_path / "export", 3)
    prepare(tmp_path)
    policy = tmp_path / "policy.yaml"
    early = call("review", policy)
    call("run", policy, "--workers", 1)
    (tmp_path / "decisions.json").write_text(f'{{"{CANARIES[0]}": 1}}')
    wrong = call("review", policy, "--decisions", tmp_path / "decisions.json")
    looked = call("review", policy)
    printed = "".join(result.output + result.stderr for result in (early, wrong, looked))
    assert [early.exit_code, wrong.exit_code, looked.exit_code] == [2, 2, 0]
    assert not [secret for secret in (*CANARIES, "i0001", "cut.dcm") if secret in printed]
