"""A failing or damaged state: what is retryable, what must be removed, and what is a defect."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import EnvironmentFailure, IntegrityError
from medsanitize.pipeline.jobs import export_ledger
from medsanitize.pipeline.review import pages as reviewing
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.stages import deduplicate
from medsanitize.pipeline.state.shards import Shard, shard_path
from medsanitize.policies.model import Policy

from tests.helpers.hospital import prepare, write_ct

ONE = Options(workers=1)
INVENTORY = Options(workers=1, inventory_only=True)


@pytest.fixture
def project(tmp_path: Path) -> Policy:
    """Twenty objects, inventoried."""
    for number in range(20):
        write_ct(tmp_path / "export" / f"i{number}", number)
    policy = prepare(tmp_path)
    run(policy, INVENTORY)
    return policy


def told(policy: Policy) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((policy.state / "return.json").read_text())
    return facts


def spoil(path: Path, start: int) -> None:
    """Overwrite a file from ``start`` on without changing its size."""
    content = path.read_bytes()
    path.write_bytes(content[:start] + b"\x55" * (len(content) - start))


def fail_with(monkeypatch: pytest.MonkeyPatch, error: type[sqlite3.Error], name: str) -> None:
    """Let a read of the state fail in the middle of a run, with an SQLite error."""
    failure = error("told by SQLite")
    failure.sqlite_errorname = name

    def failing(*_: object) -> None:
        raise failure

    monkeypatch.setattr(deduplicate, "judge_duplicates", failing)


def opened(folder: Path) -> list[str]:
    """Files in a folder that this process has open."""
    links = (os.path.realpath(link) for link in Path("/proc/self/fd").iterdir())
    return [link for link in links if link.startswith(f"{folder.resolve()}/")]


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which files are open")
@pytest.mark.parametrize("start", [0, 4096], ids=["whole", "pages"])
def test_an_unreadable_state_is_closed(project: Policy, start: int) -> None:
    spoil(workspace_of(project).database, start)

    with pytest.raises(IntegrityError) as failure:
        run(project, ONE)

    assert failure.tb is not None  # the traceback keeps the frames alive
    assert opened(project.state) == []


@pytest.mark.parametrize("start", [0, 4096], ids=["whole", "pages"])
def test_a_damaged_state_is_reported_and_not_retryable(project: Policy, start: int) -> None:
    spoil(workspace_of(project).database, start)

    with pytest.raises(IntegrityError, match="state is damaged") as failure:
        run(project, ONE)

    assert failure.value.exit_code == 4
    assert told(project)["may_be_repeated"] is False


def test_removing_the_damaged_state_file_is_sufficient(project: Policy) -> None:
    spoil(workspace_of(project).database, 0)
    with pytest.raises(IntegrityError, match="state file alone"):
        run(project, ONE)
    other = project.state / "other-1.0.sqlite"
    other.write_bytes(b"the ledger of another release")

    for suffix in ("", "-wal", "-shm"):
        workspace_of(project).database.with_name(workspace_of(project).database.name + suffix).unlink(
            missing_ok=True
        )
    shutil.rmtree(project.output / ".staging")

    assert run(project, ONE).outcomes["released"] == 20
    assert other.exists()


def test_removing_the_damaged_shard_file_is_sufficient(project: Policy) -> None:
    part = Options(workers=1, shard=Shard(1, 1))
    run(project, part)
    path = shard_path(workspace_of(project).database, Shard(1, 1))
    spoil(path, 0)
    with pytest.raises(IntegrityError, match="state file alone"):
        run(project, part)

    path.unlink()

    assert run(project, part).outcomes["released"] == 20


@pytest.mark.parametrize("name", ["SQLITE_FULL", "SQLITE_IOERR_READ", "SQLITE_BUSY", "SQLITE_CANTOPEN"])
def test_a_disk_error_while_reading_the_state_is_retryable(
    project: Policy, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fail_with(monkeypatch, sqlite3.OperationalError, name)
    with pytest.raises(EnvironmentFailure, match=name):
        run(project, ONE)
    assert told(project)["may_be_repeated"] is True


@pytest.mark.parametrize("name", ["SQLITE_CORRUPT", "SQLITE_CORRUPT_INDEX", "SQLITE_NOTADB"])
def test_a_damaged_state_is_not_retryable(
    project: Policy, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fail_with(monkeypatch, sqlite3.DatabaseError, name)
    with pytest.raises(IntegrityError, match=name):
        run(project, ONE)


@pytest.mark.parametrize("statement", ["SELECT nothing FROM nowhere", "INSERT INTO meta SELECT * FROM meta"])
def test_an_invalid_sql_statement_is_a_defect(
    project: Policy, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr(deduplicate, "judge_duplicates", lambda state, *_: state.write(statement, [()]))
    with pytest.raises(sqlite3.Error):
        run(project, ONE)
    assert told(project)["exit_code"] == 70


# -- commands that only look at the state -------------------------------------------------

LOOKING = {
    "review": ("meta", ["review", "policy.yaml"]),
    "decisions": ("meta", ["review", "policy.yaml", "--decisions", "decisions.json"]),
    "ledger": ("links", ["ledger", "policy.yaml", "--patients", "patients.csv"]),
    "audit": ("known_identifiers", ["audit", "release", "--policy", "policy.yaml"]),
}


def spoil_table(path: Path, table: str) -> None:
    """Overwrite the first page of a table: the file opens, but reading the table fails."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        (size,) = db.execute("PRAGMA page_size").fetchone()
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    content = bytearray(path.read_bytes())
    content[(page - 1) * size : page * size] = b"\x55" * size
    path.write_bytes(content)


@pytest.mark.parametrize(("table", "command"), LOOKING.values(), ids=LOOKING)
def test_a_command_on_a_damaged_state_reports_the_damage(
    project: Policy, monkeypatch: pytest.MonkeyPatch, table: str, command: list[str]
) -> None:
    spoil_table(workspace_of(project).database, table)
    monkeypatch.chdir(project.output.parent)
    facts = {"version": 1, "page": "0" * 32, "approve": None, "decisions": {}}
    Path("decisions.json").write_text(json.dumps(facts))

    done = CliRunner().invoke(cli, command)

    assert (done.exit_code, "state is damaged" in done.stderr) == (4, True)


@pytest.mark.parametrize("command", [["review"], ["ledger", "--uids", "uids.csv"]], ids=["review", "ledger"])
def test_a_command_with_a_disk_error_in_the_state_is_retryable(
    project: Policy, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    failure = sqlite3.OperationalError("told by SQLite")
    failure.sqlite_errorname = "SQLITE_IOERR_READ"

    def failing(*_: object) -> None:
        raise failure

    monkeypatch.setattr(reviewing, "difference", failing)
    monkeypatch.setattr(export_ledger, "write_private_csv", failing)

    done = CliRunner().invoke(cli, [command[0], str(project.output.parent / "policy.yaml"), *command[1:]])

    assert (done.exit_code, "run the same command again" in done.stderr) == (5, True)
