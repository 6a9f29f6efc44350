"""Killed or out of space anywhere, with any number of workers or shards: the same bytes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from medsanitize.errors import EnvironmentFailure, KeyMaterialError, UsageError
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.state.shards import Shard
from medsanitize.policies.model import Policy

from tests.helpers.hospital import tree

Workplace = Callable[..., Policy]

# Counts operations on files and the state (audit events), and interferes with the n-th.
DRIVER = """
import os, sys
policy, point, deed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
root = os.path.dirname(os.path.abspath(policy))
count = 0
def note(event, arguments):
    global count
    if event == "open":
        flags = arguments[2] or 0
        if not isinstance(arguments[0], (str, bytes)) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if not os.path.abspath(os.fsdecode(arguments[0])).startswith(root):
            return
    elif event not in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.utime"):
        return
    count += 1
    if count == point:
        if deed == "kill":
            os.kill(os.getpid(), 9)
        raise OSError(28, "No space left on device")
from pathlib import Path
from medsanitize.errors import MedsanitizeError
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.load import load
loaded = load(Path(policy))
sys.addaudithook(note)
try:
    code = run(loaded, Options(workers=1)).exit_code
except MedsanitizeError as error:
    code = error.exit_code
print(count)
sys.exit(code)
"""


def drive(policy: Policy, point: int = 0, deed: str = "kill") -> tuple[int, int]:
    """Run in a separate process; return its exit code and the number of events."""
    file = policy.output.parent / "policy.yaml"
    command = [sys.executable, "-c", DRIVER, str(file), str(point), deed]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=file.parent)
    return done.returncode, int(done.stdout or 0)


def publishes_same(policy: Policy, expected: dict[str, str]) -> bool:
    return run(policy, Options(workers=1)).ending != "refused" and tree(policy.output) == expected


@pytest.fixture
def reference(workplace: Workplace) -> tuple[dict[str, str], int]:
    """The release of an uninterrupted run, and its number of events."""
    policy = workplace("reference")
    _, events = drive(policy)
    return tree(policy.output), events


def check_kills(workplace: Workplace, reference: tuple[dict[str, str], int], points: int) -> None:
    expected, events = reference
    chosen = random.Random(20240607).sample(range(1, events), min(points, events - 1))  # noqa: S311
    for point in chosen:
        policy = workplace(f"k{point}")
        code, _ = drive(policy, point)
        assert code == -signal.SIGKILL
        assert publishes_same(policy, expected), f"killed at {point} of {events}"


def test_killed_runs_give_the_same_release(
    workplace: Workplace, reference: tuple[dict[str, str], int]
) -> None:
    check_kills(workplace, reference, 6)


@pytest.mark.slow
def test_runs_killed_at_200_points_give_the_same_release(
    workplace: Workplace, reference: tuple[dict[str, str], int]
) -> None:
    check_kills(workplace, reference, 200)


def check_full_disk(workplace: Workplace, reference: tuple[dict[str, str], int], points: int) -> None:
    expected, events = reference
    chosen = random.Random(28).sample(range(1, events), min(points, events - 1))  # noqa: S311
    for point in sorted({4, *chosen}):  # 4: the state's file is made
        policy = workplace(f"f{point}")
        code, _ = drive(policy, point, "full")
        published = (policy.output / "RELEASE.json").exists()
        assert code in ((0, 1, 5) if published else (2, 5)), f"full at {point} of {events}"
        assert publishes_same(policy, expected), f"full at {point} of {events}"


def test_a_full_disk_exits_5_and_a_rerun_succeeds(
    workplace: Workplace, reference: tuple[dict[str, str], int]
) -> None:
    check_full_disk(workplace, reference, 6)


@pytest.mark.slow
def test_a_disk_full_at_200_points_exits_5_and_a_rerun_succeeds(
    workplace: Workplace, reference: tuple[dict[str, str], int]
) -> None:
    check_full_disk(workplace, reference, 200)


def test_a_full_disk_during_a_write_stops_the_run(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medsanitize.pipeline.stages import sanitize

    policy = workplace()
    written = 0

    def write(descriptor: int, block: bytes) -> int:
        nonlocal written
        written += 1
        if written == 5:
            raise OSError(28, "No space left on device")
        return os.write(descriptor, block)

    class Patched:
        def __getattr__(self, name: str) -> object:
            return write if name == "write" else getattr(os, name)

    monkeypatch.setattr(sanitize, "os", Patched())
    with pytest.raises(EnvironmentFailure):
        run(policy, Options(workers=1))
    assert not (policy.output / "RELEASE.json").exists()
    monkeypatch.undo()
    assert run(policy, Options(workers=1)).ending == "published"


def test_two_workers_give_the_same_release(
    workplace: Workplace, reference: tuple[dict[str, str], int]
) -> None:
    policy = workplace("two")
    run(policy, Options(workers=2))
    assert tree(policy.output) == reference[0]


def test_shards_give_the_same_release(workplace: Workplace, reference: tuple[dict[str, str], int]) -> None:
    policy = workplace("shards")
    run(policy, Options(workers=1, inventory_only=True))
    parts = [run(policy, Options(workers=1, shard=Shard(number, 3))) for number in (3, 1, 2)]
    assert {part.ending for part in parts} == {"shard_done"}
    run(policy, Options(workers=1))
    assert tree(policy.output) == reference[0]


def test_a_missing_shard_is_processed_by_the_merge(
    workplace: Workplace, reference: tuple[dict[str, str], int]
) -> None:
    policy = workplace("shards")
    run(policy, Options(workers=1, inventory_only=True))
    run(policy, Options(workers=1, shard=Shard(1, 2)))
    run(policy, Options(workers=1))
    assert tree(policy.output) == reference[0]
    assert not list(policy.state.glob("*shard*.sqlite"))


def test_another_number_of_shards_is_rejected_until_the_first_are_merged(
    workplace: Workplace, reference: tuple[dict[str, str], int]
) -> None:
    policy = workplace("shards")
    run(policy, Options(workers=1, inventory_only=True))
    run(policy, Options(workers=1, shard=Shard(1, 2)))
    with pytest.raises(UsageError, match="another number"):
        run(policy, Options(workers=1, shard=Shard(1, 3)))
    run(policy, Options(workers=1, inventory_only=True))
    run(policy, Options(workers=1, shard=Shard(1, 3)))
    assert publishes_same(policy, reference[0])


def test_a_shard_does_not_modify_the_shared_inventory(workplace: Workplace) -> None:
    policy = workplace()
    run(policy, Options(workers=1, inventory_only=True))
    shared = workspace_of(policy).database
    before = shared.read_bytes()
    shared.chmod(0o400)
    run(policy, Options(workers=1, shard=Shard(1, 2)))
    assert shared.read_bytes() == before
    assert not list(policy.state.glob(f"{shared.name}-*"))


def test_a_shard_requires_an_inventory(workplace: Workplace) -> None:
    with pytest.raises(UsageError, match="--inventory-only"):
        run(workplace(), Options(workers=1, shard=Shard(1, 2)))


def test_a_shard_of_another_policy_is_rejected(workplace: Workplace) -> None:
    run(workplace(), Options(workers=1, inventory_only=True))
    other = workplace(deduplicate="{pixels: ignore}")
    with pytest.raises(UsageError):
        run(other, Options(workers=1, shard=Shard(1, 2)))


def test_a_shard_under_another_key_is_rejected(workplace: Workplace) -> None:
    policy = workplace()
    run(policy, Options(workers=1, inventory_only=True))
    (policy.output.parent / "release.key").write_bytes(bytes(range(100, 164)))
    with pytest.raises((UsageError, KeyMaterialError)):
        run(policy, Options(workers=1, shard=Shard(1, 2)))


def _children(pid: int) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.add(int(path.parent.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU])
def test_a_signal_stops_cleanly_and_a_rerun_resumes(
    workplace: Workplace, reference: tuple[dict[str, str], int], number: signal.Signals
) -> None:
    policy = workplace("signal")
    file = policy.output.parent / "policy.yaml"
    command = [sys.executable, "-m", "medsanitize", "run", str(file), "--workers", "2"]
    process = subprocess.Popen(
        command,
        cwd=file.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 20
    while not (policy.output / ".staging").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, number)  # like the end of a login session
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (128 + number, 1), errors  # 1: it finished first
    assert json.loads((policy.state / "return.json").read_text())["exit_code"] == process.returncode
    assert publishes_same(policy, reference[0])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_no_worker_outlives_a_killed_run(workplace: Workplace) -> None:
    policy = workplace("orphans")
    file = policy.output.parent / "policy.yaml"
    command = [sys.executable, "-m", "medsanitize", "run", str(file), "--workers", "2"]
    process = subprocess.Popen(command, cwd=file.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started: set[int] = set()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None and len(started) < 3:
        for child in _children(process.pid):
            started |= {child} | _children(child)
        time.sleep(0.005)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
