"""Excess test: do more training patients than holdout patients have a match among the synthetic images?

Nobody of the holdout can have been copied. If the generator copied nobody, each pair of a training and a
holdout patient is as likely to have its match on either side (McNemar's exact test).
"""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.generators.privacy_gate.parameters import TEST_CONFIDENCE


@dataclass(frozen=True, slots=True)
class ExcessTest:
    """Patients of equal samples of training and holdout that a synthetic image matches.

    Attributes
    ----------
    patients
        Number of patients per split.
    training, holdout
        Pairs in which only the training patient, and only the holdout patient, has a match.
    chance
        p-value, one-sided.
    """

    patients: int
    training: int
    holdout: int
    chance: float

    @property
    def veto(self) -> bool:
        """Whether more training patients have a match than chance explains."""
        return self.chance <= 1 - TEST_CONFIDENCE


def excess_test(training: set[int], holdout: set[int], patients: int) -> ExcessTest:
    """Compare the pairs of patients with a match on one side only.

    Parameters
    ----------
    training, holdout
        Pairs whose training patient, and whose holdout patient, an image matches.
    patients
        Number of pairs.
    """
    from scipy.stats import binom  # type: ignore[import-untyped]

    ours, theirs = len(training - holdout), len(holdout - training)
    # sf(k - 1) is P(X >= k); 1 without a match on one side only.
    return ExcessTest(patients, ours, theirs, float(binom.sf(ours - 1, ours + theirs, 0.5)))
