"""A review in progress: its queue, a page at a time, and decisions that are stored as they are made.

They are stored as those of ``medsanitize review --decisions`` are, so that the next run follows either alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.pipeline.review.pages import finding_cards, opened_state, quarantine_entries, staged_ending
from medsanitize.pipeline.review.review_decisions import (
    FORMAT,
    RecordedDecisions,
    checked_decisions,
    record_decisions,
)
from medsanitize.pipeline.review.sample import draw_review_sample
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.state import review_lists
from medsanitize.pipeline.state.decisions import decision_counts, decisions_on, is_undecided
from medsanitize.pipeline.state.objects import outcome_counts
from medsanitize.pipeline.state.reset import count_requeued
from medsanitize.pipeline.state.result_types import PendingReview
from medsanitize.pipeline.state.review_lists import ListedDecision, ListedSeries, StagedImage
from medsanitize.pipeline.state.review_queue import count_left_out, open_item
from medsanitize.pipeline.state.stage_results import JUDGED, PUBLICATION, PUBLISHED, REVIEW, SAMPLE_SEED
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


class ReviewSession:
    """The review of the last run of a policy; locks it against other runs until it is closed.

    Not thread-safe: use it in the thread that made it.

    Parameters
    ----------
    policy : Policy
        The policy of the run.

    Raises
    ------
    UsageError
        The release is anonymous or published, or no run of this policy is complete.
    EnvironmentFailure
        Another process has locked the folders.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._drawn: list[int] | None = None
        with ExitStack() as stack:
            self._state, _ = stack.enter_context(opened_state(policy))
            self._page = self._begin()
            self._close = stack.pop_all()

    def __repr__(self) -> str:
        return "ReviewSession(...)"

    def __enter__(self) -> ReviewSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        # After a decision no ending is stored: the review goes on until the next run.
        begun = REVIEW.load(state)
        if begun is not None:
            return begun
        ending, digest = staged_ending(state, self._policy)
        if not SAMPLE_SEED.is_stored(state):
            with state.transaction():
                SAMPLE_SEED.store(state, digest)
        approve = digest if ending == "awaiting_approval" else None
        page = PendingReview(state.seal.name("review session", digest).hex(), digest, approve)
        with state.transaction():
            REVIEW.store(state, page)
        return page

    # -- what there is to see -----------------------------------------------------------------

    def counts(self) -> ReviewCounts:
        """Return how far the review is."""
        state, judged = self._state, JUDGED.load(self._state)
        requeued = count_requeued(state)
        ending = judged.ending if judged else ("awaiting_approval" if self._page.approve else "refused")
        return ReviewCounts(
            ending=ending,
            digest=self._page.digest,
            undecided=review_lists.count_undecided(state),
            findings=len(list(finding_cards(state))),
            sampled=len(self.sample()),
            decided=decision_counts(state).decisions,
            requeued=requeued,
            quarantined=outcome_counts(state)["quarantined"] - requeued,
            left_out=count_left_out(state),
            approvable=self._page.approve is not None and not requeued,
        )

    def items(self, first: int = 0, limit: int = 50) -> list[QueuedItem]:
        """Return review items without a decision, the least certain first."""
        listed = review_lists.undecided_page(self._state, first, limit)
        found = []
        for one in listed:
            item = open_item(self._state, one.name)
            pictures = bool(item.before), bool(item.after)
            found.append(
                QueuedItem(
                    one.name.hex(), item.rule, item.location, item.text, one.objects, one.first, *pictures
                )
            )
        return found

    def picture(self, name: str, which: str) -> bytes:
        """Return the picture of a review item, ``before`` or ``after`` (PNG)."""
        item = open_item(self._state, bytes.fromhex(name))
        return item.before if which == "before" else item.after

    def findings(self) -> list[AuditFinding]:
        """Return the findings of the audit that await a decision."""
        return [
            AuditFinding(one.id, one.rule, one.title, one.text, one.note, one.choices)
            for one in finding_cards(self._state)
        ]

    def sample(self) -> list[int]:
        """Return the objects of the sample that have no decision; none after a refused run."""
        if self._page.approve is None:
            return []
        # Drawn once: it reads every object.
        if self._drawn is None:
            self._drawn = draw_review_sample(self._state, SAMPLE_SEED.load(self._state) or "")
        return [number for number in self._drawn if is_undecided(self._state, number)]

    def quarantined(self) -> list[QuarantineEntry]:
        """Return quarantined objects with the paths of their sources, some of every rule."""
        return list(quarantine_entries(self._state))

    def series(self, first: int = 0, limit: int = 50) -> list[ListedSeries]:
        """Return the series of the staged release."""
        return review_lists.series_page(self._state, first, limit)

    def count_series(self) -> int:
        """Count the series of the staged release."""
        return review_lists.count_series(self._state)

    def objects_of_series(self, number: int, first: int = 0, limit: int = 100) -> list[int]:
        """Return the objects of the series of an object."""
        return review_lists.objects_of_series(self._state, number, first, limit)

    def image(self, number: int) -> StagedImage | None:
        """Return size and frames of the image of an object that is to be released."""
        return review_lists.staged_image(self._state, number)

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

    def boxes(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the decisions on locations in one object, as pairs of location and verdict."""
        return tuple((one.location, one.verdict) for one in decisions_on(self._state, number))

    def is_undecided(self, number: int) -> bool:
        """Whether an object is to be released and has no decision on the whole of it."""
        return is_undecided(self._state, number)

    def decisions(self, first: int = 0, limit: int = 50) -> list[ListedDecision]:
        """Return the decisions that were made."""
        return review_lists.decisions_page(self._state, first, limit)

    # -- deciding -----------------------------------------------------------------------------

    def decide(
        self, decisions: Mapping[str, str], reasons: Mapping[str, str] | None = None
    ) -> RecordedDecisions:
        """Store decisions; they survive a kill once this returns.

        Parameters
        ----------
        decisions : mapping of str to str
            Names of items, ``object-N``, names of findings, or boxes (``box-OBJECT-FRAME-L-T-R-B``), and the
            decision on each.
        reasons : mapping of str to str, optional
            Why a known value is there by chance.

        Raises
        ------
        UsageError
            A decision is none that the item allows; nothing is stored.
        """
        return self._record(None, decisions, reasons or {})

    def approve(self) -> RecordedDecisions:
        """Approve the staged release; the next run publishes it."""
        if not self.counts().approvable:
            raise UsageError(
                "The staged release cannot be approved: decisions change it, or a gate refused it",
                "Run again, and approve what it stages",
            )
        return self._record(self._page.approve, {}, {})

    def _record(
        self, approve: str | None, decisions: Mapping[str, str], reasons: Mapping[str, str]
    ) -> RecordedDecisions:
        made = {
            "version": FORMAT,
            "page": self._page.page,
            "approve": approve,
            "decisions": dict(decisions),
            "reasons": dict(reasons),
        }
        return record_decisions(self._state, checked_decisions(made))
