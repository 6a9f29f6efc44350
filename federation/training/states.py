"""States of a training as safetensors: on the server's disk, and as they are sent to the sites."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import IntegrityError
from medsanitize.release.atomic_io import storage_errors, write_atomic

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.training.sums import State


def write_state(path: Path, state: State) -> None:
    """Write a state atomically and durably."""
    write_atomic(path, _packed(state), sync=True, private=True)


def read_state(path: Path) -> State:
    """Read a state of the own disk."""
    with storage_errors():
        return received_state(path.read_bytes())


def sent_state(state: State) -> bytes:
    """Return what sites get of a state: all but what only the server needs."""
    from medsanitize.verifiers.reid.training.sums import SERVER_ONLY

    return _packed({name: value for name, value in state.items() if not name.startswith(SERVER_ONLY)})


def received_state(content: bytes) -> State:
    """Read a state.

    Raises
    ------
    IntegrityError
        If it is damaged.
    """
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        loaded = load(content)
    except (SafetensorError, ValueError, KeyError):
        raise IntegrityError("The state of a federated training is damaged", "Start a new job") from None
    return {name: np.asarray(value, np.float64) for name, value in loaded.items()}


def _packed(state: State) -> bytes:
    import numpy as np
    from safetensors.numpy import save

    return save({name: np.array(state[name], np.float64, order="C") for name in sorted(state)})
