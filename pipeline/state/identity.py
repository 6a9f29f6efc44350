"""The key that a state was begun under."""

from __future__ import annotations

from medsanitize.pipeline.state.database import State

_KEY = "key"


def store_key_check(state: State) -> None:
    """State which key this state is of, within the open transaction."""
    state.put_plain(_KEY, state.seal.name("key check"))


def is_begun(state: State) -> bool:
    """Whether a run got as far as to state its key; before that there is nothing to compare with."""
    return state.plain(_KEY) is not None


def has_same_key(state: State) -> bool:
    """Whether the state was begun under the key that it is opened with."""
    return state.plain(_KEY) == state.seal.name("key check")
