"""The dataset card of several hospitals, each of which adds a share of the noise to its counts.

Discrete Laplace noise of a table is a sum of independent shares: no party knows it, and none can take it out.
The shares are so large that those of all but one of the fewest sites of a sum are that noise. More shares
only add to it.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial

from medsanitize.release.canonical_json import canonical_json
from medsanitize.release.dataset_card.discrete_laplace import KeyedBits, laplace_share
from medsanitize.release.dataset_card.noisy_tables import DatasetCard, consistent, scales_of
from medsanitize.release.dataset_card.tables import CardCounts, TableShape

# Probability that is cut off at each end of the noise when its error is computed.
_CUT = 1e-13


@dataclass(frozen=True, slots=True)
class JointTerms:
    """What all sites of a joint card agree on.

    Attributes
    ----------
    name, version : str
        Name of the card, and the digest of its job.
    epsilon : str
        What the card spends at each site, as a decimal number.
    sites, fewest : int
        Sites, and the fewest of them in a sum.
    """

    name: str
    version: str
    epsilon: str
    sites: int
    fewest: int

    @property
    def enough(self) -> int:
        """Number of shares that are the noise; one site of a sum may know its own."""
        return self.fewest - 1


def noisy_counts(counts: CardCounts, terms: JointTerms, key: bytes) -> list[int]:
    """Return the counts of a site with its share of the noise: patients, then all rows.

    Parameters
    ----------
    counts : CardCounts
        Exact counts of the site.
    terms : JointTerms
        The card.
    key : bytes
        Secret of the site.
    """
    asked = {"terms": asdict(terms), "patients": counts.patients, "rows": counts.rows}
    bits = KeyedBits(hmac.digest(key, b"joint card noise/1\0" + canonical_json(asked).encode(), "sha256"))
    found = []
    tables = ((counts.patients,), *counts.rows)
    for scale, rows in zip(scales_of(counts.shapes, terms.epsilon), tables, strict=True):
        found += [count + laplace_share(bits, scale, terms.enough) for count in rows]
    return found


def joint_card(shapes: tuple[TableShape, ...], summed: Sequence[int], terms: JointTerms) -> DatasetCard:
    """Return the card that follows from the sum of `noisy_counts` of all sites."""
    place, noisy = 1, []
    for shape in shapes:
        size = len(shape.categories)
        noisy.append(tuple(summed[place : place + size]))
        place += size
    share = Fraction(terms.epsilon) / (1 + len(shapes))
    error = partial(joint_error, shares=Fraction(terms.sites, terms.enough))
    figures = consistent(shapes, summed[0], noisy, share, error)
    return DatasetCard(terms.name, terms.version, terms.epsilon, *figures)


def joint_error(scale: float, alpha: float, *, shares: Fraction) -> int:
    """Return the least m beyond which the noise of all sites is with a probability up to alpha.

    Parameters
    ----------
    scale : float
        Scale of the noise that is enough.
    alpha : float
        The probability.
    shares : Fraction
        Shares that are added, as a multiple of those that are enough.
    """
    import numpy as np
    from scipy.signal import fftconvolve  # type: ignore[import-untyped]
    from scipy.stats import nbinom  # type: ignore[import-untyped]

    drawn = nbinom(float(shares), -math.expm1(-1 / scale))
    last = int(drawn.isf(_CUT))
    chances = drawn.pmf(np.arange(last + 1))
    difference = np.maximum(fftconvolve(chances, chances[::-1]), 0)
    # From the far end: the probability of a difference of at least this size, of either sign.
    beyond = 2 * difference[last:][::-1].cumsum()[::-1] + 2 * _CUT
    return max(int(np.argmax(np.append(beyond[1:], 0.0) <= alpha)), 0)


def joint_statement(terms: JointTerms) -> str:
    """Return what a joint card promises, in public sentences."""
    return (
        f"Numbers of patients of {terms.sites} hospitals with differential privacy: epsilon {terms.epsilon}, "
        "delta 0, for one patient of a hospital with all images (neighbors: one patient more or less). Each "
        "hospital added a share of discrete Laplace noise to its counts before they were summed; the shares "
        f"of {terms.enough} hospitals are enough for the bound, so that it holds against one that knows its "
        "own, too. The number of patients and each table spend the same part. Then the figures were made "
        "consistent: not negative, and with equal totals where each patient is counted once."
    )


def joint_limits() -> tuple[str, ...]:
    """Return what a joint card does not promise."""
    return (
        "A patient of two hospitals counts at both, and spends epsilon at both.",
        "The epsilons of all cards of a hospital add up, its own and joint ones, and of all other statistics "
        "about these patients. Releases of the hospitals show what their own cards say they show.",
        "Hospitals are trusted to count their patients and to add their share: one that invents numbers "
        "spoils the card, and if two of the fewest in a sum told their shares, less noise would be left.",
        "Errors are those of the noise of all hospitals, before the figures were made consistent.",
    )
