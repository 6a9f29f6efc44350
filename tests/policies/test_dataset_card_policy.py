"""The section release.card: its limits, and what it must not contradict."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.errors import PolicyError
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy

TEXT = """
version: 1
preset: ps3.15-basic
release: {{name: chest-ct, version: "1.0", mode: pseudonymous{card}}}
inputs: [./export]
output: ./release
state: ./state
keys: {{file: ./release.key}}
"""


def loaded(card: str = "") -> Policy:
    return loads(TEXT.format(card=card and f", card: {card}"), base=Path("/work-place"))


@pytest.mark.parametrize(
    ("card", "part"),
    [
        ("{}", "epsilon"),
        ("{epsilon: 0}", "release.card.epsilon"),
        ("{epsilon: .inf}", "Infinity"),
        ("{epsilon: 4}", "above the ceiling"),
        ("{epsilon: 2, ceiling: 1}", "above the ceiling"),
        ("{epsilon: 1, ages: [10, 20]}", "does not ascend from 0"),
        ("{epsilon: 1, ages: [0, 20, 20]}", "does not ascend from 0"),
        ("{epsilon: 1, ages: [0, 95]}", "release.card.ages"),
        ("{epsilon: 1, findings: [{table: labels, column: a, values: [b]}]}", "not in tables"),
    ],
)
def test_a_card_that_cannot_be_kept_is_refused(card: str, part: str) -> None:
    with pytest.raises(PolicyError, match=part):
        loaded(card)


def test_the_ceiling_does_not_change_the_digest_and_epsilon_does() -> None:
    none, one = policy_digest(loaded()), policy_digest(loaded("{epsilon: 1}"))
    assert len({none, one, policy_digest(loaded("{epsilon: 2}"))}) == 3
    assert policy_digest(loaded("{epsilon: 1, ceiling: 5}")) == one
