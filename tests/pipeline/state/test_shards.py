"""A shard requires the inputs of the inventory, and is merged only into that inventory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.engines import shared_storage
from medsanitize.pipeline.engines.shared_storage import PROBE_PREFIX
from medsanitize.pipeline.resume import open_shared, release_keys
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.sequence import stages_of
from medsanitize.pipeline.state.shards import Shard, part_of, shard_files, sources_of
from medsanitize.pipeline.storage import local
from medsanitize.policies.model import Policy

from tests.helpers.hospital import prepare, write_ct

ONE = Options(workers=1)
INVENTORY = Options(workers=1, inventory_only=True)


def shard(number: int, count: int = 2) -> Options:
    return Options(workers=1, shard=Shard(number, count))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_storage, "_PROBE_SECONDS", 0.2)


@pytest.fixture
def project(tmp_path: Path) -> Policy:
    """Six objects of three patients, inventoried."""
    for number in range(6):
        write_ct(tmp_path / "export" / f"i{number}.dcm", number, f"P{number % 3}", number % 3)
    policy = prepare(tmp_path)
    assert run(policy, INVENTORY).ending == "inventory_done"
    return policy


def staged(policy: Policy) -> list[Path]:
    return list(policy.output.rglob("*.dcm"))


def test_a_node_without_the_mounted_input_does_not_finish_the_shard(project: Policy) -> None:
    export, hidden = project.output.parent / "export", project.output.parent / "hidden"
    export.rename(hidden)
    export.mkdir()

    with pytest.raises(EnvironmentFailure, match="sees other inputs") as failure:
        run(project, shard(1))
    export.rmdir()
    hidden.rename(export)

    assert failure.value.exit_code == 5
    assert not shard_files(workspace_of(project).database)
    assert run(project, ONE).outcomes == {"released": 6, "dropped": 0, "quarantined": 0}


def test_a_node_with_other_inode_numbers_does_not_finish_the_shard(
    project: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = local._inode
    monkeypatch.setattr(local, "_inode", lambda path: (real(path) or 0) + 1)

    with pytest.raises(EnvironmentFailure, match="with the same inodes"):
        run(project, shard(1))


def test_a_node_without_the_mounted_output_does_not_finish_the_shard(project: Policy) -> None:
    hidden = project.output.with_name("hidden")
    project.output.rename(hidden)

    with pytest.raises(EnvironmentFailure, match="writes to another output folder"):
        run(project, shard(1))
    left = list(project.output.iterdir())
    project.output.rmdir()
    hidden.rename(project.output)

    assert not left
    assert run(project, ONE).outcomes["released"] == 6


def test_an_output_that_disappears_stops_the_shard(project: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    from medsanitize.pipeline.stages import sanitize

    real, hidden = sanitize.sanitize_batch, project.output.with_name("hidden")

    def unmounted(*arguments: object) -> object:
        if project.output.exists():
            project.output.rename(hidden)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sanitize, "sanitize_batch", unmounted)
    with pytest.raises(EnvironmentFailure, match="no longer exists"):
        run(project, shard(1, 1))

    assert not project.output.exists()


def test_shards_can_start_after_others_end_and_do_nothing_during_a_full_run(
    project: Policy,
) -> None:
    for number in (1, 1, 2):
        assert run(project, shard(number)).ending == "shard_done"
    assert len(list(project.output.glob(f".staging/{PROBE_PREFIX}*"))) == 1

    assert run(project, ONE).ending == "published"
    assert not list(project.output.rglob(".*"))


def test_shards_after_a_run_awaiting_approval_require_a_new_inventory(tmp_path: Path) -> None:
    write_ct(tmp_path / "export" / "i.dcm", 1)
    policy = prepare(
        tmp_path, release='{name: chest-ct, version: "1.0", mode: pseudonymous, approve: required}'
    )
    run(policy, INVENTORY)
    assert run(policy, ONE).ending == "awaiting_approval"

    with pytest.raises(UsageError, match="build the inventory again"):
        run(policy, shard(1))
    run(policy, INVENTORY)

    assert run(policy, shard(1)).ending == "shard_done"
    assert run(policy, ONE).ending == "awaiting_approval"


def test_shards_of_an_abandoned_inventory_are_not_merged_into_the_next(project: Policy) -> None:
    run(project, shard(1, 1))
    workspace_of(project).database.unlink()
    shutil.rmtree(project.output / ".staging")

    done = run(project, ONE)

    assert (done.ending, done.outcomes["released"]) == ("published", 6)
    assert not shard_files(workspace_of(project).database)


def leave_shard_of_a_given_up_inventory(project: Policy, kept: Path) -> None:
    """Take the inventory again while a shard of the previous one is running, which then ends."""
    run(project, shard(1, 1))
    late = shard_files(workspace_of(project).database)
    for one in late:
        shutil.copy(one, kept / one.name)
    workspace_of(project).database.unlink()
    shutil.rmtree(project.output / ".staging")
    run(project, INVENTORY)
    for one in late:
        shutil.copy(kept / one.name, one)


def test_a_shard_that_ends_after_its_inventory_was_abandoned_is_not_merged(
    project: Policy, tmp_path: Path
) -> None:
    leave_shard_of_a_given_up_inventory(project, tmp_path)

    done = run(project, ONE)

    assert (done.ending, done.outcomes["released"]) == ("published", 6)


def test_a_shard_of_another_inventory_starts_from_scratch(project: Policy, tmp_path: Path) -> None:
    leave_shard_of_a_given_up_inventory(project, tmp_path)

    assert run(project, shard(1, 1)).outcomes["released"] == 6
    assert len(staged(project)) == 6


def test_a_shard_spills_only_into_the_state_folder(project: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SQLITE_TMPDIR", raising=False)

    run(project, shard(1))

    assert os.environ["SQLITE_TMPDIR"] == str(project.state)


# -- a shard's share ----------------------------------------------------------------------


def test_every_object_is_only_in_the_shard_of_its_patient(project: Policy) -> None:
    main = open_shared(project, stages_of(project), release_keys(project))
    rows = main.db.execute("SELECT source, patient FROM objects").fetchall()
    shares = {number: sorted(sources_of(main, Shard(number, 3))) for number in (1, 2, 3)}
    main.close()

    assert shares == {
        number: sorted(source for source, patient in rows if part_of(patient, 3) == number)
        for number in (1, 2, 3)
    }


def test_a_shard_is_selected_without_reading_every_object(project: Policy) -> None:
    main = open_shared(project, stages_of(project), release_keys(project))
    asked: list[str] = []
    main.db.set_trace_callback(asked.append)
    list(sources_of(main, Shard(1, 3)))
    steps = [row[3] for row in main.db.execute(f"EXPLAIN QUERY PLAN {asked[0]}")]
    main.close()

    assert [step.split(" USING")[0] for step in steps] == ["SCAN theirs", "SEARCH main.objects"]
