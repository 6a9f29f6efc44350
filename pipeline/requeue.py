"""Sanitizing objects again: after a review decided on them, a withdrawn release, or missing staged files.

Objects are marked first, in the transaction of the caller, and released at the next opportunity, so that a
killed process leaves either all of it or nothing. Both steps reset the stages that depend on sanitizing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from medsanitize.pipeline.sequence import reset_after
from medsanitize.pipeline.stages.sanitize import SanitizeStage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.records import remove_unreleased
from medsanitize.pipeline.state.reset import (
    count_requeued,
    mark_requeued,
    quarantine_decided,
    reopen_all,
    reopen_requeued,
    requeue_ruled_out,
)
from medsanitize.pipeline.state.stage_results import JUDGED, PUBLICATION, WITHDRAWN


def invalidate_decisions(state: State) -> None:
    """Void every decision on the whole set, within the open transaction; what it ruled out is requeued."""
    requeue_ruled_out(state)
    _reset(state)


def requeue(state: State, numbers: Iterable[int], staging: Path) -> None:
    """Queue objects again whose files are missing, and void the decisions on the whole set."""
    with state.transaction():
        invalidate_decisions(state)
        mark_requeued(state, numbers)
    release_requeued(state, staging)


def release_requeued(state: State, staging: Path) -> None:
    """Make requeued objects pending, and quarantine those that a review decided to quarantine."""
    if count_requeued(state):
        remove_unreleased(state, staging)
        with state.transaction():
            reopen_requeued(state)
            _reset(state)
    with state.transaction():
        quarantine_decided(state)


def reset_all(state: State) -> None:
    """Make every object pending again: nothing is staged any more. Decisions of a review still hold."""
    with state.transaction():
        invalidate_decisions(state)
        reopen_all(state)
        _reset(state)
        PUBLICATION.remove(state)
        WITHDRAWN.remove(state)


def _reset(state: State) -> None:
    # The object's own review items are results of sanitizing it, so that stage is reset with those after it.
    SanitizeStage.reset(state)
    reset_after(state, SanitizeStage.name)
    JUDGED.remove(state)
