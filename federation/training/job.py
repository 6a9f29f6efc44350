"""What server and sites need of a job, whatever it computes from sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from medsanitize.errors import IntegrityError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from medsanitize.federation.training.invitation import Invitation
    from medsanitize.verifiers.reid.training.sums import State, Summed
    from numpy.typing import NDArray


class FederatedJob(Protocol):
    """Rounds of sums, and a result that server and sites write alike."""

    @property
    def invitation(self) -> Invitation:
        """The job as all parties know it."""

    def start(self) -> State:
        """Return the state before the first round."""

    def asked(self, state: State) -> Mapping[str, Summed]:
        """Return what is summed in the round of a state; nothing at the end."""

    def contribution(self, state: State, site: Any, number: int) -> NDArray[np.uint64]:
        """Compute what a site adds in the round of a number, in fixed point."""

    def length(self, state: State) -> int:
        """Return the length of the vectors of a round."""

    def following(self, state: State, total: NDArray[np.uint64]) -> State:
        """Return the state that follows from a sum."""

    def save(self, state: State, output: Path, statement: str) -> str:
        """Write the result of the last state, and return its digest: equal at the server and all sites."""


def check_only_round(number: int) -> None:
    """Refuse a second sum of a job of one round.

    The difference of two sums of different sites is what one site gave.

    Raises
    ------
    IntegrityError
        The server asked for another round than the first.
    """
    if number != 0:
        raise IntegrityError("The server asked for a second sum of the same counts", "Start a new job")
