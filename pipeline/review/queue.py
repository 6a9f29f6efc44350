"""A review in progress: its queue, a page at a time, and decisions that are stored as they are made.

They are stored as those of ``medsanitize review --decisions`` are, so that the next run follows either alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.pipeline.resume import settings_difference
from medsanitize.pipeline.review.pages import finding_cards, opened_state, quarantine_entries, staged_ending
from medsanitize.pipeline.review.review_decisions import (
    FORMAT,
    DecisionSession,
    RecordedDecisions,
    checked_decisions,
    close_session,
    record_decisions,
)
from medsanitize.pipeline.review.sample import drawn_sample, not_looked_at
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.stages.second_review import Standing, standing
from medsanitize.pipeline.state import review_lists
from medsanitize.pipeline.state.database import translated_errors
from medsanitize.pipeline.state.decisions import decision_counts, decisions_on, is_undecided
from medsanitize.pipeline.state.judgments import LoggedDecision, logged_decisions
from medsanitize.pipeline.state.objects import outcome_counts
from medsanitize.pipeline.state.reset import count_requeued
from medsanitize.pipeline.state.result_types import PendingReview
from medsanitize.pipeline.state.review_lists import ListedDecision, ListedSeries, StagedImage
from medsanitize.pipeline.state.review_queue import (
    count_left_out,
    count_undecided,
    open_item,
    undecided_items,
)
from medsanitize.pipeline.state.stage_results import JUDGED, PUBLICATION, PUBLISHED, REVIEW
from medsanitize.pipeline.state.staged_objects import staged_path_of
from medsanitize.policies.model import Policy
from medsanitize.release.review import QuarantineEntry


@dataclass(frozen=True, slots=True)
class ReviewCounts:
    """How far a review is.

    Attributes
    ----------
    ending, digest : str
        Of the run, and of what it staged.
    undecided, findings, sampled : int
        Review items, findings of the audit and objects of the sample that await a decision.
    decided, requeued : int
        Decisions made, and objects that the next run sanitizes again.
    quarantined, left_out : int
        Objects in quarantine; review items that were not stored.
    approvable : bool
        Whether the staged release can be approved now.
    """

    ending: str
    digest: str
    undecided: int
    findings: int
    sampled: int
    decided: int
    requeued: int
    quarantined: int
    left_out: int
    approvable: bool


@dataclass(frozen=True, slots=True, repr=False)
class QueuedItem:
    """A review item without a decision: what `decide` calls it, and what a person sees of it."""

    name: str
    rule: str
    location: str
    text: str
    objects: int
    first: int
    has_before: bool
    has_after: bool


@dataclass(frozen=True, slots=True, repr=False)
class AuditFinding:
    """A finding of the audit, or a known value that it found; ``choices`` are its decisions."""

    name: str
    rule: str
    title: str
    text: str
    note: str
    choices: tuple[tuple[str, str], ...]


class ReviewQueue:
    """The review of the last run of a policy, for one person; locks it against runs until it is closed.

    Not thread-safe: use it in the thread that made it.

    Parameters
    ----------
    policy : Policy
        The policy of the run.
    reviewer : str
        Name under which the person decides; it is kept in the state and nowhere in the release.

    Raises
    ------
    UsageError
        The release is anonymous or published, or no run of this policy is complete.
    EnvironmentFailure
        Another process has locked the folders, or the disk failed.
    IntegrityError
        The state is damaged.
    """

    @translated_errors()
    def __init__(self, policy: Policy, reviewer: str = "") -> None:
        self._policy, self._reviewer = policy, reviewer
        self._drawn: list[int] | None = None
        self._session = DecisionSession()
        with ExitStack() as stack:
            # The next run finds changed inputs: looking for them here would read every folder.
            self._state, _ = stack.enter_context(opened_state(policy, settings_difference))
            self._page = self._begin()
            stack.callback(close_session, self._state, self._session)
            self._close = stack.pop_all()

    def __repr__(self) -> str:
        return "ReviewQueue(...)"

    def __enter__(self) -> ReviewQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def reviewer(self) -> str:
        """Name under which the person decides."""
        return self._reviewer

    @translated_errors()
    def close(self) -> None:
        """Unlock the folders; decisions are stored already."""
        self._close.close()

    def _begin(self) -> PendingReview:
        """Return the review that this continues, or begin one."""
        state = self._state
        if PUBLISHED.is_set(state) or PUBLICATION.is_stored(state):
            raise UsageError(
                "This release is published and can no longer be changed",
                "Decide before the next version is published, with release: approve: required",
            )
        begun = REVIEW.load(state)
        # After a decision no ending is stored: the review goes on until the next run.
        if begun is not None and JUDGED.load(state) is None:
            return begun
        ending, digest = staged_ending(state, self._policy)
        approve = digest if ending == "awaiting_approval" else None
        if begun is not None and (begun.digest, begun.approve) == (digest, approve):
            return begun
        page = PendingReview(state.seal.name("review queue", digest).hex(), digest, approve)
        with state.transaction():
            REVIEW.store(state, page)
        return page

    # -- what there is to see -----------------------------------------------------------------

    @translated_errors()
    def counts(self) -> ReviewCounts:
        """Return how far the review is."""
        state = self._state
        requeued = count_requeued(state)
        return ReviewCounts(
            ending=self._ending,
            digest=self._page.digest,
            undecided=count_undecided(state),
            findings=sum(1 for _ in finding_cards(state)),
            sampled=len(self.sample()),
            decided=decision_counts(state).decisions,
            requeued=requeued,
            quarantined=outcome_counts(state)["quarantined"] - requeued,
            left_out=count_left_out(state),
            approvable=self._is_approvable(),
        )

    @property
    def _ending(self) -> str:
        return "refused" if self._page.approve is None else "awaiting_approval"

    def _is_approvable(self) -> bool:
        # Decisions that change the release void the judgment of the run.
        state = self._state
        return self._page.approve is not None and JUDGED.is_stored(state) and not count_requeued(state)

    @translated_errors()
    def items(self, first: int = 0, limit: int = 50) -> list[QueuedItem]:
        """Return review items without a decision, the least certain first."""
        found = []
        for one in undecided_items(self._state, first, limit):
            item = open_item(self._state, one.name)
            pictures = bool(item.before), bool(item.after)
            found.append(
                QueuedItem(
                    one.name.hex(), item.rule, item.location, item.text, one.objects, one.first, *pictures
                )
            )
        return found

    @translated_errors()
    def picture(self, name: str, which: str) -> bytes:
        """Return the picture of a review item, ``before`` or ``after`` (PNG)."""
        item = open_item(self._state, bytes.fromhex(name))
        return item.before if which == "before" else item.after

    @translated_errors()
    def findings(self) -> list[AuditFinding]:
        """Return the findings of the audit that await a decision."""
        return [
            AuditFinding(one.id, one.rule, one.title, one.text, one.note, one.choices)
            for one in finding_cards(self._state)
        ]

    @translated_errors()
    def sample(self) -> list[int]:
        """Return the objects of the sample that this person has still to look at; none after a refused run.

        If the policy requires a sample, they are those that this person has not judged: ``release`` states
        that an object is correct, ``quarantine`` that it is wrong.
        """
        # Drawn once: it reads every object.
        if self._drawn is None:
            self._drawn = drawn_sample(self._state, self._policy, self._ending, self._page.digest)
        return not_looked_at(self._state, self._policy, self._drawn, self._reviewer)

    @translated_errors()
    def quarantined(self) -> list[QuarantineEntry]:
        """Return quarantined objects with the paths of their sources, some of every rule."""
        return list(quarantine_entries(self._state))

    @translated_errors()
    def series(self, first: int = 0, limit: int = 50) -> list[ListedSeries]:
        """Return the series of the staged release."""
        return review_lists.series_page(self._state, first, limit)

    @translated_errors()
    def count_series(self) -> int:
        """Count the series of the staged release."""
        return review_lists.count_series(self._state)

    @translated_errors()
    def objects_of_series(self, number: int, first: int = 0, limit: int = 100) -> list[int]:
        """Return the objects of the series of an object."""
        return review_lists.objects_of_series(self._state, number, first, limit)

    @translated_errors()
    def image(self, number: int) -> StagedImage | None:
        """Return size and frames of the image of an object that is to be released."""
        return review_lists.staged_image(self._state, number)

    @translated_errors()
    def file(self, number: int) -> Path:
        """Return the staged file of an object.

        Raises
        ------
        UsageError
            The object is not staged.
        """
        if review_lists.staged_image(self._state, number) is None:
            raise UsageError("This object is not staged", "Choose one that is to be released")
        found = workspace_of(self._policy).staging / staged_path_of(self._state, number)
        if not found.is_file():
            raise UsageError("A refused run leaves no staged file", "Decide, then run again")
        return found

    @translated_errors()
    def boxes(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the decisions on locations in one object, as pairs of location and verdict."""
        return tuple((one.location, one.verdict) for one in decisions_on(self._state, number))

    @translated_errors()
    def is_undecided(self, number: int) -> bool:
        """Whether an object is to be released and has no decision on the whole of it."""
        return is_undecided(self._state, number)

    @translated_errors()
    def decisions(self, first: int = 0, limit: int = 50) -> list[ListedDecision]:
        """Return the decisions that were made."""
        return review_lists.decisions_page(self._state, first, limit)

    @translated_errors()
    def standing(self) -> Standing:
        """Return how many persons have approved, and how far the required sample is judged."""
        self.sample()  # draws it, if this is the first look
        return standing(self._state, self._policy.release.approval, self._page.digest)

    @translated_errors()
    def log(self) -> list[LoggedDecision]:
        """Return who decided what, in the order of the decisions."""
        return list(logged_decisions(self._state))

    # -- deciding -----------------------------------------------------------------------------

    @translated_errors()
    def decide(
        self,
        decisions: Mapping[str, str],
        reasons: Mapping[str, str] | None = None,
        *,
        scope: str | None = None,
    ) -> RecordedDecisions:
        """Store decisions; they survive a kill once this returns.

        Parameters
        ----------
        decisions : mapping of str to str
            Names of items, ``object-N``, names of findings, or boxes (``box-OBJECT-FRAME-L-T-R-B``), and the
            decision on each.
        reasons : mapping of str to str, optional
            Why a known value is there by chance.
        scope : str, optional
            ``alike``, ``series`` or ``device``: what each decision holds for beyond its item, where that has
            a meaning.

        Raises
        ------
        UsageError
            A decision is none that the item allows; nothing is stored.
        """
        return self._record(None, decisions, reasons or {}, scope)

    @translated_errors()
    def approve(self) -> RecordedDecisions:
        """Approve the staged release, for this person; the next run publishes it if enough persons did."""
        if not self._is_approvable():
            raise UsageError(
                "There is no staged release to approve: decisions change it, or a gate refused it",
                "Run again, and approve what it stages",
            )
        return self._record(self._page.approve, {}, {}, None)

    def _record(
        self,
        approve: str | None,
        decisions: Mapping[str, str],
        reasons: Mapping[str, str],
        scope: str | None,
    ) -> RecordedDecisions:
        made = {
            "version": FORMAT,
            "page": self._page.page,
            "approve": approve,
            "decisions": dict(decisions),
            "reasons": dict(reasons),
        }
        return record_decisions(self._state, checked_decisions(made, scope), self._reviewer, self._session)
