"""Whether matches across two sides are more than the same patients would give if divided by chance.

If nobody is in both sides, all their patients are different people, and a match of two of them is an
accident that does not know where the border between the sides runs: it falls within a side as readily as
across. So the patients are dealt out to the sides again and again, and it is counted how often as many
matches run across. Nothing is assumed of the rate of accidents, nor that pairs of patients are independent of
each other: somebody who resembles many is dealt out with all of their matches.

Sides of unlike origin, patients with unlike numbers of images, and one person under two names all put more
accidents within the sides, which only makes the answer more careful. It is too bold where accidents within a
side were taken out of it: by somebody who searched it for patients who look alike, or by training on it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

Edge = tuple[int, int]
PERMUTATIONS: Final = 9_999
_AT_ONCE: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """What dividing the same patients at random says of matches across two sides.

    Attributes
    ----------
    within
        Matches of different patients within the sides.
    chance
        How often as many run across; 1 where nothing can be said.
    """

    within: int = 0
    chance: float = 1.0


def permutation_p_value(
    across: Collection[Edge], within: tuple[Collection[Edge], Collection[Edge]], sizes: tuple[int, int]
) -> float:
    """How often chance puts as many matches or more across the border, at least 1 in 10,000.

    Parameters
    ----------
    across : collection of (int, int)
        Matches: number of the patient of the one side, and of that of the other.
    within : two collections of (int, int)
        Matches of different patients of the one side, and of the other.
    sizes : (int, int)
        Patients of either side that were compared; kept in every draw.

    Returns
    -------
    float
        A permutation test's p value, 1 where nothing runs across. The same matches give the same value.
    """
    import numpy as np

    if not across:
        return 1.0
    edges = [((0, a), (1, b)) for a, b in across]
    edges += [((side, a), (side, b)) for side in (0, 1) for a, b in within[side]]
    nodes = {node: place for place, node in enumerate(sorted({node for edge in edges for node in edge}))}
    first, second = np.array(sorted((nodes[a], nodes[b]) for a, b in edges), np.int64).T
    draw = np.random.default_rng(0)
    reached, done = 0, 0
    while done < PERMUTATIONS:
        count = min(PERMUTATIONS - done, max(1, _AT_ONCE // len(edges)))
        # Patients without a match change nothing but how many of the others a side gets.
        ours = draw.hypergeometric(*sizes, len(nodes), size=count)
        dealt = draw.permuted(np.arange(len(nodes)) < ours[:, None], axis=1)
        reached += int(((dealt[:, first] != dealt[:, second]).sum(axis=1) >= len(across)).sum())
        done += count
    return (1 + reached) / (1 + PERMUTATIONS)
