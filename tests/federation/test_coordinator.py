"""The server's side of a job and its sites, without processes: who is added when sites die or return."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import IntegrityError
from medsanitize.federation.messages.frame import packed, unpacked
from medsanitize.federation.parties.identity import LocalParty, create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.secure_aggregation.aggregation import SECURE
from medsanitize.federation.training import site as module
from medsanitize.federation.training.coordinator import Coordinator
from medsanitize.federation.training.invitation import Invitation, invite
from medsanitize.federation.training.site import Site
from medsanitize.federation.training.states import read_state
from medsanitize.federation.training.training import FederatedTraining
from medsanitize.policies.federation import Accepted, Job, SitePolicy
from medsanitize.progress import Cancellation, NoProgress

pytestmark = [pytest.mark.federated, pytest.mark.verify]
NAMES = ("north", "south", "east", "west")
ROUNDS = 2
VALUES = {name: float(10**place) for place, name in enumerate(NAMES)}
SECONDS = 60.0


@dataclass(frozen=True)
class Numbers:
    """A training whose every round adds one number of each site: the state shows who was added."""

    value: float = 0.0

    def start(self) -> Mapping[str, Any]:
        return {"round": np.array(0.0)}

    def asked(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        from medsanitize.verifiers.reid.training.sums import Summed

        return {"value": Summed((3,), 1e6)} if state["round"] < ROUNDS else {}

    def contribution(self, _state: Any, _site: Any, _number: int) -> Mapping[str, Any]:
        return {"value": np.full(3, self.value)}

    def following(self, state: Mapping[str, Any], sums: Mapping[str, Any]) -> Mapping[str, Any]:
        number = int(state["round"])
        return {**state, "round": np.array(number + 1.0), f"sum-{number}": sums["value"]}


@dataclass
class Partaker:
    """A site whose messages reach the server by a call."""

    site: Site
    training: FederatedTraining
    sent: list[str] = field(default_factory=list)
    message: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, bytes] = field(default_factory=dict)

    def exchange(self, coordinator: Coordinator, *, silent_at: Sequence[str] = ()) -> str:
        """Send what is ready, and prepare what the server asks for; not at the stages of ``silent_at``."""
        frame = packed({**self.message, "job": self.site.invitation.digest}, self.parts)
        told, given = unpacked(coordinator.answer(frame, self.site.party.identity))
        self.message, self.parts = {}, {}
        stage = str(told["do"])
        if stage in SECURE and f"{told['round']}.{stage}" not in silent_at:
            self.message = {"stage": stage, "round": told["round"]}
            self.parts = module._answered(self.site, self.training, None, told, given)
            self.sent.append(f"{told['round']}.{stage}")
        return stage


def federation(folder: Path, names: Sequence[str]) -> tuple[Invitation, dict[str, Partaker]]:
    for name in ("server", *names):
        create_party(folder / name, name)
    parties = {name: open_party(folder / name) for name in ("server", *names)}
    for name in names:
        trust_partner(parties["server"], folder / name / "identity.json", parties[name].identity.fingerprint)
    job = Job.model_validate(
        {
            "version": 1, "name": "numbers", "party": folder / "server", "sites": tuple(names),
            "model": "classification", "recipe": "frozen", "kind": "radiograph",
            "classes": {"column": "c", "names": ("a", "b")}, "output": folder / "model",
            "state": folder / "job",
        }
    )  # fmt: skip
    invitation = invite(job, parties["server"])
    return invitation, {name: partaker(folder, invitation, parties, name) for name in names}


def partaker(folder: Path, invitation: Invitation, parties: Mapping[str, LocalParty], name: str) -> Partaker:
    policy = SitePolicy(
        version=1, party=folder / name, server="server", address="https://127.0.0.1:1", images=folder,
        labels=folder, state=folder / f"state-{name}", output=folder / "out", columns={},
        accept=Accepted(recipes=("classification/frozen",), sites=("x", "y")),
    )  # fmt: skip
    known = {one: parties[one].identity for one in invitation.sites}
    site = Site(policy, parties[name], parties["server"].identity, known, invitation)
    return Partaker(site, FederatedTraining(invitation, Numbers(VALUES[name])))


def opened(folder: Path, invitation: Invitation, patience: float) -> Coordinator:
    coordinator = Coordinator(folder / "job", FederatedTraining(invitation, Numbers()), patience)
    coordinator.resume()
    return coordinator


def driven(coordinator: Coordinator, turn: Callable[[], None], seconds: float = SECONDS) -> Mapping[str, Any]:
    """Drive the server in a thread, and the sites by turns; returns the last state."""
    stop, until = Cancellation(), time.monotonic() + seconds
    thread = threading.Thread(target=_drive, args=(coordinator, stop), daemon=True)
    thread.start()
    while not coordinator.finished and time.monotonic() < until:
        turn()
        time.sleep(0.005)
    stop.number = 15
    thread.join()
    (path,) = coordinator.folder.glob("state-*.safetensors")
    return read_state(path)


def _drive(coordinator: Coordinator, stop: Cancellation) -> None:
    from medsanitize.progress import Cancelled

    try:
        coordinator.drive(NoProgress(), stop)
    except Cancelled:
        pass


def sums_of(state: Mapping[str, Any]) -> list[float]:
    """The sum of each round, whose three numbers are equal."""
    found = [state[f"sum-{number}"] for number in range(ROUNDS)]
    assert all(len(set(one.tolist())) == 1 for one in found)
    return [float(one[0]) for one in found]


def test_every_site_is_added_in_every_round(tmp_path: Path) -> None:
    invitation, partakers = federation(tmp_path, NAMES)
    coordinator = opened(tmp_path, invitation, 60.0)

    def turn() -> None:
        for one in partakers.values():
            one.exchange(coordinator)

    assert sums_of(driven(coordinator, turn)) == [1111.0, 1111.0]
    assert [stage.split(".")[1] for stage in partakers["west"].sent] == list(SECURE) * ROUNDS


@pytest.mark.parametrize("stage", SECURE)
def test_a_site_that_dies_at_a_stage_does_not_stop_the_job(stage: str, tmp_path: Path) -> None:
    invitation, partakers = federation(tmp_path, NAMES)
    coordinator = opened(tmp_path, invitation, 0.3)
    dead = set[str]()

    def turn() -> None:
        for name, one in partakers.items():
            if name in dead:
                continue
            one.exchange(coordinator, silent_at=[f"0.{stage}"] if name == "west" else [])
            if name == "west" and coordinator._stage() == stage:
                dead.add(name)

    first, second = sums_of(driven(coordinator, turn))
    # Whose vector has arrived is added, also if it dies afterwards.
    assert first == (1111.0 if stage in ("agree", "unmask") else 111.0)
    assert second == 111.0


def test_a_late_site_joins_the_next_round(tmp_path: Path) -> None:
    invitation, partakers = federation(tmp_path, NAMES)
    coordinator = opened(tmp_path, invitation, 0.3)

    def turn() -> None:
        for name, one in partakers.items():
            if name != "west" or coordinator.number == 1:
                one.exchange(coordinator)

    assert sums_of(driven(coordinator, turn)) == [111.0, 1111.0]


def test_a_round_of_three_sites_waits_for_the_third(tmp_path: Path) -> None:
    invitation, partakers = federation(tmp_path, NAMES[:3])
    coordinator, began = opened(tmp_path, invitation, 0.1), time.monotonic()

    def turn() -> None:
        for name, one in partakers.items():
            if name != "east" or time.monotonic() > began + 1.5:
                one.exchange(coordinator)

    assert sums_of(driven(coordinator, turn)) == [111.0, 111.0]


@pytest.mark.parametrize("stage", SECURE)
def test_a_server_that_is_killed_goes_on_with_the_same_stage(stage: str, tmp_path: Path) -> None:
    invitation, partakers = federation(tmp_path, NAMES)
    running = [opened(tmp_path, invitation, 60.0)]

    def turn() -> None:
        for one in partakers.values():
            one.exchange(running[-1])

    # The first server is abandoned as soon as a message of the stage is on its disk.
    until = time.monotonic() + SECONDS
    stop = Cancellation()
    thread = threading.Thread(target=_drive, args=(running[0], stop), daemon=True)
    thread.start()
    while not (tmp_path / "job" / "round-0000" / f"{stage}.north").exists():
        assert time.monotonic() < until
        for one in partakers.values():
            one.exchange(running[0])
            if (tmp_path / "job" / "round-0000" / f"{stage}.north").exists():
                break
    stop.number = 9
    thread.join()
    running.append(opened(tmp_path, invitation, 60.0))
    assert sums_of(driven(running[1], turn)) == [1111.0, 1111.0]


def test_a_server_that_is_killed_between_two_rounds_goes_on_with_the_second(tmp_path: Path) -> None:
    invitation, partakers = federation(tmp_path, NAMES)
    first, stop = opened(tmp_path, invitation, 60.0), Cancellation()
    thread = threading.Thread(target=_drive, args=(first, stop), daemon=True)
    thread.start()
    before = (first.folder / "state-0000.safetensors").read_bytes()
    until = time.monotonic() + SECONDS
    while first.number == 0:
        assert time.monotonic() < until
        for one in partakers.values():
            one.exchange(first)
    stop.number = 9
    thread.join()
    # Killed before the state of the round before was removed.
    (first.folder / "state-0000.safetensors").write_bytes(before)
    second = opened(tmp_path, invitation, 60.0)
    assert second.number == 1
    assert [path.name for path in first.folder.glob("state-*")] == ["state-0001.safetensors"]

    def turn() -> None:
        for one in partakers.values():
            one.exchange(second)

    assert sums_of(driven(second, turn)) == [1111.0, 1111.0]


@pytest.mark.parametrize("stage", SECURE)
def test_a_site_that_returns_sends_the_same_vector_under_the_same_mask(stage: str, tmp_path: Path) -> None:
    invitation, partakers = federation(tmp_path, NAMES)
    coordinator = opened(tmp_path, invitation, 60.0)
    returned = list[str]()

    def turn() -> None:
        for name, one in partakers.items():
            told = one.exchange(coordinator)
            if name == "west" and told == stage and not returned:
                # Killed after it has written what it sends, before it was sent; another value would be seen.
                returned.append(name)
                other = FederatedTraining(invitation, Numbers(5.0))
                partakers["west"] = Partaker(
                    one.site, other if stage not in ("keys", "shares") else one.training
                )
                return

    first, second = sums_of(driven(coordinator, turn))
    assert returned
    assert first == 1111.0
    assert second == (1111.0 if stage in ("keys", "shares") else 116.0)


def test_a_stranger_and_another_job_are_told_nothing(tmp_path: Path) -> None:
    invitation, partakers = federation(tmp_path, NAMES)
    coordinator = opened(tmp_path, invitation, 60.0)
    north = partakers["north"].site.party.identity
    create_party(tmp_path / "stranger", "stranger")
    stranger = open_party(tmp_path / "stranger").identity
    for job, sender in (
        (invitation.digest, stranger),
        (invitation.digest, replace(stranger, name="north")),
        ("0" * 64, north),
    ):
        assert unpacked(coordinator.answer(packed({"job": job}), sender)) == ({"do": "refused"}, {})


@pytest.mark.parametrize("before", [(("keys", 0), ("keys", 1)), (("masked", 0),)])
def test_a_round_that_is_over_is_not_computed_again(
    tmp_path: Path, before: Sequence[tuple[str, int]]
) -> None:
    """Two vectors with the same noise, for other sites or from another state, would show what it hides."""
    _, sites = federation(tmp_path, NAMES[:3])
    one = sites["north"]
    one.site.folder.mkdir(parents=True)
    for stage, number in before:
        told = {"do": stage, "round": number}
        parts = module._answered(one.site, one.training, None, told, {}) if stage == "keys" else {}
        module._log(one.site, told, parts)
    with pytest.raises(IntegrityError, match="a round that is over"):
        module._answered(one.site, one.training, None, {"do": "keys", "round": 0}, {})
