"""The verdict of a near comparison, and the statement of what each party learned.

As in `medsanitize.verifiers.reid.overlap.verdict`: exclusive needs that nobody matches and that a shared
patient would seldom be missed at either party; overlapping needs more matches than strangers give. That is an
exact conditional test: if nobody is in both, a match of strangers lies across the parties as often as a pair
of strangers does (Przyborowski and Wilenski 1940). Matching patients are counted at the party with fewer of
them, so that one patient who resembles many counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from medsanitize.federation.near.bounds import NearBound
from medsanitize.federation.near.process import Opened, Outcome
from medsanitize.federation.private_overlap.statement import ASSUMPTIONS
from medsanitize.verifiers.reid.calibration import CONFIDENCE
from medsanitize.verifiers.reid.overlap.thresholds import MAX_FALSE_NON_MATCH
from medsanitize.verifiers.reid.overlap.verdict import MATCH_LEVEL

NearResult = Literal["exclusive", "overlapping", "inconclusive"]
_LEARNED: Final = {
    "bit": "whether any patient matches",
    "count": "how many patients match",
    "each": "which of its own images match a patient",
    "patients": "which of its own patients match, and how many of the party with fewer that do",
}
_TOO_MANY: Final = 10_000


@dataclass(frozen=True, slots=True)
class NearVerdict:
    """The verdict of a near comparison.

    Attributes
    ----------
    result
        ``exclusive``, ``overlapping`` or ``inconclusive``.
    sentence
        The verdict with its numbers.
    statement
        What each party learned, and what is assumed.
    miss
        Upper bound of the probability that a shared patient has no match.
    max_shared_patients
        Upper 95 % bound of the number of shared patients; None where nothing bounds it.
    """

    result: NearResult
    sentence: str
    statement: str
    miss: float
    max_shared_patients: int | None


def conclude_near(
    partner: str, outcome: Outcome, opened: Opened, sizes: tuple[int, int], bounds: Sequence[NearBound]
) -> NearVerdict:
    """Derive the verdict from what was opened and from the bounds of both parties.

    Parameters
    ----------
    partner : str
        Name of the partner.
    outcome : str
        What was opened.
    opened : Opened
        Its value.
    sizes : (int, int)
        Patients of the asking and of the answering party.
    bounds : sequence of NearBound
        Statement of each party.
    """
    miss, found = max(one.miss for one in bounds), opened.number
    chance = chance_of(found, sizes, bounds)
    exact = outcome != "bit" or not found
    most = most_shared(found, miss) if exact else None
    doubts = list(_doubts(bounds, miss))
    told = _told(partner, outcome, found, sizes)
    if found and chance <= MATCH_LEVEL:
        result: NearResult = "overlapping"
        sentence = f"{told}: the releases overlap. Strangers give that many in {chance:.2g} of comparisons."
    elif not found and not doubts:
        result = "exclusive"
        sentence = (
            f"{told}: the releases are exclusive. A patient who is in both would be missed with a probability"
            f" of at most {miss:.1%} ({CONFIDENCE:.0%} bound)."
        )
    else:
        result = "inconclusive"
        if found:
            doubts.insert(0, f"strangers give that many in {chance:.2g} of comparisons")
        sentence = f"{told}, which is inconclusive: {'; '.join(doubts)}."
        if most is not None and not any(one.left_out for one in bounds):
            sentence += f" With {CONFIDENCE:.0%} confidence at most {most:,} patients are in both."
    return NearVerdict(result, sentence, near_statement(partner, outcome), miss, most)


def chance_of(found: int, sizes: tuple[int, int], bounds: Sequence[NearBound]) -> float:
    """Probability of as many matches across the parties if nobody is in both."""
    from scipy.special import betainc  # type: ignore[import-untyped]

    across, strangers = sizes[0] * sizes[1], sum(one.strangers for one in bounds)
    inside = sum(one.matches for one in bounds)
    # At least ``found`` of all matches lie across: a binomial tail.
    return float(betainc(found, inside + 1, across / (across + strangers))) if found else 1.0


def most_shared(found: int, miss: float) -> int | None:
    """Largest number of shared patients of whom at most ``found`` match with more than 5 % probability."""
    from scipy.special import bdtr

    if miss >= 1:
        return None
    shared = found
    while shared < found + _TOO_MANY and float(bdtr(found, shared + 1, 1 - miss)) > 1 - CONFIDENCE:
        shared += 1
    return shared if shared < found + _TOO_MANY else None


def near_statement(partner: str, outcome: Outcome) -> str:
    """State what each party learns from a near comparison with a partner."""
    return (
        f"This party learns {_LEARNED[outcome]} among the images of one kind, and of {partner} the number of"
        f" patients, the distance that it proposes and its error bounds; {partner} learns the same numbers of"
        f" this party, and nothing about the result. Nobody learns embeddings or scores. {ASSUMPTIONS}"
    )


def _doubts(bounds: Sequence[NearBound], miss: float) -> list[str]:
    found = []
    if left := sum(one.left_out for one in bounds):
        found.append(f"{left:,} patients or images were not compared")
    if miss > MAX_FALSE_NON_MATCH:
        behind = " and ".join(f"{one.patients:,}" for one in bounds)
        found.append(
            f"a patient in both would be missed with a probability of up to {miss:.0%}, where a claim allows"
            f" {MAX_FALSE_NON_MATCH:.0%} (measured on {behind} patients with two images)"
        )
    return found


def _told(partner: str, outcome: Outcome, found: int, sizes: tuple[int, int]) -> str:
    among = f"of {sizes[0]:,} here and {sizes[1]:,} at {partner}"
    if outcome == "bit":
        return f"{'At least one patient matches' if found else 'No patient matches'}, {among}"
    patients = "1 patient matches" if found == 1 else f"{found:,} patients match"
    return f"{patients if found else 'No patient matches'}, {among}"
