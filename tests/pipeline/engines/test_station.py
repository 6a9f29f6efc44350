"""What travels to a worker of a cluster is sealed, and a worker that cannot do its work says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.engines.encrypted_channel import EncryptedChannel, WorkerKeyPair
from medsanitize.pipeline.engines.ray_worker import Answer, RayWorker, WorkerPayload
from medsanitize.pipeline.engines.shared_storage import SEEN, inputs_of
from medsanitize.pipeline.engines.worker import Setup, Worker
from medsanitize.pipeline.preflight import ensure_staging
from medsanitize.pipeline.storage.local import Root
from medsanitize.policies.model import Policy
from medsanitize.sanitize.pseudonyms import derive_sub_keys

from tests.helpers.hospital import CANARIES, KEY

Workplace = Callable[..., Policy]
MARK = f"{SEEN}a"


def refuse(_: Worker, batch: Sequence[int]) -> None:
    raise UsageError(f"refused {len(batch)}", "Try again")


def fail(_: Worker, batch: Sequence[int]) -> None:
    raise ValueError(CANARIES[0] * len(batch))


def root_of(worker: Worker, batch: Sequence[int]) -> tuple[str, int]:
    return worker.setup.policy.release.name, len(batch)


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is silent for good; here it runs in the process of the tests."""
    monkeypatch.setattr("medsanitize.pipeline.engines.base.silence_output", lambda: None)


@pytest.fixture
def setup(workplace: Workplace) -> Setup:
    policy = workplace()
    policy.output.mkdir(parents=True)
    return Setup(policy, derive_sub_keys(KEY, scope="project"), ensure_staging(policy), keep_links=False)


def equipped(setup: Setup, inputs: tuple[Root, ...]) -> tuple[RayWorker, EncryptedChannel, Answer]:
    station, channel = RayWorker(), EncryptedChannel.new()
    public, _ = station.hello()
    kit = channel.close(WorkerPayload(setup, inputs))
    return station, channel, channel.open(station.equip(channel.key_for(public), kit, MARK))


def call(station: RayWorker, channel: EncryptedChannel, task: Callable[..., Any]) -> Answer:
    answer: Answer = channel.open(station.call(channel.close((task, [1, 2]))))
    return answer


def test_a_worker_shows_that_it_sees_the_staging_folder_and_runs_tasks(setup: Setup) -> None:
    station, channel, answer = equipped(setup, inputs_of(setup.policy))

    assert answer.raised is None
    assert setup.staging is not None
    assert (setup.staging / MARK).exists()
    assert call(station, channel, root_of).result == ("chest-ct", 2)


def test_marks_that_a_killed_run_left_are_taken_away(setup: Setup) -> None:
    equipped(setup, inputs_of(setup.policy))

    assert not list(ensure_staging(setup.policy).glob(f"{SEEN}*"))


def test_a_node_that_sees_another_folder_at_the_path_of_an_input_is_refused(setup: Setup) -> None:
    others = tuple(replace(root, inode=root.inode + 1) for root in inputs_of(setup.policy))

    _, _, answer = equipped(setup, others)

    assert isinstance(answer.raised, EnvironmentFailure)
    assert "inputs" in str(answer.raised)


def test_a_node_that_numbers_what_is_in_an_input_otherwise_is_refused(setup: Setup) -> None:
    (root,) = inputs_of(setup.policy)
    entries = tuple((name, inode + 1) for name, inode in root.entries)

    _, _, answer = equipped(setup, (replace(root, entries=entries),))

    assert len(entries) > 1
    assert isinstance(answer.raised, EnvironmentFailure)


def test_a_node_that_sees_an_entry_of_an_input_replaced_is_not_refused(setup: Setup) -> None:
    (root,) = inputs_of(setup.policy)
    (name, inode), *others = root.entries

    _, _, answer = equipped(setup, (replace(root, entries=((name, inode + 1), *others)),))

    assert answer.raised is None


def test_a_node_without_the_staging_folder_is_refused(setup: Setup) -> None:
    assert setup.staging is not None
    setup.staging.rmdir()

    _, _, answer = equipped(setup, inputs_of(setup.policy))

    assert isinstance(answer.raised, EnvironmentFailure)
    assert "Mount the folder" in str(answer.raised)


def test_a_node_without_an_extra_of_the_policy_is_refused(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(_: Policy) -> None:
        raise UsageError("The policy needs the extra 'text', which is not installed", "Install it")

    monkeypatch.setattr("medsanitize.pipeline.runtime.optional_dependencies.check_extras", lacking)

    _, _, answer = equipped(setup, inputs_of(setup.policy))

    assert isinstance(answer.raised, EnvironmentFailure)
    assert "extra 'text'" in str(answer.raised)


def test_errors_of_ours_come_back_and_words_of_others_do_not(setup: Setup) -> None:
    station, channel, _ = equipped(setup, inputs_of(setup.policy))

    ours, theirs = call(station, channel, refuse).raised, call(station, channel, fail).raised

    assert isinstance(ours, UsageError)
    assert str(ours) == "refused 2. Try again."
    assert str(theirs) == "a task raised ValueError"


def test_what_travels_shows_nothing_and_opens_for_nobody_else() -> None:
    channel, other = EncryptedChannel.new(), EncryptedChannel.new()
    sealed = channel.close(CANARIES)

    assert CANARIES[0].encode() not in sealed
    assert channel.open(sealed) == CANARIES
    with pytest.raises(InvalidTag):
        other.open(sealed)


def test_the_session_key_reaches_the_worker_that_it_was_sealed_for_alone() -> None:
    channel, guest, other = EncryptedChannel.new(), WorkerKeyPair(), WorkerKeyPair()
    wrapped = channel.key_for(guest.public)

    assert guest.channel(wrapped).open(channel.close(1)) == 1
    with pytest.raises(InvalidTag):
        other.channel(wrapped)
