"""Arrays of a round as one vector in fixed point, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from medsanitize.federation.secure_aggregation.fixed_point import decoded, encoded, fractional_bits

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.training.sums import Arrays, Summed
    from numpy.typing import NDArray


def joined_vector(found: Arrays, wanted: Mapping[str, Summed], parties: int) -> NDArray[np.uint64]:
    """Return the arrays that are summed as one vector, in the order of their names.

    Raises
    ------
    UsageError
        A statistic is not finite, or larger than the sum allows.
    """
    import numpy as np

    return np.concatenate(
        [
            encoded(found[name].reshape(-1), fractional_bits(wanted[name].bound), parties)
            for name in sorted(wanted)
        ]
    )


def vector_length(wanted: Mapping[str, Summed]) -> int:
    """Return the length of the vector of a round."""
    return sum(math.prod(one.shape) for one in wanted.values())


def separated(total: NDArray[np.uint64], wanted: Mapping[str, Summed]) -> Arrays:
    """Return the arrays of a sum."""
    place, sums = 0, {}
    for name in sorted(wanted):
        size = math.prod(wanted[name].shape)
        part = decoded(total[place : place + size], fractional_bits(wanted[name].bound))
        sums[name] = part.reshape(wanted[name].shape)
        place += size
    return sums
