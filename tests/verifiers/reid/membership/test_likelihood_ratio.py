"""Membership inference: scores, exact rates, and no success without memorization."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.verifiers.reid.membership.likelihood_ratio import membership, patient_scores

pytestmark = pytest.mark.verify


def test_members_who_are_likelier_than_under_other_models_are_found() -> None:
    draw = np.random.default_rng(0)
    inside = draw.random((8, 200)) < 0.5
    inside[:2] = [True], [False]
    easy = draw.uniform(0.2, 0.6, 200)
    references = easy * np.where(inside, 1.4, 1.0)
    member = np.arange(200) < 100
    target = easy * np.where(member, 1.4, 1.0)
    found = membership(*(patient_scores(target, references, inside)[one] for one in (member, ~member)))
    assert (found.auc, found.above_chance) == (1.0, True)
    assert [one.share for one in found.rates] == [1.0, 1.0]
    assert found.rates[1].lower == pytest.approx(0.025 ** (1 / 100), abs=1e-9)
    # The likelihood alone says little: some patients are easy for every model.
    assert membership(target[member], target[~member]).auc < 0.95


def test_equal_scores_are_no_success() -> None:
    found = membership(np.zeros(50), np.zeros(50))
    assert (found.auc, found.above_chance) == (0.5, False)
    assert [one.recognized for one in found.rates] == [0, 0]


def test_few_others_allow_no_false_positive() -> None:
    few = membership(np.arange(60.0), np.arange(99.0)).rates
    many = membership(np.arange(60.0), np.arange(2000.0)).rates
    assert [one.false_positives for one in few] == [0, 0]
    assert [one.false_positives for one in many] == [2, 20]


def test_chance_is_seldom_taken_for_success() -> None:
    draw = np.random.default_rng(1)
    alarms = [
        one.above_chance for _ in range(100) for one in membership(draw.random(30), draw.random(30)).rates[:1]
    ]
    assert sum(alarms) <= 12
