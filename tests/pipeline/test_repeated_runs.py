"""Refused, interrupted and finished runs are repeated: nothing stale is published or left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pydicom
import pytest
from medsanitize.errors import EnvironmentFailure, IntegrityError
from medsanitize.pipeline import run as module
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.state.shards import Shard
from medsanitize.policies.model import Policy
from medsanitize.progress import NoProgress
from medsanitize.release.publish import fix_metadata
from medsanitize.release.registry import Registry
from medsanitize.release.verify import verify_release

from tests.helpers.hospital import real_file, tree, write_ct

ONE = Options(workers=1)
Workplace = Callable[..., Policy]


class Ear(NoProgress):
    """A progress that records its calls."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def message(self, text: str) -> None:
        self.heard.append(text)


@pytest.fixture
def interrupted(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Policy]:
    """A run that failed while publishing, after moving ``moved`` into place."""

    def make(name: str = "w", moved: tuple[str, ...] = ()) -> Policy:
        policy = workplace(name)

        def fail(staging: Path, output: Path, _: object) -> None:
            for top in sorted(staging.iterdir()):
                fix_metadata(top)
            for top in moved:
                (staging / top).rename(output / top)
            raise EnvironmentFailure("The disk is full", "Free some space")

        with monkeypatch.context() as patch, suppress(EnvironmentFailure):
            patch.setattr(module, "publish", fail)
            run(policy, ONE)
        return policy

    return make


def test_a_refused_run_leaves_no_output(workplace: Workplace) -> None:
    policy = workplace(deduplicate="{pixels: fail}")
    pixels = pydicom.dcmread(real_file("CT_small.dcm")).PixelData
    for number in range(2):
        write_ct(policy.inputs[0] / f"equal{number}", 500 + number, "EQUAL", 90, PixelData=pixels)
    endings = [run(policy, ONE).ending for _ in range(2)]
    assert (endings, list(policy.output.iterdir())) == (["refused"] * 2, [])


def test_a_refused_run_is_evaluated_again_on_a_rerun(workplace: Workplace) -> None:
    first = workplace(keys="{file: ./release.key, scope: project}")
    run(first, ONE)
    policy = workplace(
        release='{name: other, version: "1", mode: pseudonymous}',
        output="./release2",
        keys="{file: ./release.key, scope: project}",
        deduplicate="{registry: fail}",
    )
    refused = run(policy, ONE)
    Registry(policy.state / "registry").remove("chest-ct", "1.0")
    done = run(policy, ONE)
    assert (refused.ending, done.ending, done.outcomes) == ("refused", "published", refused.outcomes)


def test_a_refused_anonymous_run_leaves_no_output(workplace: Workplace) -> None:
    policy = workplace(
        release='{name: a, version: "1", mode: anonymous}', deduplicate="{bytes: fail, pixels: fail}"
    )
    assert (run(policy, ONE).ending, list(policy.output.iterdir())) == ("refused", [])


def test_an_unstarted_state_is_not_reported_as_a_changed_key(workplace: Workplace) -> None:
    policy, ear = workplace(), Ear()
    policy.state.mkdir(mode=0o700)
    workspace_of(policy).database.touch(mode=0o600)
    done = run(policy, ONE, progress=ear)
    assert (done.ending, ear.heard) == ("published", [])


def test_missing_staging_is_created_for_its_owner_only(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = workplace()
    run(policy, Options(workers=1, inventory_only=True))
    shutil.rmtree(policy.output / ".staging")
    modes = []
    close = module._close_objects

    def closed(one: module.Run) -> None:
        modes.append(one.context.staged.stat().st_mode & 0o777)
        close(one)

    monkeypatch.setattr(module, "_close_objects", closed)
    run(policy, ONE)
    assert modes == [0o700]


def test_a_shard_of_a_finished_release_reports_that_it_is_finished(workplace: Workplace) -> None:
    policy = workplace()
    run(policy, ONE)
    before = tree(policy.state)
    done = run(policy, Options(workers=1, shard=Shard(1, 2)))
    assert (done.ending, done.release) == ("already_published", policy.output)
    assert not {name for name in tree(policy.state) if name not in before and name.endswith(".sqlite")}


@pytest.mark.parametrize("moved", [(), ("data",), ("data", "manifest", "SHA256SUMS")])
def test_publishing_resumes(
    interrupted: Callable[..., Policy], workplace: Workplace, moved: tuple[str, ...]
) -> None:
    reference = workplace("reference")
    run(reference, ONE)
    policy = interrupted(moved=moved)
    assert run(policy, ONE).ending == "published"
    assert tree(policy.output) == tree(reference.output)


@pytest.mark.parametrize("moved", [(), ("data",)])
@pytest.mark.parametrize("change", ["data", "report.html", "SHA256SUMS", "added", "removed", "link"])
def test_a_file_changed_before_publishing_resumes_is_detected(
    interrupted: Callable[..., Policy], moved: tuple[str, ...], change: str
) -> None:
    policy = interrupted(moved=moved)
    staging = policy.output / ".staging"
    data = (policy.output if moved else staging) / "data"
    one = next(data.rglob("*.dcm"))
    if change == "added":
        (one.parent / "more.dcm").write_bytes(b"x")
    elif change == "removed":
        one.unlink()
    elif change == "link":
        one.rename(policy.output.parent / "elsewhere.dcm")
        one.symlink_to(policy.output.parent / "elsewhere.dcm")
    else:
        target = one if change == "data" else staging / change
        target.write_bytes(target.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(IntegrityError, match="changed between its audit and publication"):
        run(policy, ONE)
    assert not (policy.output / "RELEASE.json").exists()


@pytest.mark.parametrize("moved", [(), ("data",)])
def test_a_release_with_a_detected_change_is_built_again(
    interrupted: Callable[..., Policy], workplace: Workplace, moved: tuple[str, ...]
) -> None:
    reference = workplace("reference")
    run(reference, ONE)
    policy = interrupted(moved=moved)
    next(policy.output.rglob("*.dcm")).write_bytes(b"x")
    with suppress(IntegrityError):
        run(policy, ONE)
    shutil.rmtree(policy.output)
    assert run(policy, ONE).ending == "published"
    assert verify_release(policy.output, key=None).status == "intact"
    assert tree(policy.output) == tree(reference.output)
