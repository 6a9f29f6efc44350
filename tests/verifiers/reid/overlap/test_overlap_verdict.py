"""When matches prove that two datasets overlap, and when they may be chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from medsanitize.verifiers.reid.calibration import (
    Calibration,
    OperatingPoint,
    Rate,
    calibrate,
    clopper_pearson,
    max_errors,
)
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.index.search import VectorSearch
from medsanitize.verifiers.reid.overlap.compare_pairs import score_within
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import Embeddings
from medsanitize.verifiers.reid.overlap.permutation_test import PermutationTest, permutation_p_value
from medsanitize.verifiers.reid.overlap.thresholds import Thresholds, choose_thresholds
from medsanitize.verifiers.reid.overlap.verdict import Evidence, conclude
from numpy.typing import NDArray

CHEST = Modality.RADIOGRAPH


def limit(share: float, errors: int, of: int, pairs: int = 14_280) -> Thresholds:
    """A threshold that misses at most 2 % and matches ``share`` of the pairs by chance."""
    lower, upper = clopper_pearson(errors, of)
    matches = Rate(share, errors, of, min(lower, share), max(upper, share))
    misses = Rate(0.0, 0, 200, *clopper_pearson(0, 200))
    return Thresholds(
        permissive=OperatingPoint(0.5, matches, misses),
        strict=OperatingPoint(0.6, matches, misses),
        within=np.inf,
        search_miss_bound=0.0,
        pairs=pairs,
        source="compared_images",
    )


def evidence(
    matched: int, by_chance: float, known: Thresholds, within: int = 0, *, strict: int | None = None
) -> Evidence:
    """A number of 14,400 pairs of patients match, all or ``strict`` of them strictly."""
    return Evidence(
        copies={},
        ids=0,
        matched={CHEST: matched},
        strict={CHEST: matched if strict is None else strict},
        compared={CHEST: 14_400},
        thresholds={CHEST: known},
        unread={},
        not_comparable=0,
        permutation={CHEST: PermutationTest(within, by_chance)},
    )


def test_three_matches_prove_nothing_if_few_patients_bound_the_rate() -> None:
    by_chance = permutation_p_value({(0, 1), (2, 3), (4, 5)}, (set(), set()), (120, 120))
    verdict = conclude("A", "B", evidence(3, by_chance, limit(0.0, 0, 120)))
    assert by_chance == pytest.approx(1 / 8, abs=0.015)
    assert verdict.result == "inconclusive"
    assert "manual review required" in verdict.sentence


def test_matches_only_between_datasets_prove_an_overlap() -> None:
    shared = {(n, n) for n in range(12)}
    by_chance = permutation_p_value(shared, (set(), set()), (120, 120))
    assert by_chance == pytest.approx(1 / 4096, abs=0.0004)
    assert conclude("A", "B", evidence(12, by_chance, limit(0.0, 0, 120))).result == "overlapping"


@pytest.mark.parametrize(("chance", "result"), [(0.0002, "overlapping"), (0.001, "inconclusive")])
def test_strict_matches_prove_an_overlap_despite_many_possible_ones_by_chance(
    chance: float, result: str
) -> None:
    found = evidence(22, 0.4, limit(1e-3, 0, 120), 20, strict=9)
    strict = replace(limit(1e-5, 0, 120).strict, threshold=0.9)
    known = replace(found.thresholds[CHEST], strict=strict)
    told = replace(found, thresholds={CHEST: known}, strict_permutation={CHEST: PermutationTest(0, chance)})
    assert conclude("A", "B", told).result == result


def test_matches_that_also_occur_within_the_datasets_prove_nothing() -> None:
    across = {(n, n) for n in range(6)}
    inside = {(n, n + 50) for n in range(3)}
    by_chance = permutation_p_value(across, (inside, inside), (120, 120))
    assert by_chance > 0.5
    assert conclude("A", "B", evidence(6, by_chance, limit(0.0, 0, 120), 6)).result == "inconclusive"


def test_matches_explained_by_the_false_match_rate_prove_nothing() -> None:
    assert conclude("A", "B", evidence(14, 0.001, limit(1e-3, 0, 120))).result == "inconclusive"


def test_more_matches_than_the_upper_rate_bound_prove_an_overlap() -> None:
    assert conclude("A", "B", evidence(60, 1.0, limit(1e-3, 0, 3_000))).result == "overlapping"


def test_for_datasets_of_different_size_few_cross_matches_suffice() -> None:
    across = {(n, n) for n in range(2)}
    assert permutation_p_value(across, (set(), set()), (5_000, 50)) < 0.001


def test_random_splits_are_called_overlapping_at_most_at_the_stated_rate() -> None:
    """Nine false matches among 60 patients, split at random 200 times."""
    found = []
    for number in range(200):
        draw = np.random.default_rng(number)
        edges = [tuple(sorted(draw.choice(60, 2, replace=False).tolist())) for _ in range(9)]
        side = np.argsort(draw.random(60)) < 30
        across = {(a, b) if side[a] else (b, a) for a, b in edges if side[a] != side[b]}
        within = [{(a, b) for a, b in edges if side[a] == side[b] == which} for which in (True, False)]
        found.append(permutation_p_value(across, (within[0], within[1]), (30, 30)))
    assert np.mean(np.array(found) <= 0.05) <= 0.08


def test_scoring_all_pairs_misses_none_in_the_search() -> None:
    draw = np.random.default_rng(1)
    first = np.r_[np.arange(80), draw.integers(0, 80, 400)]
    second = np.r_[np.arange(80), draw.integers(80, 160, 400)]
    scores = calibrate(np.r_[np.full(80, 0.9), draw.random(400) * 0.5], first, second)
    searched = choose_thresholds(scores, scores, verified=True, target=1e-3, source="given")
    scored = choose_thresholds(scores, scores, verified=True, target=1e-3, source="given", every=True)
    assert searched.miss(searched.strict) > 0.05 > scored.miss(scored.permissive)
    assert replace(searched, within=scored.within, search_miss_bound=0.0, strict=scored.strict) == scored


def calibrated(genuine: NDArray[np.float64], strangers: int) -> Calibration:
    """A model that scores genuine pairs as given, and impostor pairs below one half."""
    draw, patients = np.random.default_rng(2), len(genuine)
    first = np.r_[np.arange(patients), draw.integers(0, patients // 2, strangers)]
    second = np.r_[np.arange(patients), draw.integers(patients // 2, patients, strangers)]
    return calibrate(np.r_[genuine, draw.random(strangers) * 0.5], first, second)


def test_the_threshold_is_the_strictest_with_a_boundable_miss_rate_of_1_in_400() -> None:
    genuine = np.linspace(0.6, 0.9, 800)
    chosen = choose_thresholds(calibrated(genuine, 2_000), None, verified=False, target=1e-3, source="given")
    assert chosen.permissive.threshold == genuine[2]
    assert (chosen.permissive.false_non_match.errors, chosen.permissive.false_match.errors) == (2, 0)
    assert chosen.miss(chosen.permissive) < 0.01


def test_the_strict_threshold_is_as_high_as_the_miss_rate_allows() -> None:
    genuine = np.linspace(0.6, 0.9, 300)
    chosen = choose_thresholds(calibrated(genuine, 2_000), None, verified=False, target=1e-3, source="given")
    assert chosen.strict.threshold == genuine[max_errors(300, 0.05)] > chosen.permissive.threshold
    assert 0.045 < chosen.miss(chosen.strict) <= 0.05


def test_too_few_patients_for_a_claim_give_one_threshold() -> None:
    scores = calibrated(np.linspace(0.6, 0.9, 40), 200)
    chosen = choose_thresholds(scores, None, verified=False, target=1e-3, source="given")
    assert chosen.strict == chosen.permissive
    assert chosen.miss(chosen.strict) > 0.05


def test_a_possible_match_is_reported_but_does_not_prevent_exclusive() -> None:
    verdict = conclude("A", "B", evidence(1, 1.0, limit(1e-4, 0, 120), strict=0))
    assert verdict.result == "exclusive"
    assert (
        "Possible matches: 1 (about 1.9 false matches are expected); manual review advised."
        in verdict.sentence
    )
    assert "would have no strict match" in verdict.sentence


def test_one_strict_match_requires_manual_review() -> None:
    verdict = conclude("A", "B", evidence(2, 1.0, limit(1e-4, 0, 120), strict=1))
    assert verdict.result == "inconclusive"
    assert (
        "2 of 14,400 pairs of patients match in their radiographs, 1 of them at the strict threshold"
        in verdict.sentence
    )


def test_unexpected_possible_matches_require_manual_review_without_a_strict_one() -> None:
    """Images unlike those of the calibration would give such matches, and its bounds would not hold."""
    verdict = conclude("A", "B", evidence(3, 0.13, limit(0.0, 0, 150, pairs=100_000), strict=0))
    assert (verdict.result, verdict.miss) == ("inconclusive", None)
    assert "manual review required" in verdict.sentence


def test_possible_matches_are_reported_despite_an_unreadable_image() -> None:
    seen = replace(evidence(1, 1.0, limit(1e-4, 0, 120), strict=0), unread={"decoder-failed": 2})
    verdict = conclude("A", "B", seen)
    assert verdict.result == "inconclusive"
    assert "Possible matches: 1 (" in verdict.sentence


def test_without_possible_matches_the_bound_is_that_of_the_permissive_threshold() -> None:
    known = limit(0.0, 0, 120)
    loose = replace(known, strict=replace(known.strict, false_non_match=Rate(0.03, 6, 200, 0.01, 0.049)))
    assert conclude("A", "B", evidence(0, 1.0, loose)).miss == known.permissive.false_non_match.upper


def test_verdicts_are_made_per_modality() -> None:
    seen, known = evidence(1, 1.0, limit(1e-4, 0, 120), strict=1), limit(1e-4, 0, 120)
    slides = Modality.SLIDE
    both = replace(
        seen,
        matched={**seen.matched, slides: 1},
        strict={**seen.strict, slides: 0},
        compared={**seen.compared, slides: 14_400},
        thresholds={CHEST: known, slides: known},
    )
    verdict = conclude("A", "B", both)
    assert "in their radiographs, 1 of them at the strict threshold" in verdict.sentence
    assert "in their slides" not in verdict.sentence
    assert "Possible matches: 1 (" in verdict.sentence


def test_search_misses_count_toward_the_permitted_miss_rate() -> None:
    scores = calibrated(np.linspace(0.6, 0.9, 5_000), 2_000)
    chosen = choose_thresholds(scores, scores, verified=True, target=1e-3, source="given")
    assert chosen.search_miss_bound > 0
    assert 0.04 < chosen.miss(chosen.strict) <= 0.05


def test_inverted_list_misses_count_toward_the_permitted_miss_rate() -> None:
    scores = calibrated(np.linspace(0.6, 0.9, 5_000), 2_000)
    chosen = choose_thresholds(scores, scores, verified=False, target=1e-3, source="given", overlooked=0.02)
    assert chosen.search_miss_bound == 0.02
    assert 0.04 < chosen.miss(chosen.strict) <= 0.05


def test_excess_possible_matches_prove_an_overlap_without_a_strict_one() -> None:
    assert conclude("A", "B", evidence(60, 1.0, limit(1e-3, 0, 3_000), strict=0)).result == "overlapping"


def test_within_a_dataset_the_search_finds_the_same_matches_as_all_pairs() -> None:
    draw = np.random.default_rng(3)
    people = np.arange(90) // 2
    vectors = draw.random((90, 4)).astype(np.float32)
    one = Embeddings(np.arange(90), people, VectorSearch(vectors), vectors)
    near = score_within(one, None, within=0.3)
    rows, columns = np.triu_indices(90, 1)
    apart = np.linalg.norm(vectors[rows] - vectors[columns], axis=1)
    expected = {
        (a, b)
        for a, b, far in zip(rows.tolist(), columns.tolist(), apart, strict=True)
        if far <= 0.3 and people[a] != people[b]
    }
    found = zip(near.first.tolist(), near.second.tolist(), near.distance, strict=True)
    assert {(a, b) for a, b, far in found if far <= 0.3} == expected
    assert (people[near.first] != people[near.second]).all()
