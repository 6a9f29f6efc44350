"""An input lost during a run: nothing is published, and the next run has all objects."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline import run as running
from medsanitize.pipeline.engines import base
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.stages import inventory as stage
from medsanitize.pipeline.stages import sanitize
from medsanitize.pipeline.state.shards import Shard
from medsanitize.policies.model import Policy
from medsanitize.progress import NoProgress

from tests.helpers.hospital import prepare, write_ct

ONE = Options(workers=1)
ALL = {"released": 40, "dropped": 0, "quarantined": 0}


class Mount:
    """The export as a mount point: without the mount there is an empty folder, or none."""

    def __init__(self, export: Path) -> None:
        self.export = export
        self.hidden = export.with_name("hidden")

    def lose(self, *, wholly: bool = False) -> None:
        if not self.hidden.exists():
            self.export.rename(self.hidden)
            if not wholly:
                self.export.mkdir()

    def fall_back(self) -> None:
        """Lose the mount, and show the folder below it."""
        self.lose()
        (self.export / "below").touch()

    def bring_back(self) -> None:
        if self.export.exists():
            (self.export / "below").unlink(missing_ok=True)
            self.export.rmdir()
        self.hidden.rename(self.export)


class Losing(NoProgress):
    """Loses a mount once a stage has reported its first objects."""

    def __init__(self, mount: Mount, stage: str, *, wholly: bool = False) -> None:
        self._mount, self._wanted, self._wholly = mount, stage, wholly
        self._stage = ""

    def stage(self, name: str, total: int | None) -> None:  # noqa: ARG002
        self._stage = name

    def advance(self, objects: int) -> None:
        if self._stage == self._wanted and objects:
            self._mount.lose(wholly=self._wholly)


@pytest.fixture
def project(tmp_path: Path) -> Policy:
    """Forty objects of five patients, each in its own folder."""
    for number in range(40):
        write_ct(tmp_path / "export" / f"p{number % 5}" / f"i{number}", number, f"P{number % 5}", number % 5)
    return prepare(tmp_path)


@pytest.fixture
def mount(project: Policy) -> Mount:
    return Mount(project.output.parent / "export")


@pytest.mark.parametrize("wholly", [False, True], ids=["empty", "gone"])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_input_lost_during_sanitizing_ends_the_run_and_a_rerun_is_complete(
    project: Policy, mount: Mount, workers: int, wholly: bool
) -> None:
    options = Options(workers=workers)
    with pytest.raises(EnvironmentFailure, match="input") as failure:
        run(project, options, progress=Losing(mount, "sanitize", wholly=wholly))
    left = (project.output / "RELEASE.json").exists()
    mount.bring_back()

    assert (failure.value.exit_code, left) == (5, False)
    assert run(project, options).outcomes == ALL


def test_an_input_lost_during_a_shard_ends_it(project: Policy, mount: Mount) -> None:
    run(project, Options(workers=1, inventory_only=True))
    with pytest.raises(EnvironmentFailure, match="input"):
        run(project, Options(workers=1, shard=Shard(1, 1)), progress=Losing(mount, "sanitize"))
    mount.bring_back()

    assert run(project, Options(workers=1, shard=Shard(1, 1))).outcomes["released"] == 40


def test_an_input_lost_before_workers_are_replaced_is_detected_by_the_new_ones(
    project: Policy, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers started later compare the inputs with those at the start of the run."""
    real = base.LocalEngine.map

    def late(self: Any, task: Any, batches: Any, **_: Any) -> Any:
        if task is sanitize.sanitize_batch:
            mount.lose()
        return real(self, task, batches, isolate=True)

    monkeypatch.setattr(base.LocalEngine, "map", late)
    with pytest.raises(EnvironmentFailure, match="input"):
        run(project, ONE)


@pytest.mark.parametrize("wholly", [False, True], ids=["empty", "gone"])
def test_an_input_lost_during_listing_ends_the_run_and_a_rerun_is_complete(
    project: Policy, mount: Mount, monkeypatch: pytest.MonkeyPatch, wholly: bool
) -> None:
    real, listed = os.listdir, 0

    def unmounted(path: Any) -> Any:
        nonlocal listed
        listed += 1
        if listed == 3:
            mount.lose(wholly=wholly)
        return real(path)

    monkeypatch.setattr(os, "listdir", unmounted)
    with pytest.raises(EnvironmentFailure, match="input"):
        run(project, ONE)
    monkeypatch.undo()
    mount.bring_back()

    assert run(project, ONE).outcomes == ALL


def test_a_still_missing_input_preserves_finished_work(project: Policy, mount: Mount) -> None:
    with pytest.raises(EnvironmentFailure):
        run(project, ONE, progress=Losing(mount, "sanitize"))
    before = sorted(project.output.rglob("*.dcm"))

    with pytest.raises(EnvironmentFailure, match="empty"):
        run(project, ONE)

    assert before
    assert sorted(project.output.rglob("*.dcm")) == before


def test_an_empty_input_folder_gives_no_release(tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    policy = prepare(tmp_path)

    with pytest.raises(EnvironmentFailure, match="mounted"):
        run(policy, ONE)

    assert not (policy.output / "RELEASE.json").exists()


@pytest.mark.parametrize("number", [errno.ENOTCONN, errno.ESTALE, errno.EIO])
def test_an_input_unreachable_at_start_is_no_defect(
    project: Policy, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real, export = os.stat, str(project.inputs[0])

    def away(path: Any, *arguments: Any, **settings: Any) -> os.stat_result:
        if str(path) == export:
            raise OSError(number, os.strerror(number))
        return real(path, *arguments, **settings)

    monkeypatch.setattr(os, "stat", away)
    with pytest.raises(EnvironmentFailure, match="input"):
        run(project, ONE)


def test_objects_of_another_file_system_at_the_input_path_are_not_quarantined(
    project: Policy, mount: Mount
) -> None:
    """The same names with other inodes, as on a fallback replica of a server."""
    replica = mount.export.with_name("replica")
    for path in sorted(mount.export.rglob("i*")):
        copy = replica / path.relative_to(mount.export)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())

    class Replacing(Losing):
        def advance(self, objects: int) -> None:
            super().advance(objects)
            if replica.exists() and not any(mount.export.iterdir()):
                mount.export.rmdir()
                replica.rename(mount.export)

    with pytest.raises(EnvironmentFailure, match="input"):
        run(project, ONE, progress=Replacing(mount, "sanitize"))


# -- what the inputs are known by is taken once -------------------------------------------


def fall_back_before(monkeypatch: pytest.MonkeyPatch, mount: Mount, step: str) -> None:
    """Lose the mount right before a step of the run; the folder below it is not empty."""
    module = stage if step == "take_inventory" else running
    real = getattr(module, step)

    def late(*arguments: Any) -> Any:
        mount.fall_back()
        return real(*arguments)

    monkeypatch.setattr(module, step, late)


@pytest.mark.parametrize("step", ["open_state", "open_engine"])
def test_the_folder_below_a_lost_mount_is_not_used_as_input_on_resume(
    project: Policy, mount: Mount, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    run(project, Options(workers=1, inventory_only=True))
    inventory = (project.state / "chest-ct-1.0.sqlite").stat().st_ino
    with monkeypatch.context() as patched:
        fall_back_before(patched, mount, step)
        with pytest.raises(EnvironmentFailure, match="has changed since"):
            run(project, ONE)
    mount.bring_back()

    assert (project.state / "chest-ct-1.0.sqlite").stat().st_ino == inventory
    assert run(project, ONE).outcomes == ALL


def test_the_folder_below_a_mount_lost_before_the_inventory_is_not_listed(
    project: Policy, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    fall_back_before(monkeypatch, mount, "take_inventory")
    with pytest.raises(EnvironmentFailure, match="has changed since"):
        run(project, ONE)


def test_shards_require_the_inputs_of_the_inventory(
    project: Policy, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        fall_back_before(patched, mount, "publish_input_snapshot")
        run(project, Options(workers=1, inventory_only=True))
    mount.bring_back()

    assert run(project, Options(workers=1, shard=Shard(1, 1))).outcomes["released"] == 40


def test_workers_of_a_shard_require_the_inputs_of_the_inventory(
    project: Policy, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(project, Options(workers=1, inventory_only=True))
    fall_back_before(monkeypatch, mount, "open_engine")
    with pytest.raises(EnvironmentFailure, match="has changed since"):
        run(project, Options(workers=2, shard=Shard(1, 1)))


# -- an input that its owner empties when the release is out ------------------------------


def test_a_finished_release_is_reported_as_finished_after_its_input_was_emptied(
    project: Policy, mount: Mount
) -> None:
    run(project, ONE)
    mount.lose()

    again = run(project, ONE)

    assert (again.ending, again.exit_code, again.outcomes) == ("already_published", 0, ALL)


def test_an_emptied_input_does_not_hide_a_policy_change(project: Policy, mount: Mount) -> None:
    run(project, ONE)
    mount.lose()

    with pytest.raises(UsageError, match="policy or one of its lists has changed"):
        run(prepare(project.output.parent, deduplicate="{pixels: ignore}"), ONE)


def test_a_deleted_release_is_not_reported_as_finished(project: Policy, mount: Mount) -> None:
    run(project, ONE)
    (project.output / "RELEASE.json").unlink()
    mount.lose()

    with pytest.raises(EnvironmentFailure, match="empty"):
        run(project, ONE)
