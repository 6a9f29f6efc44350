"""The check that a state is opened with the key it was created with."""

from __future__ import annotations

from medsanitize.pipeline.state.database import State

_KEY = "key"


def store_key_check(state: State) -> None:
    """Store a keyed digest that identifies the key, within the open transaction."""
    state.put_plain(_KEY, state.seal.name("key check"))


def is_begun(state: State) -> bool:
    """Report whether a key check was stored; without one there is nothing to compare."""
    return state.plain(_KEY) is not None


def has_same_key(state: State) -> bool:
    """Report whether the state was created with the key it is opened with."""
    return state.plain(_KEY) == state.seal.name("key check")
