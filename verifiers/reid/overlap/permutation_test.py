"""Permutation test of the matches between two datasets.

If no patient is in both datasets, every match is a false match, and as likely within a dataset as across. The
test reassigns the patients to the datasets at random, keeping both sizes, and counts how often at least as
many matches are across. It assumes neither a false match rate nor independent pairs: a patient who resembles
several others is reassigned together with all matches.

Datasets of different origin, different numbers of images per patient, and one person under two IDs all add
matches within the datasets, which makes the test conservative. It is anticonservative where false matches
within a dataset were removed beforehand, by deduplication or by training on that dataset.
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
    """Result of the test.

    Attributes
    ----------
    within
        Matches of different patients within the datasets.
    p_value
        The p-value; 1 where the test was not run.
    """

    within: int = 0
    p_value: float = 1.0


def permutation_p_value(
    across: Collection[Edge], within: tuple[Collection[Edge], Collection[Edge]], sizes: tuple[int, int]
) -> float:
    """Compute the p-value of the matches across two datasets; at least 1e-4.

    Parameters
    ----------
    across : collection of (int, int)
        Matches: number of the patient in the first dataset, and in the second.
    within : two collections of (int, int)
        Matches of different patients in the first dataset, and in the second.
    sizes : (int, int)
        Compared patients of each dataset; every permutation keeps them.

    Returns
    -------
    float
        The p-value, 1 without a match across. Deterministic.
    """
    import numpy as np

    if not across:
        return 1.0
    edges = [((0, a), (1, b)) for a, b in across]
    edges += [((dataset, a), (dataset, b)) for dataset in (0, 1) for a, b in within[dataset]]
    nodes = {node: place for place, node in enumerate(sorted({node for edge in edges for node in edge}))}
    first, second = np.array(sorted((nodes[a], nodes[b]) for a, b in edges), np.int64).T
    draw = np.random.default_rng(0)
    reached, done = 0, 0
    while done < PERMUTATIONS:
        count = min(PERMUTATIONS - done, max(1, _AT_ONCE // len(edges)))
        # Patients without a match only change how many of the others a dataset gets: draw that number.
        ours = draw.hypergeometric(*sizes, len(nodes), size=count)
        dealt = draw.permuted(np.arange(len(nodes)) < ours[:, None], axis=1)
        reached += int(((dealt[:, first] != dealt[:, second]).sum(axis=1) >= len(across)).sum())
        done += count
    # The observed assignment counts as one permutation: a p-value of 0 would be anticonservative.
    return (1 + reached) / (1 + PERMUTATIONS)
