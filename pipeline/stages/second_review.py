"""The review that a policy requires before publication: a sample that persons judge, and its bound."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.judgments import SampleCounts, count_judged, sample_population
from medsanitize.pipeline.state.stage_results import APPROVALS, SAMPLE_SEED
from medsanitize.policies.model import Approval
from medsanitize.release.summary import GateSummary

NAME = "review of a sample"


def draw_sample(state: State, approval: Approval) -> list[int]:
    """Return the objects that each reviewer judges, in a keyed order; none before the first page was made."""
    seed = SAMPLE_SEED.load(state)
    if seed is None or not approval.share:
        return []
    population = list(sample_population(state))
    # A keyed mark as rank: reproducible, and not predictable without the key.
    return heapq.nsmallest(
        math.ceil(approval.share * len(population)),
        population,
        key=lambda number: state.seal.mark(f"{seed}:{number}"),
    )


def sample_counts(state: State, approval: Approval) -> SampleCounts:
    """Count the objects of the sample that are judged."""
    return count_judged(state, draw_sample(state, approval), approval.reviewers)


def is_approved(state: State, approval: Approval, digest: str, given: str | None) -> bool:
    """Report whether enough persons approved this staged release, and judged the whole sample.

    Parameters
    ----------
    state : State
        The state of the run.
    approval : Approval
        What the policy requires.
    digest : str
        Digest of the staged release.
    given : str or None
        Digest of the option ``--approve``, which counts as one person.
    """
    found = APPROVALS.load(state)
    persons = set(found.reviewers) if found is not None and found.digest == digest else set()
    # Nobody knows whose option it is: it may be the one of a person who has approved already.
    count = max(len(persons), int(given == digest))
    return count >= approval.reviewers and _is_complete(state, approval)


def _is_complete(state: State, approval: Approval) -> bool:
    if not approval.share:
        return True
    counts = sample_counts(state, approval)
    # A release without objects has nothing to judge.
    return counts.judged == counts.drawn and (counts.drawn > 0 or not any(sample_population(state)))


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the review that a policy requires is.

    Attributes
    ----------
    reviewers, approved : int
        Persons who have to approve, and who have approved this staged release.
    drawn, judged, errors : int
        Objects of the required sample, those that enough persons judged, and those that are wrong.
    bound : float or None
        Upper bound of the rate of errors, with a confidence of 95 %, once the whole sample is judged.
    """

    reviewers: int
    approved: int
    drawn: int
    judged: int
    errors: int
    bound: float | None


def standing(state: State, approval: Approval | None, digest: str) -> Standing:
    """Return how far the review of a staged release is."""
    found = APPROVALS.load(state)
    approved = len(found.reviewers) if found is not None and found.digest == digest else 0
    if approval is None or not approval.share:
        return Standing(1 if approval is None else approval.reviewers, approved, 0, 0, 0, None)
    counts = sample_counts(state, approval)
    bound = _bound(counts) if 0 < counts.drawn == counts.judged else None
    return Standing(approval.reviewers, approved, counts.drawn, counts.judged, counts.errors, bound)


def _bound(counts: SampleCounts) -> float:
    from medsanitize.verifiers.reid.calibration import clopper_pearson

    return clopper_pearson(counts.errors, counts.drawn)[1]


def second_review_gate(state: State, approval: Approval | None) -> tuple[GateSummary, ...]:
    """Return the gate of the sample, with the rate of errors that it bounds; none without a sample."""
    if approval is None or not approval.share:
        return ()
    counts = sample_counts(state, approval)
    population = sum(1 for _ in sample_population(state))
    if not counts.drawn or counts.judged < counts.drawn:
        detail = f"Of the sample of {approval.sample}, not every object was judged by {_persons(approval)}."
        return (GateSummary(NAME, "not_run", detail, counts.judged, max(counts.drawn, counts.judged)),)
    detail = (
        f"{_persons(approval).capitalize()} judged each of {counts.drawn:,} objects, drawn from"
        f" {population:,} by a secret rank: {counts.errors:,} were wrong and are left out. With a confidence"
        f" of 95 % (Clopper and Pearson), at most {100 * _bound(counts):.2g} % of the objects are."
    )
    return (GateSummary(NAME, "flagged" if counts.errors else "passed", detail, counts.judged, counts.drawn),)


def _persons(approval: Approval) -> str:
    return "1 person" if approval.reviewers == 1 else f"{approval.reviewers} persons"
