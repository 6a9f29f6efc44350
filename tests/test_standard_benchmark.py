"""A sample of `benchmarks/standard.py`: what a row removes is in no byte, what an option keeps is kept."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from medsanitize.policies.model import Options, Policy
from medsanitize.sanitize.dicom.inspect_dicom import kept_attributes

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
EVERY = 97


@pytest.fixture(scope="module")
def standard() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield import_module("standard")
        sys.modules.pop("standard")


@pytest.fixture(scope="module")
def policies(standard: ModuleType) -> dict[str, Policy]:
    found: dict[str, Policy] = standard.policies()
    return found


@pytest.mark.parametrize("name", ["ps3.15-basic", *(f"basic + {name}" for name in Options.model_fields)])
def test_nothing_is_left_or_lost_under_the_basic_profile_and_each_option(
    name: str, standard: ModuleType, policies: dict[str, Policy]
) -> None:
    counts, failed = standard.measure(name, policies[name], EVERY)

    assert not failed
    assert counts["objects"] > 60


@pytest.mark.text
@pytest.mark.parametrize("name", ["research", "hipaa-safe-harbor"])
def test_nothing_is_left_or_lost_under_a_preset_that_cleans_texts(
    name: str, standard: ModuleType, policies: dict[str, Policy]
) -> None:
    assert standard.measure(name, policies[name], EVERY)[1] == []


def test_a_value_that_a_policy_keeps_against_its_row_is_found(
    standard: ModuleType, policies: dict[str, Policy]
) -> None:
    """The benchmark can fail: the policy keeps what the table of another one removes."""
    keeping, removing = policies["basic + retain_institution_identity"], policies["ps3.15-basic"]
    plant = next(one for one in standard.plants() if one.row.keyword == "InstitutionName")
    sanitized = standard.release(standard.sanitizer_of(keeping), plant, kept_attributes(keeping.dicom))

    assert standard.verdict(plant, keeping, sanitized) == ""
    assert standard.verdict(plant, removing, sanitized) == "left"
