"""One-cycle learning rate (Smith and Topin 2019) as a function of the step, so that a resume is exact."""

from __future__ import annotations

import math

# The defaults of torch's OneCycleLR.
INITIAL_DIVISOR = 25.0
FINAL_DIVISOR = 1e4
WARMUP_SHARE = 0.3
MOMENTA = (0.95, 0.85)


def one_cycle(step: int, steps: int, largest: float) -> tuple[float, float]:
    """Compute learning rate and momentum at a step from 0 to ``steps - 1``.

    The rate rises along a cosine from 1/25 of ``largest`` during 30 % of the steps and falls to 1/250,000 of
    it; momentum falls from 0.95 to 0.85 and rises again. With the largest rate of Packhäuser et al. 2022,
    0.1584, it starts at their lower bound, 0.0063.

    Parameters
    ----------
    step : int
        The step, from 0.
    steps : int
        Number of steps of the cycle.
    largest : float
        Largest learning rate.
    """
    peak = WARMUP_SHARE * steps - 1
    low = largest / INITIAL_DIVISOR
    if step <= peak:
        share = _cosine(step / peak) if peak > 0 else 1.0
        return low + (largest - low) * share, MOMENTA[0] + (MOMENTA[1] - MOMENTA[0]) * share
    share = _cosine((step - peak) / (steps - 1 - peak)) if steps - 1 > peak else 1.0
    return largest + (low / FINAL_DIVISOR - largest) * share, MOMENTA[1] + (MOMENTA[0] - MOMENTA[1]) * share


def _cosine(share: float) -> float:
    """From 0 to 1 along half a cosine."""
    return (1 - math.cos(math.pi * share)) / 2
