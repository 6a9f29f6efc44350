"""What may be concluded from a comparison: exclusive, overlapping, or cannot tell, in one sentence.

Copies and names prove an overlap by themselves. Matches of a model prove one only where chance makes so many
in at most one of twenty comparisons of sides that share nobody, which is shown in one of two ways:

- even at the upper bound of the false match rate, Poisson's distribution hardly makes so many; or
- the estimated rate hardly makes so many, and the same patients divided at random hardly give so many across
  (see ``overlap.exchange``). The estimate alone proves nothing: few patients calibrate it, and matches of one
  patient with several others come together. The random division rests on neither.

That is asked of all matches and of the sure ones, with half the risk each: where the looser threshold lets
much chance through, a few sure matches say more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from medsanitize.verifiers.reid.calibration import CONFIDENCE, OperatingPoint
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap.permutation_test import PermutationTest
from medsanitize.verifiers.reid.overlap.thresholds import MAX_FALSE_NON_MATCH, Thresholds

OverlapResult = Literal["exclusive", "overlapping", "cannot tell"]
_SURPRISE: Final = 1 - CONFIDENCE
"""Matches that chance makes less often than this are no chance."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was compared and found between two sides.

    Attributes
    ----------
    copies
        Pairs of images that are the same, by what was equal: ``bytes``, ``pixels``, ``look``.
    ids
        Patients that one table names on both sides.
    matched
        Pairs of patients that the model calls one patient, or possibly one, by modality.
    sure
        Those of them that reach the stricter threshold.
    compared
        Pairs of patients that the model compared, by modality.
    limits
        Threshold and rates by modality; absent where nothing calibrates the model.
    unread
        Images of either side of which not everything could be compared, by reason.
    apart
        Patients of either side that no model could compare with anybody of the other side.
    look_alike
        Pairs that look like copies although fingerprints do not tell these images apart.
    complete
        Whether no pair that had to be scored was left out.
    exchanged, sure_exchanged
        Of all matches, and of the sure ones, what the same patients divided at random give, by modality.
    """

    copies: Mapping[str, int]
    ids: int
    matched: Mapping[Modality, int]
    sure: Mapping[Modality, int]
    compared: Mapping[Modality, int]
    limits: Mapping[Modality, Thresholds]
    unread: Mapping[str, int]
    apart: int
    look_alike: int = 0
    complete: bool = True
    exchanged: Mapping[Modality, PermutationTest] = field(default_factory=dict)
    sure_exchanged: Mapping[Modality, PermutationTest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OverlapVerdict:
    """The conclusion.

    Attributes
    ----------
    result
        ``exclusive``, ``overlapping`` or ``cannot tell``.
    sentence
        What a maintainer may conclude, and on what it rests.
    miss
        Upper bound of the chance that a patient of both sides was overlooked; None where nothing bounds it.
    most_shared
        With 95 % confidence no more patients than this are in both; None where nothing bounds it.
    """

    result: OverlapResult
    sentence: str
    miss: float | None = None
    most_shared: int | None = None


def conclude(one: str, other: str, evidence: Evidence) -> OverlapVerdict:
    """Conclude from what was found between the sides ``one`` and ``other``."""
    both = f"{one} and {other}"
    certain = _certain(evidence)
    if certain:
        return OverlapVerdict("overlapping", f"{both} overlap: {certain}.")
    beyond = [text for modality in evidence.matched if (text := _beyond_chance(evidence, modality))]
    if beyond:
        return OverlapVerdict("overlapping", f"{both} overlap: {' and '.join(beyond)}.")
    reasons, possible = list(_reasons(evidence)), any(evidence.matched.values())
    miss = _miss(evidence) if not _blind(evidence) else None
    most = None if miss is None or miss >= 1 else max(0, math.ceil(math.log(_SURPRISE) / math.log(miss)) - 1)
    if reasons or miss is None:
        text = f"Whether {both} share patients cannot be told: {'; '.join(reasons)}."
        if miss is not None and most is not None:
            found = "No match is sure" if possible else "No match was found"
            gone = "go without a sure match" if possible else "be overlooked"
            text += (
                f" {found}, so that with {CONFIDENCE:.0%} confidence at most {most:,} patients are in both"
                f" (each would {gone} with a chance of at most {miss:.1%})."
            )
        return OverlapVerdict("cannot tell", text + _possible(evidence), miss, most)
    pairs = sum(evidence.compared.values())
    gone = "gone without a sure match" if possible else "been overlooked"
    text = (
        f"{both} are exclusive: none of {pairs:,} pairs of patients matched{' for sure' * possible}, and a"
        f" patient who is in both would have {gone} with a chance of at most {miss:.1%}"
        f" ({CONFIDENCE:.0%} bound from {_patients(evidence)} patients), as far as these images are like"
        " those of the calibration."
    )
    return OverlapVerdict("exclusive", text + _possible(evidence), miss, most)


def worst_result(results: list[OverlapResult]) -> OverlapResult:
    """The verdict over several comparisons: one overlap is an overlap, one doubt leaves doubt."""
    for result in ("overlapping", "cannot tell"):
        if result in results:
            return result
    return "exclusive"


def _certain(evidence: Evidence) -> str:
    """What needs no statistics."""
    said = {"bytes": "the same bytes", "pixels": "the same pixels", "look": "the look of copies"}
    found = [f"{count:,} pairs of images have {said[by]}" for by, count in evidence.copies.items() if count]
    if evidence.ids:
        found.append(f"the table names {evidence.ids:,} patients on both sides")
    return " and ".join(found)


def _beyond_chance(evidence: Evidence, modality: Modality) -> str:
    """Matches of the model that chance would hardly make: all of them, or the sure ones."""
    limit = evidence.limits[modality]
    # Each is looked at, in every modality: one in twenty is what all of them may get wrong together.
    level = _SURPRISE / len(evidence.matched) / 2
    everybody = _Looked(evidence.matched[modality], limit.possible, _exchange(evidence, modality), "")
    surely = _Looked(
        evidence.sure[modality], limit.sure, _exchange(evidence, modality, sure=True), " for sure"
    )
    pairs, kind = evidence.compared[modality], modality.value
    for looked in (everybody, surely):
        expected, most = pairs * limit.chance_match(looked.point), pairs * looked.point.false_match.upper
        bounded = poisson_tail(looked.matched, most) <= level
        likely = looked.exchange.chance <= level and poisson_tail(looked.matched, expected) <= level
        if looked.matched and (bounded or likely):
            why = (
                f"chance would make at most {most:.2g} of them"
                if bounded
                else f"chance would make about {expected:.2g} of them, and {_divided(looked.exchange)}"
            )
            return (
                f"{looked.matched:,} of {pairs:,} pairs of patients match{looked.how} in their {kind}s at a"
                f" threshold where {why}"
            )
    return ""


@dataclass(frozen=True, slots=True)
class _Looked:
    """Matches of one kind, from which threshold they count, and what dividing at random makes of them."""

    matched: int
    point: OperatingPoint
    exchange: PermutationTest
    how: str


def _exchange(evidence: Evidence, modality: Modality, *, sure: bool = False) -> PermutationTest:
    found = evidence.sure_exchanged if sure else evidence.exchanged
    return found.get(modality, PermutationTest())


def _possible(evidence: Evidence) -> str:
    """What leaves no doubt by itself and a person may still look at."""
    found = [one for one, count in evidence.matched.items() if count and not _doubtful(evidence, one)]
    if not found:
        return ""
    count, expected = sum(evidence.matched[one] for one in found), _by_chance(evidence, found)
    return f" Possible matches: {count:,}, where chance makes about {expected:.2g}; look at them."


def _by_chance(evidence: Evidence, modalities: Iterable[Modality], *, sure: bool = False) -> float:
    """How many matches, or sure ones, chance alone makes."""
    limits = {one: evidence.limits[one] for one in modalities}
    return sum(
        evidence.compared[one] * limit.chance_match(limit.sure if sure else limit.possible)
        for one, limit in limits.items()
    )


def _doubtful(evidence: Evidence, modality: Modality) -> bool:
    """Whether a match is sure, or more are possible than chance makes in one comparison of twenty."""
    expected = _by_chance(evidence, [modality])
    surprising = poisson_tail(evidence.matched.get(modality, 0), expected) <= _SURPRISE
    return evidence.sure.get(modality, 0) > 0 or surprising


def _divided(exchange: PermutationTest) -> str:
    """What dividing the same patients at random says."""
    return (
        f"{exchange.within:,} pairs match within the sides, so that the same patients divided at random give"
        f" as many across in {exchange.chance:.2%} of the cases"
    )


def poisson_tail(count: int, expected: float) -> float:
    """Chance of ``count`` events or more where ``expected`` are the mean (Poisson)."""
    from scipy.special import pdtrc  # type: ignore[import-untyped]

    return 1.0 if count <= 0 else float(pdtrc(count - 1, expected))


def _reasons(evidence: Evidence) -> list[str]:
    """Why nothing was found proves nothing; empty when it does prove something."""
    found = []
    if unread := sum(evidence.unread.values()):
        listed = ", ".join(f"{rule} {count:,}" for rule, count in sorted(evidence.unread.items()))
        found.append(f"{unread:,} images could not be read or compared in full ({listed})")
    if not evidence.compared:
        found.append("no images of one kind are on both sides")
    elif evidence.apart:
        found.append(f"{evidence.apart:,} patients have no image that could be compared with the other side")
    for modality, pairs in evidence.compared.items():
        limit = evidence.limits.get(modality)
        if limit is None:
            found.append(f"the model is not calibrated for {modality.value}s")
            continue
        if _doubtful(evidence, modality):
            expected, surely = (_by_chance(evidence, [modality], sure=sure) for sure in (False, True))
            found.append(
                f"{evidence.matched[modality]:,} of {pairs:,} pairs of patients match in their"
                f" {modality.value}s, for sure {evidence.sure[modality]:,}, and chance alone makes about"
                f" {expected:.2g} ({pairs * limit.possible.false_match.upper:.2g} at most), for sure"
                f" {surely:.2g}; {_divided(_exchange(evidence, modality))}, and a person has to look"
            )
        if (miss := _missed(evidence, modality)) > MAX_FALSE_NON_MATCH:
            found.append(
                f"a patient in both would be overlooked in {modality.value}s with a chance of up to"
                f" {miss:.0%}, and no more than {MAX_FALSE_NON_MATCH:.0%} may be for a claim"
                f" ({limit.possible.false_non_match.of:,} patients calibrate it)"
            )
    if evidence.look_alike and any(modality not in evidence.limits for modality in evidence.compared):
        found.append(f"{evidence.look_alike:,} pairs of images look alike")
    if not evidence.complete:
        found.append("too many pairs lie near each other for all to be scored")
    return found


def _blind(evidence: Evidence) -> bool:
    """Whether not even a bound can be given."""
    calibrated = all(modality in evidence.limits for modality in evidence.compared)
    seen_all = not evidence.unread and not evidence.apart and evidence.complete
    if not (evidence.compared and calibrated and seen_all):
        return True
    return any(_doubtful(evidence, modality) for modality in evidence.compared)


def _missed(evidence: Evidence, modality: Modality) -> float:
    """Bound of the chance to be overlooked: where nothing is even possible, that of the looser threshold."""
    limit = evidence.limits[modality]
    return limit.miss(limit.sure if evidence.matched.get(modality) else limit.possible)


def _miss(evidence: Evidence) -> float:
    """A patient may be overlooked in the modality that overlooks most."""
    return max(_missed(evidence, modality) for modality in evidence.compared)


def _patients(evidence: Evidence) -> str:
    return f"{min(evidence.limits[one].sure.false_non_match.of for one in evidence.compared):,}"
