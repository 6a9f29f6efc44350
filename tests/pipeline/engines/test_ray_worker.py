"""Messages to cluster workers are encrypted, and unsuitable workers are rejected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.engines.encrypted_channel import EncryptedChannel, WorkerKeyPair
from medsanitize.pipeline.engines.ray_worker import Answer, RayWorker, WorkerPayload
from medsanitize.pipeline.engines.shared_storage import PROBE_PREFIX, inputs_of
from medsanitize.pipeline.engines.worker import Setup, Worker
from medsanitize.pipeline.preflight import ensure_staging
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.storage.local import Root
from medsanitize.policies.model import Policy
from medsanitize.sanitize.pseudonyms import derive_sub_keys

from tests.helpers.hospital import CANARIES, KEY

Workplace = Callable[..., Policy]
MARK = f"{PROBE_PREFIX}a"


def refuse(_: Worker, batch: Sequence[int]) -> None:
    raise UsageError(f"refused {len(batch)}", "Try again")


def fail(_: Worker, batch: Sequence[int]) -> None:
    raise ValueError(CANARIES[0] * len(batch))


def root_of(worker: Worker, batch: Sequence[int]) -> tuple[str, int]:
    return worker.setup.policy.release.name, len(batch)


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker discards all output of its process; here it runs in the test process."""
    monkeypatch.setattr("medsanitize.pipeline.engines.base.silence_output", lambda: None)


@pytest.fixture
def setup(workplace: Workplace) -> Setup:
    policy = workplace()
    policy.output.mkdir(parents=True)
    staging = ensure_staging(workspace_of(policy))
    return Setup(policy, derive_sub_keys(KEY, scope="project"), staging, keep_links=False)


def equipped(setup: Setup, inputs: tuple[Root, ...]) -> tuple[RayWorker, EncryptedChannel, Answer]:
    station, channel = RayWorker(), EncryptedChannel.new()
    public, _ = station.hello()
    kit = channel.close(WorkerPayload(setup, inputs))
    return station, channel, channel.open(station.equip(channel.key_for(public), kit, MARK))


def call(station: RayWorker, channel: EncryptedChannel, task: Callable[..., Any]) -> Answer:
    answer: Answer = channel.open(station.call(channel.close((task, [1, 2]))))
    return answer


def test_a_worker_proves_access_to_staging_and_runs_tasks(setup: Setup) -> None:
    station, channel, answer = equipped(setup, inputs_of(setup.policy.inputs))

    assert answer.raised is None
    assert setup.staging is not None
    assert (setup.staging / MARK).exists()
    assert call(station, channel, root_of).result == ("chest-ct", 2)


def test_probe_files_of_a_killed_run_are_removed(setup: Setup) -> None:
    equipped(setup, inputs_of(setup.policy.inputs))

    assert not list(ensure_staging(workspace_of(setup.policy)).glob(f"{PROBE_PREFIX}*"))


def test_a_node_with_another_folder_at_the_input_path_is_rejected(setup: Setup) -> None:
    others = tuple(replace(root, inode=root.inode + 1) for root in inputs_of(setup.policy.inputs))

    _, _, answer = equipped(setup, others)

    assert isinstance(answer.raised, EnvironmentFailure)
    assert "inputs" in str(answer.raised)


def test_a_node_with_other_inode_numbers_is_rejected(setup: Setup) -> None:
    (root,) = inputs_of(setup.policy.inputs)
    entries = tuple((name, inode + 1) for name, inode in root.entries)

    _, _, answer = equipped(setup, (replace(root, entries=entries),))

    assert len(entries) > 1
    assert isinstance(answer.raised, EnvironmentFailure)


def test_a_node_with_a_replaced_input_entry_is_accepted(setup: Setup) -> None:
    (root,) = inputs_of(setup.policy.inputs)
    (name, inode), *others = root.entries

    _, _, answer = equipped(setup, (replace(root, entries=((name, inode + 1), *others)),))

    assert answer.raised is None


def test_a_node_without_the_staging_folder_is_rejected(setup: Setup) -> None:
    assert setup.staging is not None
    setup.staging.rmdir()

    _, _, answer = equipped(setup, inputs_of(setup.policy.inputs))

    assert isinstance(answer.raised, EnvironmentFailure)
    assert "Mount the folder" in str(answer.raised)


def test_a_node_without_a_required_extra_is_rejected(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(_: Policy) -> None:
        raise UsageError("The policy needs the extra 'text', which is not installed", "Install it")

    monkeypatch.setattr("medsanitize.pipeline.runtime.optional_dependencies.check_extras", lacking)

    _, _, answer = equipped(setup, inputs_of(setup.policy.inputs))

    assert isinstance(answer.raised, EnvironmentFailure)
    assert "extra 'text'" in str(answer.raised)


def test_our_errors_are_returned_and_foreign_messages_are_not(setup: Setup) -> None:
    station, channel, _ = equipped(setup, inputs_of(setup.policy.inputs))

    ours, theirs = call(station, channel, refuse).raised, call(station, channel, fail).raised

    assert isinstance(ours, UsageError)
    assert str(ours) == "refused 2. Try again."
    assert str(theirs) == "a task raised ValueError"


def test_messages_are_encrypted_for_one_receiver() -> None:
    channel, other = EncryptedChannel.new(), EncryptedChannel.new()
    sealed = channel.close(CANARIES)

    assert CANARIES[0].encode() not in sealed
    assert channel.open(sealed) == CANARIES
    with pytest.raises(InvalidTag):
        other.open(sealed)


def test_only_the_intended_worker_can_decrypt_the_session_key() -> None:
    channel, guest, other = EncryptedChannel.new(), WorkerKeyPair(), WorkerKeyPair()
    wrapped = channel.key_for(guest.public)

    assert guest.channel(wrapped).open(channel.close(1)) == 1
    with pytest.raises(InvalidTag):
        other.channel(wrapped)
