"""Amendments during a review: a rule or a word is added, and the decisions that were made stay.

The next run starts again, because every object may change; its state keeps the decisions, which hold for the
same objects, since the inputs are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from medsanitize.pipeline import preflight
from medsanitize.pipeline.resume import release_keys, settings_of
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.decisions import drop_kept_texts
from medsanitize.pipeline.state.stage_results import AMENDED, PUBLISHED, SETTINGS
from medsanitize.policies.model import Policy
from medsanitize.policies.site_lists import SiteLists


@contextmanager
def amending(
    before: Policy, after: Policy, lists: SiteLists | None = None, added: Sequence[str] = ()
) -> Iterator[None]:
    """Lock the release while a policy or list is written, and let its state outlive the change.

    Parameters
    ----------
    before, after : Policy
        The policy without and with the change.
    lists : SiteLists or None
        The lists of the site with the change; None if they do not change.
    added : sequence of str
        New never-words: decisions to keep a text that contains one no longer hold.

    Raises
    ------
    EnvironmentFailure
        Another process holds the release, or the disk failed.
    """
    workspace = workspace_of(before)
    preflight.prepare_state(workspace)
    if workspace.anonymous or not workspace.database.exists():
        yield
        return
    preflight.prepare_folders(workspace)
    with preflight.locked(workspace):
        if workspace.database.exists():
            with State(workspace.database, release_keys(before)).closed_on_failure() as state:
                _record(state, before, after, lists, [one.casefold() for one in added])
                state.close()
        yield


def _record(
    state: State, before: Policy, after: Policy, lists: SiteLists | None, added: Sequence[str]
) -> None:
    # A finished release is not changed, and a state of other settings has nothing to keep.
    if PUBLISHED.is_set(state):
        return
    if settings_of(before, state) not in (SETTINGS.load(state), AMENDED.load(state)):
        return
    # Stored before the change is written: a process killed in between leaves a valid state either way.
    with state.transaction():
        AMENDED.store(state, settings_of(after, state, lists))
        if added:
            drop_kept_texts(state, lambda text: any(one in text.casefold() for one in added))
