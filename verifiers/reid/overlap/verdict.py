"""The verdict of a comparison: exclusive, overlapping or inconclusive, with one sentence of reasons.

Copies and shared patient IDs prove an overlap by themselves. Model matches prove one only if datasets without
a shared patient would give as similar ones in at most 1 % of comparisons (see
`medsanitize.verifiers.reid.overlap.excess`), or as many in at most 0.5 %. Strangers within them judge
that; nothing that was measured on other images takes part. Two tests can show that there are too many:

- a Poisson tail at the upper bound of the false match rate; or
- a Poisson tail at the estimated false match rate together with a permutation test (see
  `medsanitize.verifiers.reid.overlap.permutation_test`). The estimate by itself is not enough: it may rest on
  few patients, and one patient who resembles several others causes matches that are not independent. The
  permutation test assumes neither.

Both tests run on all matches and on the matches at the strict threshold, each at half the significance level:
where the permissive threshold lets many false matches through, a few strict ones are stronger evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from medsanitize.verifiers.reid.calibration import CONFIDENCE, OperatingPoint, samples_needed
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap.excess import LEVEL, Excess
from medsanitize.verifiers.reid.overlap.permutation_test import PermutationTest
from medsanitize.verifiers.reid.overlap.thresholds import COMPARED_IMAGES, MAX_FALSE_NON_MATCH, Thresholds

OverlapResult = Literal["exclusive", "overlapping", "inconclusive"]
# Significance level of any doubt: a more likely excess than this prevents a claim of exclusive datasets.
_ALPHA: Final = 1 - CONFIDENCE
# Significance level of more matches than chance; with that of the pairs that stand out, one wrong verdict in
# a hundred. At 0.005 it made every wrong verdict of benchmarks/overlap.py and found no shared patients.
MATCH_LEVEL: Final = 0.001


@dataclass(frozen=True, slots=True)
class Evidence:
    """Counts of what was compared and found between two datasets.

    Attributes
    ----------
    copies
        Pairs of equal images, by what is equal: ``bytes``, ``pixels``, ``perceptual_hash``.
    ids
        Patient IDs that one table lists in both datasets.
    matched
        Pairs of patients that reach the permissive threshold, by modality.
    strict
        Pairs of patients that reach the strict threshold, by modality.
    compared
        Pairs of patients that the model compared, by modality.
    thresholds
        Thresholds and error rates by modality; absent where the model is not calibrated.
    unread
        Images of either dataset that were not compared in full, counted by reason.
    not_comparable
        Patients of either dataset without an image that a model could compare with the other dataset.
    undecided_near_duplicates
        Pairs with nearly equal perceptual hashes in datasets where the hash does not discriminate.
    complete
        Whether every pair within the search distance was scored.
    permutation, strict_permutation
        Permutation test of all matches, and of the strict ones, by modality.
    excess
        Test of the most similar pairs against the strangers within the datasets, by modality.
    """

    copies: Mapping[str, int]
    ids: int
    matched: Mapping[Modality, int]
    strict: Mapping[Modality, int]
    compared: Mapping[Modality, int]
    thresholds: Mapping[Modality, Thresholds]
    unread: Mapping[str, int]
    not_comparable: int
    undecided_near_duplicates: int = 0
    complete: bool = True
    permutation: Mapping[Modality, PermutationTest] = field(default_factory=dict)
    strict_permutation: Mapping[Modality, PermutationTest] = field(default_factory=dict)
    excess: Mapping[Modality, Excess] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OverlapVerdict:
    """The verdict with its reasons.

    Attributes
    ----------
    result
        ``exclusive``, ``overlapping`` or ``inconclusive``.
    sentence
        The verdict with its evidence, in one sentence.
    miss
        Upper bound of the probability that a shared patient was missed; None where nothing bounds it.
    max_shared_patients
        Upper 95 % bound of the number of shared patients; None where nothing bounds it.
    """

    result: OverlapResult
    sentence: str
    miss: float | None = None
    max_shared_patients: int | None = None


def conclude(one: str, other: str, evidence: Evidence) -> OverlapVerdict:
    """Derive the verdict from the evidence.

    Parameters
    ----------
    one, other : str
        Titles of the datasets.
    evidence : Evidence
        Counts of the comparison.
    """
    both = f"{one} and {other}"
    certain = _certain_evidence(evidence)
    if certain:
        return OverlapVerdict("overlapping", f"{both} overlap: {certain}.")
    # Matches prove something only beside those of strangers of both datasets.
    judged = [one for one in evidence.matched if evidence.thresholds[one].both_sides]
    beyond = [text for modality in judged if (text := _beyond_chance(evidence, modality))]
    if beyond:
        return OverlapVerdict("overlapping", f"{both} overlap: {' and '.join(beyond)}.")
    # Fail closed: any reason for doubt makes the verdict inconclusive, however low the bound is.
    reasons, permissive = list(_inconclusive_reasons(evidence)), any(evidence.matched.values())
    miss = _false_non_match_bound(evidence) if not _is_unbounded(evidence) else None
    # n shared patients are all missed with probability miss ** n: the largest n for which that exceeds 5 %.
    most = None if miss is None or miss >= 1 else max(0, math.ceil(math.log(_ALPHA) / math.log(miss)) - 1)
    if reasons or miss is None:
        text = f"Inconclusive whether {both} share patients: {'; '.join(reasons)}."
        if miss is not None and most is not None:
            found = "No match reaches the strict threshold" if permissive else "No match was found"
            missed = "have no strict match" if permissive else "be missed"
            text += (
                f" {found}: with {CONFIDENCE:.0%} confidence at most {most:,} patients are in both"
                f" (each would {missed} with a probability of at most {miss:.1%})."
            )
        return OverlapVerdict("inconclusive", text + _permissive_matches(evidence), miss, most)
    pairs = sum(evidence.compared.values())
    missed = "have no strict match" if permissive else "be missed"
    strictly = " at the strict threshold" if permissive else ""
    text = (
        f"{both} are exclusive: none of {pairs:,} pairs of patients matched{strictly}, and a"
        f" patient who is in both would {missed} with a probability of at most {miss:.1%}"
        f" ({CONFIDENCE:.0%} bound from {_patients(evidence)} patients{_not_these(evidence)})."
    )
    return OverlapVerdict("exclusive", text + _permissive_matches(evidence), miss, most)


def worst_result(results: list[OverlapResult]) -> OverlapResult:
    """Combine verdicts: overlapping if any is, else inconclusive if any is, else exclusive."""
    for result in ("overlapping", "inconclusive"):
        if result in results:
            return result
    return "exclusive"


def _certain_evidence(evidence: Evidence) -> str:
    """Describe the evidence that needs no statistics: copies and shared patient IDs."""
    said = {
        "bytes": "the same bytes",
        "pixels": "the same pixels",
        "perceptual_hash": "nearly equal perceptual hashes",
    }
    found = [f"{_image_pairs(count)} {said[by]}" for by, count in evidence.copies.items() if count]
    if evidence.ids:
        found.append(f"the table lists {evidence.ids:,} patients in both datasets")
    return " and ".join(found)


def _image_pairs(count: int) -> str:
    return "1 pair of images has" if count == 1 else f"{count:,} pairs of images have"


def _beyond_chance(evidence: Evidence, modality: Modality) -> str:
    """Describe model matches that are significant, at the permissive or the strict threshold; else empty."""
    limit = evidence.thresholds[modality]
    if text := _stands_out(evidence, modality):
        return text
    # Bonferroni: two tests in every modality share one significance level.
    level = MATCH_LEVEL / len(evidence.matched) / 2
    permissive = _MatchTest(
        evidence.matched[modality], limit.permissive, _permutation(evidence, modality), ""
    )
    strict = _MatchTest(
        evidence.strict[modality],
        limit.strict,
        _permutation(evidence, modality, strict=True),
        " at the strict threshold",
    )
    pairs, kind = evidence.compared[modality], modality.plural
    for test in (permissive, strict):
        expected, most = pairs * limit.false_match_estimate(test.point), pairs * test.point.false_match.upper
        bounded = poisson_tail(test.matched, most) <= level
        likely = test.permutation.p_value <= level and poisson_tail(test.matched, expected) <= level
        if test.matched and (bounded or likely):
            why = (
                f"at most {most:.2g} false matches are expected"
                if bounded
                else f"about {expected:.2g} false matches are expected;"
                f" {_permutation_sentence(test.permutation)}"
            )
            return (
                f"{test.matched:,} of {pairs:,} pairs of patients match{test.how} in their"
                f" {kind}, where {why}"
            )
    return ""


def _stands_out(evidence: Evidence, modality: Modality) -> str:
    """Describe pairs that are more alike than strangers of these images are; else empty."""
    excess = evidence.excess.get(modality, Excess())
    if not excess.p_value <= LEVEL / len(evidence.matched):
        return ""
    found = len(excess.pairs)
    return (
        f"{found:,} of {evidence.compared[modality]:,} pairs of patients {'is' if found == 1 else 'are'} more"
        f" alike in their {modality.plural} than strangers are, of whom {excess.expected:.2g} such pairs are"
        f" expected by {excess.strangers:,} pairs of strangers within the datasets (p = {excess.p_value:.2g})"
    )


@dataclass(frozen=True, slots=True)
class _MatchTest:
    """The matches at one threshold with the permutation test of them."""

    matched: int
    point: OperatingPoint
    permutation: PermutationTest
    how: str


def _permutation(evidence: Evidence, modality: Modality, *, strict: bool = False) -> PermutationTest:
    found = evidence.strict_permutation if strict else evidence.permutation
    return found.get(modality, PermutationTest())


def _permissive_matches(evidence: Evidence) -> str:
    """Describe matches that chance explains but a reviewer may want to check."""
    found = [one for one, count in evidence.matched.items() if count and not _is_doubtful(evidence, one)]
    if not found:
        return ""
    count, expected = sum(evidence.matched[one] for one in found), _expected_by_chance(evidence, found)
    return (
        f" Possible matches: {count:,} (about {expected:.2g} false matches are expected);"
        " manual review advised."
    )


def _expected_by_chance(evidence: Evidence, modalities: Iterable[Modality], *, strict: bool = False) -> float:
    """Expected number of false matches at the permissive or the strict threshold."""
    limits = {one: evidence.thresholds[one] for one in modalities}
    return sum(
        evidence.compared[one] * limit.false_match_estimate(limit.strict if strict else limit.permissive)
        for one, limit in limits.items()
    )


def _is_doubtful(evidence: Evidence, modality: Modality) -> bool:
    """Whether a strict match exists, or permissive matches exceed chance at the 5 % level."""
    expected = _expected_by_chance(evidence, [modality])
    surprising = poisson_tail(evidence.matched.get(modality, 0), expected) <= _ALPHA
    surprising = surprising or evidence.excess.get(modality, Excess()).p_value <= _ALPHA
    return evidence.strict.get(modality, 0) > 0 or surprising


def _permutation_sentence(permutation: PermutationTest) -> str:
    """Describe the permutation test."""
    return (
        f"{permutation.within:,} pairs match within the datasets;"
        f" permutation test p = {permutation.p_value:.4f}"
    )


def poisson_tail(count: int, expected: float) -> float:
    """Compute the probability of at least ``count`` Poisson events with mean ``expected``."""
    from scipy.special import pdtrc  # type: ignore[import-untyped]

    # pdtrc(k, m) is the probability of more than k events.
    return 1.0 if count <= 0 else float(pdtrc(count - 1, expected))


def _inconclusive_reasons(evidence: Evidence) -> list[str]:
    """List why the absence of matches proves nothing; empty if it proves that the datasets are exclusive."""
    found = []
    if unread := sum(evidence.unread.values()):
        listed = ", ".join(f"{rule} {count:,}" for rule, count in sorted(evidence.unread.items()))
        found.append(f"{unread:,} images could not be read or compared in full ({listed})")
    if not evidence.compared:
        found.append("the datasets have no images of one modality in common")
    elif evidence.not_comparable:
        found.append(
            f"{evidence.not_comparable:,} patients have no image that could be compared"
            " with the other dataset"
        )
    for modality, pairs in evidence.compared.items():
        limit = evidence.thresholds.get(modality)
        if limit is None or not limit.both_sides:
            found.append(_unknown_strangers(modality))
            continue
        if _is_doubtful(evidence, modality):
            expected, surely = (
                _expected_by_chance(evidence, [modality], strict=strict) for strict in (False, True)
            )
            found.append(
                f"{evidence.matched[modality]:,} of {pairs:,} pairs of patients match in their"
                f" {modality.plural}, {evidence.strict[modality]:,} of them at the strict threshold;"
                f" expected false matches: about {expected:.2g} (at most"
                f" {pairs * limit.permissive.false_match.upper:.2g}), at the strict threshold {surely:.2g};"
                f" {_permutation_sentence(_permutation(evidence, modality))}; manual review required"
            )
        if (miss := _modality_bound(evidence, modality)) > MAX_FALSE_NON_MATCH:
            found.append(
                f"a patient in both would be missed in {modality.plural} with a probability of up to"
                f" {miss:.0%}, where a claim allows {MAX_FALSE_NON_MATCH:.0%} ({_behind_misses(limit)})"
            )
    # A calibrated model decides such pairs itself.
    if evidence.undecided_near_duplicates and any(
        modality not in evidence.thresholds for modality in evidence.compared
    ):
        found.append(f"{_image_pairs(evidence.undecided_near_duplicates)} nearly equal perceptual hashes")
    if not evidence.complete:
        found.append("too many pairs are within the search distance to score all of them")
    return found


def _unknown_strangers(modality: Modality) -> str:
    """Say that nothing states how often strangers match, and what to do."""
    return (
        f"how often strangers match among these {modality.plural} is unknown, since a dataset has no two"
        f" {modality.plural} of patients known apart: name its patients in a table (--labels-a, --labels-b)"
    )


def _behind_misses(limit: Thresholds) -> str:
    """Describe the patients behind the false non-match rate, and what would lower its bound."""
    known, needed = limit.permissive.false_non_match.of, samples_needed(MAX_FALSE_NON_MATCH)
    said = (
        f"measured on {known:,} patients with two images, of whom {needed:,} without a miss would be needed"
    )
    if limit.unquoted:
        said += f"; a stored calibration does not hold here: {limit.unquoted}"
    if known < needed:
        said += (
            "; add patients with two images, or a calibration of images from the same places by"
            " medsanitize evaluate --output"
        )
    return said


def _is_unbounded(evidence: Evidence) -> bool:
    """Whether nothing bounds the false non-match rate."""
    calibrated = all(
        modality in evidence.thresholds and evidence.thresholds[modality].both_sides
        for modality in evidence.compared
    )
    # Any image that was not compared may show a shared patient.
    seen_all = not evidence.unread and not evidence.not_comparable and evidence.complete
    if not (evidence.compared and calibrated and seen_all):
        return True
    return any(_is_doubtful(evidence, modality) for modality in evidence.compared)


def _modality_bound(evidence: Evidence, modality: Modality) -> float:
    """Bound of the false non-match rate; the permissive threshold counts where no pair reaches it."""
    limit = evidence.thresholds[modality]
    # Once a pair reaches the permissive threshold, only the strict one can support the claim.
    return limit.miss(limit.strict if evidence.matched.get(modality) else limit.permissive)


def _false_non_match_bound(evidence: Evidence) -> float:
    """Bound of the false non-match rate of the worst modality."""
    return max(_modality_bound(evidence, modality) for modality in evidence.compared)


def _not_these(evidence: Evidence) -> str:
    """Say that a bound comes from other images, with which these were found exchangeable."""
    stored = any(evidence.thresholds[one].source != COMPARED_IMAGES for one in evidence.compared)
    return " of a calibration whose strangers score as those of these images" if stored else ""


def _patients(evidence: Evidence) -> str:
    return f"{min(evidence.thresholds[one].strict.false_non_match.of for one in evidence.compared):,}"
