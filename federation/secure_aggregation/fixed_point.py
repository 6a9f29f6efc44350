"""Real numbers as whole numbers modulo 2 ** 64, whose sums are exact in any order.

The number of fractional bits follows from a bound that all parties know, so that a sum never overflows and
its rounding is far below that of the statistics themselves; a value beyond the bound is refused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# One bit is the sign, one is kept free.
_BITS: Final = 62
# A float64 has 53 bits: more fractional bits would be zeros.
_MOST_BITS: Final = 52


def fractional_bits(bound: float) -> int:
    """Return the fractional bits with which sums of at most this size fit.

    Raises
    ------
    UsageError
        If so large a sum leaves fewer than 8 fractional bits.
    """
    bits = min(_MOST_BITS, _BITS - math.ceil(math.log2(max(bound, 1.0))))
    if bits < 8:
        raise UsageError("The sums are too large for their precision", "Train on fewer images")
    return bits


def encoded(values: NDArray[np.float64], bits: int, parties: int) -> NDArray[np.uint64]:
    """Round values to fixed point, after checking that the sum of all parties cannot overflow.

    Parameters
    ----------
    values : array of float64
        Values of one party.
    bits : int
        Fractional bits.
    parties : int
        Largest number of parties whose values are added.

    Raises
    ------
    UsageError
        If a value is not finite or too large.
    """
    import numpy as np

    scaled = np.rint(np.ldexp(values, bits))
    # Negated, so that NaN is refused as well.
    if not bool((np.abs(scaled) < 2.0 ** (_BITS + 1) / parties).all()):
        raise UsageError(
            "A statistic of this site's images is not finite, or larger than the sum allows",
            "Look for images of another kind, or that are damaged",
        )
    return scaled.astype(np.int64).view(np.uint64)


def decoded(summed: NDArray[np.uint64], bits: int) -> NDArray[np.float64]:
    """Return the real numbers of a sum."""
    import numpy as np

    return np.ldexp(summed.view(np.int64).astype(np.float64), -bits)
