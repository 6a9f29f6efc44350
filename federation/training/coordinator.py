"""The server's side of a job: what has arrived, which stage is open, and what each site is told.

Everything is on the disk before it is answered: after the death of the server, the same command goes on with
the same stage, and the result has the same bytes.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import IntegrityError, MedsanitizeError
from medsanitize.federation.messages.frame import packed, unpacked
from medsanitize.federation.parties.identity import Identity
from medsanitize.federation.secure_aggregation.aggregation import Stage
from medsanitize.federation.secure_aggregation.collector import added, remove_masks
from medsanitize.federation.training.invitation import Invitation
from medsanitize.federation.training.job import FederatedJob
from medsanitize.federation.training.statement import statement_of
from medsanitize.federation.training.states import read_state, sent_state, write_state
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors, write_atomic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Parts = Mapping[str, bytes]
# The list of a model folder; its module needs the extra.
LIST: Final = "SHA256SUMS"
_LOOK_SECONDS: Final = 0.05
WAIT: Final = packed({"do": "wait"})


@dataclass(slots=True, repr=False)
class Coordinator:
    """State of the server.

    Attributes
    ----------
    folder
        State folder of the job.
    training
        The rounds.
    patience
        Seconds for which an open stage waits for a site, if enough others are there.
    """

    folder: Path
    training: FederatedJob
    patience: float
    number: int = 0
    failure: MedsanitizeError | None = None
    finished: bool = False
    stopped: bool = False
    confirmed: set[str] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _opened: float = field(default_factory=time.monotonic)
    _state: bytes = b""

    @property
    def invitation(self) -> Invitation:
        """The job."""
        return self.training.invitation

    def resume(self) -> None:
        """Find the round that is open."""
        kept = sorted(int(path.stem.split("-")[1]) for path in self.folder.glob("state-*.safetensors"))
        if not kept:
            write_state(self.folder / _state_name(0), self.training.start())
        # A kill may have left the round before, whose sum is part of the state.
        for number in kept[:-1]:
            self._forget(number)
        self.number = kept[-1] if kept else 0
        self._open()

    def drive(self, progress: Progress, cancellation: Cancellation) -> None:
        """Close stages and compute states until the job is done, or the server ends."""
        progress.stage("rounds", None)
        while not self.finished and not self.stopped:
            cancellation.check()
            stage = self._stage()
            if stage is not None and self._is_over(stage):
                self._close(stage)
            elif stage is None:
                self._advance()
                progress.advance(1)
            else:
                time.sleep(_LOOK_SECONDS)

    def save(self, output: Path) -> None:
        """Write the model of the last state, unless it is there from before an interruption."""
        if not (output / LIST).exists():
            state = read_state(self.folder / _state_name(self.number))
            self.training.save(state, output, statement_of(self.invitation))

    def answer(self, frame: bytes, sender: Identity) -> bytes:
        """Take what a site has sent, and say what it does next."""
        name = sender.name
        facts, parts = unpacked(frame)
        if (
            facts.get("job") != self.invitation.digest
            or self.invitation.sites.get(name) != sender.fingerprint
        ):
            return packed({"do": "refused"})
        with self._lock:
            if self.failure is not None:
                return packed({"do": "failed"})
            stage = facts.get("stage")
            if stage == "done":
                self.confirmed.add(name)
                write_atomic(self.folder / f"done.{name}", str(facts.get("digest")).encode("ascii"))
            elif stage is not None and facts.get("round") == self.number and stage == self._stage():
                self._take(stage, name, parts)
            return self._task(name)

    def _take(self, stage: Stage, name: str, parts: Parts) -> None:
        path = self._path(stage, name)
        # The first message counts: a site that returns repeats it.
        if name in self._eligible(stage) and not path.exists():
            write_atomic(path, packed({}, parts), sync=True, private=True)

    def _task(self, name: str) -> bytes:
        if self.finished:
            return packed({"do": "done"}, {"state": self._state})
        stage = self._stage()
        if stage is None or name not in self._eligible(stage) or self._path(stage, name).exists():
            return WAIT
        facts: dict[str, Any] = {"do": stage, "round": self.number}
        parts: dict[str, bytes] = {}
        if stage == "shares":
            parts = self._roster()
        elif stage == "masked":
            parts = {
                f"share.{one}": self._sent("shares", one)[name] for one in self._senders() if one != name
            }
            parts["state"] = self._state
        elif stage == "agree":
            facts["names"] = self._closed("masked")
        elif stage == "unmask":
            parts = {one: self._sent("agree", one)["signature"] for one in self._closed("agree")}
        return packed(facts, parts)

    def _is_over(self, stage: Stage) -> bool:
        with self._lock:
            eligible = self._eligible(stage)
            there = self._arrived(stage)
            enough = len(there) >= self.invitation.aggregation(self.number).threshold
            late = time.monotonic() - self._opened > self.patience
            return len(there) == len(eligible) or (enough and late)

    def _close(self, stage: Stage) -> None:
        with self._lock:
            names = json.dumps(self._arrived(stage)).encode("ascii")
            write_atomic(self._round() / f"closed.{stage}.json", names, sync=True)
            self._opened = time.monotonic()

    def _advance(self) -> None:
        """Compute the next state of a round whose stages are closed; nobody waits for a lock meanwhile."""
        before = read_state(self.folder / _state_name(self.number))
        following = self.training.following(before, self._sum(self.training.length(before)))
        write_state(self.folder / _state_name(self.number + 1), following)
        with self._lock:
            self.number += 1
            self._open()
        self._forget(self.number - 1)

    def _forget(self, number: int) -> None:
        with storage_errors():
            shutil.rmtree(self.folder / _round_name(number), ignore_errors=True)
            (self.folder / _state_name(number)).unlink()

    def _sum(self, length: int) -> NDArray[np.uint64]:
        taken = self._closed("masked")
        total = added((self._sent("masked", name)["vector"] for name in taken), length)
        if "unmask" in self.invitation.stages:
            shares = {name: self._sent("unmask", name) for name in self._closed("unmask")}
            aggregation = self.invitation.aggregation(self.number)
            remove_masks(total, aggregation, self._roster(), self._senders(), shares, taken)
        return total

    def _open(self) -> None:
        state = read_state(self.folder / _state_name(self.number))
        self._state = sent_state(state)
        self._opened = time.monotonic()
        self.finished = not self.training.asked(state)
        if not self.finished:
            with storage_errors():
                self._round().mkdir(mode=0o700, exist_ok=True)

    def _stage(self) -> Stage | None:
        """The open stage; none while the next state is computed."""
        stages = self.invitation.stages
        return next((one for one in stages if not (self._round() / f"closed.{one}.json").exists()), None)

    def _eligible(self, stage: Stage) -> list[str]:
        place = self.invitation.stages.index(stage)
        return self._closed(self.invitation.stages[place - 1]) if place else list(self.invitation.sites)

    def _arrived(self, stage: Stage) -> list[str]:
        return [name for name in self._eligible(stage) if self._path(stage, name).exists()]

    def _closed(self, stage: Stage) -> list[str]:
        with storage_errors():
            names: list[str] = json.loads((self._round() / f"closed.{stage}.json").read_bytes())
        return names

    def _senders(self) -> list[str]:
        return self._closed("shares") if "shares" in self.invitation.stages else []

    def _roster(self) -> dict[str, bytes]:
        sent = {name: self._sent("keys", name) for name in self._closed("keys")}
        return {name: parts["keys"] + parts["signature"] for name, parts in sent.items()}

    def _sent(self, stage: Stage, name: str) -> Parts:
        with storage_errors():
            return _Complete(unpacked(self._path(stage, name).read_bytes())[1])

    def _path(self, stage: Stage, name: str) -> Path:
        return self._round() / f"{stage}.{name}"

    def _round(self) -> Path:
        return self.folder / _round_name(self.number)


class _Complete(dict[str, bytes]):
    """Parts of a message; a missing one is a message of another program, not a bug of this one."""

    def __missing__(self, name: str) -> bytes:
        raise IntegrityError(
            "A site sent an incomplete message", "Install the same version of the program everywhere"
        )


def _round_name(number: int) -> str:
    return f"round-{number:04}"


def _state_name(number: int) -> str:
    return f"state-{number:04}.safetensors"
