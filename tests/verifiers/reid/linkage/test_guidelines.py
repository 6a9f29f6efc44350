"""The checklist A1 to A7: when each is met, not met or left to a person."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from medsanitize.policies.load import loads
from medsanitize.release.manifest import ObjectRow, write_objects
from medsanitize.sanitize.result import CheckResult
from medsanitize.verifiers.reid.calibration import Rate
from medsanitize.verifiers.reid.linkage.holub_guidelines import ChecklistFacts, checklist, facts_of

BEST = ChecklistFacts(
    anonymous=True,
    kept=(),
    license=True,
    patients=80,
    objects=160,
    slides=0,
    unsearched=0,
    unread=0,
    uncompared=0,
    found_before=0,
    matched=0,
    undecided=0,
    blocks=0,
    shared_blocks=0,
    without_block=0,
)
NOBODY = Rate(0.0, 0, 80, 0.0, 0.037)
SOME = Rate(0.1, 8, 80, 0.05, 0.17)


def standing(code: str, linked: Rate | None = None, **changes: Any) -> str:
    return {one.code: one.result for one in checklist(replace(BEST, **changes), linked, linked)}[code]


@pytest.mark.parametrize(
    ("code", "linked", "changes", "result"),
    [
        ("A1", None, {}, "met"),
        ("A1", None, {"kept": ("true dates",)}, "not_met"),
        ("A1", None, {"unsearched": 1}, "needs_review"),
        ("A1", None, {"unread": 1}, "needs_review"),
        ("A2", None, {}, "needs_review"),
        ("A2", None, {"anonymous": False}, "not_met"),
        ("A3", NOBODY, {"matched": 1}, "not_met"),
        ("A3", NOBODY, {"undecided": 1}, "needs_review"),
        ("A3", NOBODY, {}, "met"),
        ("A3", Rate(0.0, 0, 2, 0.0, 0.776), {}, "needs_review"),
        ("A3", SOME, {}, "not_met"),
        ("A3", NOBODY, {"found_before": 1}, "not_met"),
        ("A3", NOBODY, {"uncompared": 1}, "needs_review"),
        ("A3", None, {}, "needs_review"),
        ("A4", None, {}, "met"),
        ("A4", None, {"slides": 9, "blocks": 3, "shared_blocks": 2}, "needs_review"),
        ("A4", None, {"slides": 9, "without_block": 9}, "needs_review"),
        ("A4", SOME, {"slides": 9}, "not_met"),
        ("A5", NOBODY, {}, "needs_review"),
        ("A6", None, {}, "needs_review"),
        ("A6", None, {"patients": 4}, "not_met"),
        ("A7", None, {}, "needs_review"),
        ("A7", None, {"license": False}, "not_met"),
    ],
)
def test_each_guideline_status_follows_from_the_facts(
    code: str, linked: Rate | None, changes: dict[str, Any], result: str
) -> None:
    assert standing(code, linked, **changes) == result


def test_an_attack_of_slides_on_themselves_proves_nothing_about_other_data() -> None:
    found = {one.code: one for one in checklist(replace(BEST, slides=9), None, SOME)}
    assert found["A3"].result == "needs_review"
    assert "No linkage attack" in found["A3"].why
    assert found["A4"].result == "not_met"


def test_images_excluded_from_an_attack_require_a_human_decision() -> None:
    found = {one.code: one for one in checklist(BEST, NOBODY, left=3)}
    assert found["A3"].result == "needs_review"
    assert "3 images were not part of it." in found["A3"].why


def test_an_attack_on_radiographs_proves_nothing_about_slides() -> None:
    found = {one.code: one for one in checklist(replace(BEST, slides=9), SOME)}
    assert (found["A3"].result, found["A4"].result) == ("not_met", "needs_review")


def test_open_guidelines_are_explained_in_complete_sentences() -> None:
    why = checklist(replace(BEST, unread=1))[0].why
    assert why == "1 object may show text that was not read."


def test_all_seven_guidelines_are_in_order_with_reasons() -> None:
    found = checklist(BEST, SOME)
    assert [one.code for one in found] == [f"A{n}" for n in range(1, 8)]
    assert all(one.why.endswith(".") for one in found)
    assert "linked 8 of 80 patients" in found[2].why
    assert "at most 17.0 %" in found[2].why


POLICY = """\
version: 1
preset: research
release: {name: a, version: "1.0", mode: pseudonymous, license: CC-BY-4.0}
inputs: [./in]
output: ./out
state: ./state
keys: {env: A_KEY}
dicom: {options: {retain_uids: true}}
"""


def row(number: int, **changes: Any) -> ObjectRow:
    path = f"data/P{number // 2}/2.25.1/2.25.2/2.25.{number}.svs"
    ids = (path, "slide", "SM", "", "", f"P{number // 2}", "2.25.1", "2.25.2", f"2.25.{number}")
    return replace(ObjectRow(f"o{number}", *ids, 1, "0" * 64), **changes)


def test_an_inconclusive_overlap_counts_if_the_policy_requires_it(tmp_path: Path) -> None:
    write_objects([row(0), row(1, check_overlap=CheckResult.PASSED)], tmp_path, metadata={})
    asks = POLICY + "registry: {path: ./registry, key: {env: B_KEY}}\noverlap: {action: flag}\n"
    found = [facts_of(loads(text, base=tmp_path), tmp_path).undecided for text in (POLICY, asks)]
    assert found == [0, 1]


def test_the_facts_are_read_from_policy_and_manifest(tmp_path: Path) -> None:
    rows = [
        row(0, slide_block="B1", check_registry=CheckResult.PASSED),
        row(1, slide_block="B1", check_registry=CheckResult.FLAGGED, check_identifiers=CheckResult.PASSED),
        row(2, slide_block="B2", check_pixels=CheckResult.PASSED, check_overlap=CheckResult.FLAGGED),
        row(3, check_pixels=CheckResult.NOT_APPLICABLE),
    ]
    write_objects(rows, tmp_path, metadata={})
    found = facts_of(loads(POLICY, base=tmp_path), tmp_path)
    assert found == ChecklistFacts(
        anonymous=False,
        kept=("UIDs",),
        license=True,
        patients=2,
        objects=4,
        slides=4,
        unsearched=3,
        unread=2,
        uncompared=2,
        found_before=1,
        matched=1,
        undecided=0,
        blocks=2,
        shared_blocks=1,
        without_block=1,
    )
