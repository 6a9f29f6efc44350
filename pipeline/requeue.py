"""Sanitizing objects again, after a review decision, a withdrawn release or the loss of staged files.

Objects are marked in the transaction of the caller and reopened later, so an interrupted process leaves all
marks or none. Both steps reset the stages that depend on sanitizing.
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
    """Void the decisions on the whole set and requeue the objects they ruled out, within the transaction."""
    requeue_ruled_out(state)
    _reset(state)


def requeue(state: State, numbers: Iterable[int], staging: Path) -> None:
    """Requeue objects whose staged files are missing, and void the decisions on the whole set.

    Parameters
    ----------
    state : State
        The state of the run.
    numbers : iterable of int
        Row numbers of the objects.
    staging : Path
        The staging folder, from which the remaining files of the objects are removed.
    """
    with state.transaction():
        invalidate_decisions(state)
        mark_requeued(state, numbers)
    release_requeued(state, staging)


def release_requeued(state: State, staging: Path) -> None:
    """Make requeued objects pending, and quarantine those that a review decided to quarantine."""
    if count_requeued(state):
        # Files first: after the commit, no row would name the stale ones.
        remove_unreleased(state, staging)
        with state.transaction():
            reopen_requeued(state)
            _reset(state)
    with state.transaction():
        quarantine_decided(state)


def reset_all(state: State) -> None:
    """Make every object pending after the staging folder was removed; review decisions remain valid."""
    with state.transaction():
        invalidate_decisions(state)
        reopen_all(state)
        _reset(state)
        PUBLICATION.remove(state)
        WITHDRAWN.remove(state)


def _reset(state: State) -> None:
    # Review items are results of sanitizing, so that stage is reset together with the stages after it.
    SanitizeStage.reset(state)
    reset_after(state, SanitizeStage.name)
    JUDGED.remove(state)
