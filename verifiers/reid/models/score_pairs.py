"""Many pairs scored, quickly on a machine that others work on as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import Verification
    from numpy.typing import NDArray

_AT_ONCE: Final = 128
"""Pairs whose vectors stay in the cache."""


def score_rows(
    verifier: Verification,
    one: NDArray[np.float32],
    first: NDArray[np.int64],
    other: NDArray[np.float32],
    second: NDArray[np.int64],
    *,
    done: Callable[[int], None] = lambda _: None,
) -> NDArray[np.float32]:
    """Score rows ``first`` of one side's vectors with rows ``second`` of the other's, ``(n,)``.

    ``done`` is told, every so often, how many more pairs were scored, and may raise.

    On one thread: products so small are no faster on several, and where threads wait for one another while
    the processors have other work, each pair takes a hundred times as long.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    found = np.empty(len(first), np.float32)
    with threadpool_limits(1, "blas"):
        for start in range(0, len(first), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            found[part] = verifier.score(one[first[part]], other[second[part]])
            done(len(found[part]))
    return found
