"""Store addresses: where a policy may use them, and errors of unusable ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.errors import PolicyError
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.dump import dumps
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy

BASE = Path("/project")


def policy(inputs: str = "[./export]", output: str = "./release") -> Policy:
    text = f"""version: 1
preset: ps3.15-basic
release: {{name: chest-ct, version: "1.0", mode: pseudonymous}}
inputs: {inputs}
output: {output}
state: ./state
keys: {{file: ./release.key}}
"""
    return loads(text, base=BASE)


def test_addresses_are_unchanged_and_paths_become_absolute() -> None:
    loaded = policy("[s3://a/b, export, https://x.org/ct/]", "gs://c/d")
    assert (loaded.inputs, loaded.output) == (("s3://a/b", BASE / "export", "https://x.org/ct/"), "gs://c/d")


def test_a_policy_with_addresses_round_trips() -> None:
    loaded = policy("[abfs://a/b, export]", "s3://c")
    assert loads(dumps(loaded), base=BASE) == loaded


def test_the_data_location_does_not_change_the_digest() -> None:
    assert policy_digest(policy("[s3://a/b]", "s3://c")) == policy_digest(policy())


@pytest.mark.parametrize(
    ("inputs", "output", "place", "message"),
    [
        ("[ftp://a/b]", "./o", "4:10", "Unsupported kind of address"),
        ("[S3://a/b]", "./o", "4:10", "Unsupported kind of address"),
        ("['s3://']", "./o", "4:10", "has no bucket or server"),
        ("[s3:///a]", "./o", "4:10", "has no bucket or server"),
        ("['s3://a/b c']", "./o", "4:10", "space or control character"),
        ("[s3://a/../b]", "./o", "4:10", "empty or dots-only"),
        ("[s3://a//b]", "./o", "4:10", "empty or dots-only"),
        ("['s3://a/b*']", "./o", "4:10", "as a wildcard"),
        ("['https://u:p@h/x']", "./o", "4:10", "a user or password"),
        ("['https://h/x?token=1']", "./o", "4:10", "a query"),
        ("[./a, s3://a/b, s3://a/b/c]", "./o", "4:25", "overlaps an address listed before"),
        ("[s3://a/b]", "s3://a/b/out", "5:9", "overlaps an input"),
        ("[s3://a/b]", "s3://a", "5:9", "overlaps an input"),
        ("[./a]", "https://h/x", "5:9", "A release cannot be written to this kind of address"),
        (f"[s3://{'a' * 2000}]", "./o", "4:10", "longer than 2,000 characters"),
        ("[./a]", f"s3://{'a' * 2000}", "5:9", "longer than 2,000 characters"),
    ],
)
def test_an_unusable_address_is_reported_with_its_location(
    inputs: str, output: str, place: str, message: str
) -> None:
    with pytest.raises(PolicyError) as failure:
        policy(inputs, output)
    (problem,) = failure.value.problems
    assert f"{problem.line}:{problem.column}" == place
    assert message in problem.message


@pytest.mark.parametrize("inputs", ["[s3://a/b, s3://a/bc]", "[s3://a/b, gs://a/b]"])
def test_addresses_with_a_common_name_prefix_do_not_overlap(inputs: str) -> None:
    assert len(policy(inputs).inputs) == 2
