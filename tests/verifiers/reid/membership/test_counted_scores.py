"""Membership from counts: the same people as from scores, and bounds that do not lie."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.verifiers.reid.membership.counted_scores import BINS, count_patients, recognized
from medsanitize.verifiers.reid.membership.site_scores import LIKELIHOOD, genuine_scores, loss_scores

pytestmark = pytest.mark.verify


def judged(members: np.ndarray, others: np.ndarray, mistaken: float = 0.1):
    return recognized(*(count_patients(one, -10.0, 10.0) for one in (members, others)), mistaken)


def test_counts_of_sites_give_what_all_scores_together_give() -> None:
    draw = np.random.default_rng(0)
    members, others = draw.normal(0.5, 1, 900), draw.normal(0, 1, 300)
    found = judged(members, others)
    exact = np.sort(others)[::-1][30]
    assert (found.members, found.others) == (900, 300)
    # Bins are a 512th of the range: a few people lie in the bin of the threshold.
    assert found.mistaken <= 30
    assert found.recognized == pytest.approx(int((members > exact).sum()), abs=15)
    assert found.share < found.upper
    halves = [count_patients(part, -10.0, 10.0) for part in (members[:400], members[400:])]
    assert (sum(halves) == count_patients(members, -10.0, 10.0)).all()


def test_a_model_that_remembers_nothing_is_recognized_by_chance_only() -> None:
    draw = np.random.default_rng(1)
    alarms = [judged(draw.normal(size=200), draw.normal(size=100)).chance <= 0.05 for _ in range(200)]
    assert sum(alarms) <= 20


def test_who_scores_above_everybody_is_recognized() -> None:
    found = judged(np.full(50, 9.0), np.zeros(50))
    assert (found.recognized, found.mistaken, found.upper) == (50, 0, 1.0)
    assert found.chance < 1e-10


def test_a_coarse_bin_hides_nobody() -> None:
    # More others than may be mistaken lie in the best bin, with all members: no whole bin is left.
    others = np.r_[np.full(15, 9.9), np.zeros(85)]
    assert judged(np.full(50, 9.99), others).upper == 1.0


def test_small_losses_are_told_apart() -> None:
    members, others = (loss_scores(np.full(50, loss)) for loss in (1e-4, 1e-2))
    found = recognized(*(count_patients(one, *LIKELIHOOD) for one in (members, others)), 0.1)
    assert (found.recognized, found.mistaken) == (50, 0)
    assert loss_scores(np.zeros(1)) > loss_scores(np.full(1, 1e-8))


def test_without_patients_nothing_is_bounded() -> None:
    assert judged(np.zeros(0), np.zeros(5)).upper == 1.0
    assert judged(np.zeros(5), np.zeros(0)).upper == 1.0


def test_scores_beyond_the_range_are_in_the_outer_bins() -> None:
    counts = count_patients(np.array([-99.0, 99.0]), -10.0, 10.0)
    assert (counts[0], counts[BINS - 1], counts.sum()) == (1, 1, 2)


def test_a_patient_with_one_image_has_no_likeness() -> None:
    scores = np.array([[0, -0.2, -1, -1], [-0.2, 0, -1, -1], [-1, -1, 0, -1], [-1, -1, -1, 0]], np.float32)
    assert genuine_scores(scores, np.array([7, 7, 8, 9])).tolist() == [pytest.approx(-0.2)]
