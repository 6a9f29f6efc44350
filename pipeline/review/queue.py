"""The review as a queue: items page by page, decided one by one or many at once, by several persons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.pipeline import preflight
from medsanitize.pipeline.resume import open_for_reading, release_keys, settings_difference
from medsanitize.pipeline.review.review_decisions import (
    DecisionSession,
    RecordedDecisions,
    checked,
    close_session,
    record_decisions,
)
from medsanitize.pipeline.review.sample import sample_for
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.state.database import State, translated_errors
from medsanitize.pipeline.state.judgments import LoggedDecision, logged_decisions
from medsanitize.pipeline.state.result_types import PendingReview
from medsanitize.pipeline.state.review_queue import UndecidedItem, open_item, undecided_items
from medsanitize.pipeline.state.stage_results import JUDGED, PUBLICATION, PUBLISHED, REVIEW
from medsanitize.pipeline.state.staged_objects import staged_path_of
from medsanitize.policies.model import Policy


@dataclass(frozen=True, slots=True, repr=False)
class QueuedItem:
    """An item that nobody has decided on. It contains PHI.

    Attributes
    ----------
    name : str
        Identifies it in decisions.
    location, rule : str
        Where it is, and why it is an item.
    text : str
        What was read there.
    before, after : bytes
        Pictures (PNG or JPEG); empty if there are none.
    objects : int
        Number of objects with exactly this item.
    """

    name: str
    location: str
    rule: str
    text: str
    before: bytes
    after: bytes
    objects: int

    def __repr__(self) -> str:
        return f"QueuedItem({self.location}, {self.rule})"


@dataclass(frozen=True, slots=True, repr=False)
class SampledFile:
    """An object of the sample: its name in decisions, and its staged file."""

    name: str
    path: Path

    def __repr__(self) -> str:
        return f"SampledFile({self.name})"


class ReviewQueue:
    """The open review of a staged release; see `open_queue`."""

    def __init__(self, state: State, policy: Policy, reviewer: str, pending: PendingReview) -> None:
        self._state, self._policy, self._reviewer, self._pending = state, policy, reviewer, pending
        self._session = DecisionSession()
        # Sorted once: the lock keeps others from deciding meanwhile.
        self._waiting: list[UndecidedItem] | None = None

    def close(self) -> None:
        """Store what the decisions of this session amount to."""
        close_session(self._state, self._session)

    def _undecided(self) -> list[UndecidedItem]:
        if self._waiting is None:
            self._waiting = undecided_items(self._state)
        return self._waiting

    @property
    def digest(self) -> str:
        """Digest of the staged release."""
        return self._pending.digest

    @translated_errors()
    def count(self) -> int:
        """Count the items that nobody has decided on."""
        return len(self._undecided())

    @translated_errors()
    def items(self, *, offset: int = 0, limit: int = 50) -> tuple[QueuedItem, ...]:
        """Return a page of the undecided items, the least certain first."""
        found = self._undecided()[offset : offset + limit]
        return tuple(self._opened(one.name, one.objects) for one in found)

    @translated_errors()
    def sample(self) -> tuple[SampledFile, ...]:
        """Return the objects of the sample that this person has not judged; none once decisions change it.

        ``release`` states that an object is correct, ``quarantine`` that it is wrong.
        """
        judged = JUDGED.load(self._state)
        if judged is None:
            return ()
        numbers = sample_for(self._state, self._policy, judged.ending, judged.digest, self._reviewer)
        staging = workspace_of(self._policy).staging
        return tuple(
            SampledFile(f"object-{one}", staging / staged_path_of(self._state, one)) for one in numbers
        )

    def _opened(self, name: bytes, objects: int) -> QueuedItem:
        item = open_item(self._state, name)
        return QueuedItem(name.hex(), item.location, item.rule, item.text, item.before, item.after, objects)

    @translated_errors()
    def decide(self, decisions: Mapping[str, str], *, scope: str | None = None) -> RecordedDecisions:
        """Store decisions; they are durable when this returns.

        Parameters
        ----------
        decisions : mapping of str to str
            Name of an item -> ``keep``, ``blank`` or ``quarantine``; ``object-N`` of a sample -> ``release``
            or ``quarantine``.
        scope : str, optional
            ``alike``, ``series`` or ``device``: what each decision holds for beyond its item.

        Raises
        ------
        UsageError
            A decision is invalid; none is stored.
        """
        return self._record(decisions, None, scope)

    @translated_errors()
    def approve(self) -> RecordedDecisions:
        """Approve the staged release, for this person.

        Raises
        ------
        UsageError
            It does not wait for an approval, or decisions have changed it.
        """
        if self._pending.approve is None or JUDGED.load(self._state) is None:
            raise UsageError(
                "There is no staged release to approve", "Run the policy again, and approve its result"
            )
        return self._record({}, self._pending.approve, None)

    def _record(
        self, decisions: Mapping[str, str], approve: str | None, scope: str | None
    ) -> RecordedDecisions:
        facts = {"version": 1, "page": self._pending.page, "approve": approve, "decisions": dict(decisions)}
        made = record_decisions(self._state, checked(facts, scope), self._reviewer, self._session)
        if scope is not None:
            self._waiting = None
        elif self._waiting is not None:
            self._waiting = [one for one in self._waiting if one.name.hex() not in decisions]
        return made


@contextmanager
def open_queue(policy: Policy, reviewer: str = "") -> Iterator[ReviewQueue]:
    """Open the review of the staged release of a policy; no run can start meanwhile.

    Parameters
    ----------
    policy : Policy
        The policy of the run.
    reviewer : str
        Name under which the person decides; it is kept in the state and nowhere in the release.

    Raises
    ------
    UsageError
        The release is anonymous or published, or no run of this policy has staged one.
    EnvironmentFailure
        Another process holds the release, or the disk failed.
    IntegrityError
        The state is damaged.
    """
    if policy.release.mode == "anonymous":
        raise UsageError("An anonymous run cannot be reviewed", "Review a pseudonymous run first")
    workspace = workspace_of(policy)
    if not workspace.database.exists():
        raise UsageError("There is no state of this release", "Run the policy first")
    with translated_errors(), preflight.locked(workspace):
        with State(workspace.database, release_keys(policy)).closed_on_failure() as state:
            pending = _pending(state, policy)
        try:
            queue = ReviewQueue(state, policy, reviewer, pending)
            try:
                yield queue
            finally:
                queue.close()
        finally:
            state.close()


def _pending(state: State, policy: Policy) -> PendingReview:
    """Return the review of the staged release, begun here if there is none yet."""
    if (reason := settings_difference(state, policy)) is not None:
        raise UsageError(f"The last run is out of date: {reason}", "Run the policy again first")
    if PUBLISHED.is_set(state) or PUBLICATION.is_stored(state):
        raise UsageError(
            "This release is published and can no longer be changed",
            "Decide before the next version is published, with release: approve: required",
        )
    found, judged = REVIEW.load(state), JUDGED.load(state)
    # Decisions void the judgment of the run, and other persons still decide.
    if found is not None and (judged is None or judged.digest == found.digest):
        return found
    if judged is None:
        raise UsageError("The run is not finished", "Run the policy first, then review")
    approve = judged.digest if judged.ending == "awaiting_approval" else None
    pending = PendingReview(state.seal.name("review queue", judged.digest).hex(), judged.digest, approve)
    with state.transaction():
        REVIEW.store(state, pending)
    return pending


@translated_errors()
def decision_log(policy: Policy) -> list[LoggedDecision]:
    """Return who decided what, in the order of the decisions.

    Raises
    ------
    UsageError
        The release is anonymous, or there was no run.
    EnvironmentFailure, IntegrityError
        Another process holds the state, or it is damaged.
    """
    if policy.release.mode == "anonymous":
        raise UsageError("An anonymous run cannot be reviewed", "Review a pseudonymous run first")
    state = open_for_reading(policy)
    try:
        return list(logged_decisions(state))
    finally:
        state.close()
