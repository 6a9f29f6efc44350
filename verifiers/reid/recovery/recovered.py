"""How much an attack recovers: the share of rows that it tells from all others, beside chance and claim."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.verifiers.reid.calibration import clopper_pearson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Each bound of a two-sided interval at 95 %.
_EACH_BOUND: Final = 0.975
# Probability of taking chance for success: new keys at each run must not give false alarms.
_FALSE_ALARM: Final = 1e-4
_EQUAL: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Recovered:
    """Success of one attack.

    Attributes
    ----------
    scheme
        What was attacked: ``flake``, ``masks``, ``ckks-scores`` or ``private-overlap``.
    attacker
        Who attacks.
    known
        Number of embeddings that the attacker knows besides, or has asked with.
    rows, recovered
        Number of unknown embeddings, and of those whose estimate is nearest to the true one among all.
    lower, upper
        Exact 95 % interval of the share.
    chance
        Share of a guess.
    relative_error
        Median distance between estimate and truth by the length of the truth.
    claim
        What is claimed about this attacker.
    """

    scheme: str
    attacker: str
    known: int
    rows: int
    recovered: int
    lower: float
    upper: float
    chance: float
    relative_error: float
    claim: str

    @property
    def share(self) -> float:
        """Share of the unknown embeddings that were recovered."""
        return self.recovered / self.rows

    def is_above_chance(self, attacks: int) -> bool:
        """Whether the share exceeds chance, at 99.99 % over this number of attacks together."""
        lower, _ = clopper_pearson(self.recovered, self.rows, 1 - _FALSE_ALARM / attacks)
        return lower > self.chance

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {**asdict(self), "share": self.share}


def judge(
    estimates: NDArray[np.float64],
    truth: NDArray[np.float64],
    rows: NDArray[np.intp],
    *,
    scheme: str,
    attacker: str,
    known: int,
    claim: str,
) -> Recovered:
    """Compare estimates with the truth.

    Parameters
    ----------
    estimates : array of float64, shape (n, dimension)
        Estimates of all rows.
    truth : array of float64, shape (n, dimension)
        The embeddings.
    rows : array of int
        Rows that the attacker does not know; only these count.
    scheme, attacker, known, claim
        As in `Recovered`.
    """
    import numpy as np

    found, right = estimates[rows], truth[rows]
    similarity = _unit(found) @ _unit(truth).T
    # Equal images have equal embeddings: either is right. An estimate of zero length points to no row.
    nearest = similarity[np.arange(len(rows)), rows] >= similarity.max(axis=1) - _EQUAL
    hits = int((nearest & (np.abs(found).max(axis=1) > 0)).sum())
    apart = np.linalg.norm(found - right, axis=1) / np.maximum(np.linalg.norm(right, axis=1), 1e-12)
    lower, upper = clopper_pearson(hits, len(rows), _EACH_BOUND)
    chance, error = 1 / len(truth), float(np.median(apart))
    return Recovered(scheme, attacker, known, len(rows), hits, lower, upper, chance, error, claim)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1)
    return unit
