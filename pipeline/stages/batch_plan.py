"""Which objects are sanitized together: batches by what they are expected to cost.

Guided self-scheduling (Polychronopoulos and Kuck 1987): a batch is a part of what remains, so that batches
become small towards the end and no worker waits long for another. Neither the plan nor the order of results
changes what is released.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from medsanitize.pipeline.state.pending_objects import CostWeights
from medsanitize.policies.model import Policy

# Seconds of one core: rules of a small object; copying and digests; looking for text where there is none, and
# reading it (0.15 and 0.5 s per million pixels).
_PER_OBJECT = 1e-3
_PER_BYTE = 5e-9
_PER_OTHER_PIXEL = 0.15e-6
_PER_TEXT_PIXEL = 0.5e-6
# A batch takes at most this part of what remains, divided by the workers.
_PARTS_PER_WORKER = 4
# An object that takes this part of the whole, divided by the workers, is large: sanitized first and alone.
_LARGE_PARTS_PER_WORKER = 32
# A batch reports progress when it ends, and a kill repeats it.
_MAX_OBJECTS = 48
_MAX_SECONDS = 5.0


class Costly(Protocol):
    """Something with an estimated cost in seconds."""

    @property
    def cost(self) -> float:
        """The estimate."""


Item = TypeVar("Item", bound=Costly)


def cost_weights(policy: Policy) -> CostWeights:
    """Return what objects cost under a policy: pixels cost only where they are searched for text."""
    if not policy.dicom.options.clean_pixel_data:
        return CostWeights(_PER_OBJECT, _PER_BYTE, 0.0, 0.0)
    other = _PER_OTHER_PIXEL if policy.pixels.search == "every-image" else 0.0
    return CostWeights(_PER_OBJECT, _PER_BYTE, _PER_TEXT_PIXEL, other)


def large_cost(total: float, workers: int) -> float:
    """Return the cost from which on an object is large."""
    return total / (_LARGE_PARTS_PER_WORKER * workers)


def plan_batches(items: Iterable[Item], total: float, workers: int) -> Iterator[Sequence[Item]]:
    """Split items into batches that become smaller, without changing their order.

    Parameters
    ----------
    items : iterable
        Large ones first, see ``large_cost``; each of them forms a batch by itself.
    total : float
        Their cost together; a wrong one makes batches of another size.
    workers : int
        Number of workers.
    """
    batch: list[Item] = []
    cost, remaining, most = 0.0, total, _most(total, total, workers)
    for item in items:
        if batch and (len(batch) == _MAX_OBJECTS or cost + item.cost > most):
            yield batch
            remaining -= cost
            batch, cost, most = [], 0.0, _most(remaining, total, workers)
        batch.append(item)
        cost += item.cost
    if batch:
        yield batch


def _most(remaining: float, total: float, workers: int) -> float:
    """Return what the next batch may cost, unless it is one object."""
    return min(remaining / (_PARTS_PER_WORKER * workers), large_cost(total, workers), _MAX_SECONDS)
