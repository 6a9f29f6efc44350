"""The section on questions about single images: what is refused, and where paths lead."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.errors import PolicyError
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy

_BASE = """version: 1
preset: research
release: {name: demo, version: "1.0", mode: pseudonymous}
inputs: [./export]
output: ./release
state: ./state
keys: {file: ./release.key}
"""


def policy(tmp_path: Path, ask: str = "", classifiers: str = "") -> Policy:
    agreement = f"{{partner: south-hospital, near: {{model: ./embed}}{ask}}}"
    text = f"{_BASE}partners:\n  party: ./party\n{classifiers}  agreements:\n    - {agreement}\n"
    return loads(text, base=tmp_path)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ("{}", "name neither a classifier nor a search"),
        ("{models: []}", "name neither a classifier nor a search"),
        ("{models: [chest], retrieval: ./model}", "a search that is not agreed"),
        ("{models: [chest, chest]}", "named twice"),
        ("{models: [chest], confidence: 0.2}", "confidence"),
        ("{models: [chest], confidence: 1.0}", "confidence"),
        ("{models: [chest], answers: 0}", "answers"),
        ("{models: [chest], days: 0}", "days"),
        ("{models: ['../chest']}", "models"),
        ("{models: [chest], scores: true}", "scores"),
        ("{search: true, kind: Radiograph!}", "kind"),
    ],
)
def test_a_question_that_is_not_agreed_is_refused_where_it_stands(
    tmp_path: Path, ask: str, message: str
) -> None:
    with pytest.raises(PolicyError) as refused:
        policy(tmp_path, f", ask: {ask}")
    (problem,) = refused.value.problems
    assert message in problem.message
    assert (problem.line, problem.column > 50) == (11, True)


def test_models_are_found_from_the_folder_of_the_policy(tmp_path: Path) -> None:
    """Also that of near comparisons, which was looked for in the working folder once."""
    found = policy(
        tmp_path, ", ask: {search: true, retrieval: ./r}", "  classifiers: {chest: ./c}\n"
    ).partners
    assert found is not None
    (agreement,) = found.agreements
    assert agreement.ask is not None
    assert agreement.near is not None
    paths = [agreement.near.model, agreement.ask.retrieval, found.classifiers["chest"]]
    assert paths == [tmp_path / name for name in ("embed", "r", "c")]


def test_questions_do_not_change_the_digest_of_a_release(tmp_path: Path) -> None:
    with_questions = policy(tmp_path, ", ask: {models: [chest]}", "  classifiers: {chest: ./c}\n")
    assert policy_digest(with_questions) == policy_digest(policy(tmp_path))
