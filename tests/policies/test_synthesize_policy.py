"""The section synthesize: required settings, and those in the digest of a policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.errors import PolicyError
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy

HEAD = """\
version: 1
preset: ps3.15-basic
release: {name: chest, version: "1", mode: pseudonymous}
inputs: [./export]
output: ./release
state: ./state
keys: {file: ./release.key}
"""


def policy(synthesize: str) -> Policy:
    return loads(f"{HEAD}synthesize: {{{synthesize}}}\n", base=Path("/project"))


REST = "model: ./g, verifier: ./v, reference: {images: ./export, table: ./t.csv}"


def test_paths_are_relative_to_the_policy() -> None:
    section = policy(f"replace: all, {REST}").synthesize
    assert section is not None
    assert section.model == Path("/project/g")
    assert section.reference.table == Path("/project/t.csv")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"replace: by-label, {REST}", "requires labels"),
        (f"replace: all, labels: [a], {REST}", "has no effect"),
        (
            "replace: all, model: ./g, verifier: ./v,"
            " reference: {images: ./export, table: ./t.csv, holdout: train}",
            "the same name",
        ),
        (f"replace: all, model: ./release/g, {REST.partition(', ')[2]}", "is inside output"),
        (f"replace: some, {REST}", "replace"),
        (f"replace: all, bound: 0.001, {REST}", "Write synthesize.residual"),
        (f"replace: all, residual: 0, {REST}", "residual"),
        (f"replace: all, inconclusive: maybe, {REST}", "accept or refuse"),
        (f"replace: all, reidentification: {{limit: 2}}, {REST}", "reidentification.limit"),
    ],
)
def test_a_contradiction_is_reported_with_its_location(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as told:
        policy(text)
    assert said in str(told.value)


def test_only_settings_that_determine_the_release_are_in_its_digest() -> None:
    digest = policy_digest(policy(f"replace: by-label, labels: [a, b], {REST}"))
    assert policy_digest(policy(f"replace: by-label, labels: [b, a], {REST.replace('./g', './h')}")) == digest
    assert policy_digest(policy(f"replace: by-label, labels: [a], {REST}")) != digest
    assert policy_digest(loads(HEAD, base=Path("/project"))) != digest


def test_an_inconclusive_attack_is_refused_and_re_identification_unlimited_by_default() -> None:
    section = policy(f"replace: all, {REST}").synthesize
    assert section is not None
    assert (section.residual, section.inconclusive, section.reidentification) == (0.001, "refuse", None)


@pytest.mark.parametrize(
    "setting", ["residual: 0.002", "inconclusive: accept", "reidentification: {limit: 0.05}"]
)
def test_what_the_gate_may_pass_is_in_the_digest(setting: str) -> None:
    digest = policy_digest(policy(f"replace: all, {REST}"))
    assert policy_digest(policy(f"replace: all, {setting}, {REST}")) != digest
