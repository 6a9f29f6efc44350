"""The stages of a run are one tuple, in order; each has its section of the policy and resets its results."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.pipeline.requeue import invalidate_decisions, reset_all
from medsanitize.pipeline.sequence import STAGES, reset_after, stages_of
from medsanitize.pipeline.state import stage_results
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.result_types import Judgment, Publication, Walk
from medsanitize.policies.model import Policy
from medsanitize.sanitize.pseudonyms import derive_sub_keys

NAMES = [stage.name for stage in STAGES]
PHASES = ("inventory", "objects", "set", "documents")


@pytest.fixture
def state() -> State:
    return State(None, derive_sub_keys(bytes(range(32)), scope="release:test"))


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return Policy(
        preset="ps3.15-basic",
        version=1,
        release={"name": "study", "version": "1", "mode": "pseudonymous"},
        keys={"file": tmp_path / "key"},
        inputs=(tmp_path / "export",),
        output=tmp_path / "release",
        state=tmp_path / "state",
    )


def test_every_stage_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(STAGES)


def test_phases_follow_each_other() -> None:
    order = [PHASES.index(stage.phase) for stage in STAGES]
    assert order == sorted(order)


def test_a_stage_is_invalidated_by_earlier_stages_only() -> None:
    wrong = [
        f"{stage.name} by {name}"
        for number, stage in enumerate(STAGES)
        for name in stage.invalidated_by
        if name not in NAMES[:number]
    ]
    assert wrong == []


def test_a_policy_gives_the_stages_in_their_order(policy: Policy) -> None:
    assert tuple(type(stage) for stage in stages_of(policy)) == STAGES


def test_no_stage_holds_the_policy(policy: Policy) -> None:
    held = [
        stage.name
        for stage in stages_of(policy)
        if any(isinstance(getattr(stage, name), Policy) for name in stage.__dataclass_fields__)  # type: ignore[attr-defined]
    ]
    assert held == []


def test_sanitizing_again_voids_what_was_decided_on_the_set_and_nothing_else(state: State) -> None:
    stage_results.WALK.store(state, Walk(3, "digest"))
    stage_results.PUBLICATION.store(state, Publication("{}", "digest", {}))
    stage_results.JUDGED.store(state, Judgment("refused", "digest"))
    decided = (
        *(stage_results.CONTESTS_SETTLED, stage_results.DUPLICATES_JUDGED, stage_results.FAILED_BYTES),
        *(stage_results.FAILED_PIXELS, stage_results.FAILED_REGISTRY, stage_results.OVERLAP_JUDGED),
        stage_results.FAILED_OVERLAP,
    )
    for mark in decided:
        mark.set(state)
    stage_results.SYNTHETIC.store(state, None)
    with state.transaction():
        invalidate_decisions(state)
    assert not any(mark.is_set(state) for mark in decided)
    assert not stage_results.SYNTHETIC.is_stored(state)
    assert not stage_results.JUDGED.is_stored(state)
    assert stage_results.WALK.is_stored(state)
    assert stage_results.PUBLICATION.is_stored(state)


def test_a_withdrawn_release_is_published_as_if_for_the_first_time(state: State) -> None:
    stage_results.PUBLICATION.store(state, Publication("{}", "digest", {}))
    stage_results.WITHDRAWN.set(state)
    reset_all(state)
    assert not stage_results.PUBLICATION.is_stored(state)
    assert not stage_results.WITHDRAWN.is_set(state)


def test_a_stage_resets_only_those_that_name_it(state: State) -> None:
    stage_results.CONTESTS_SETTLED.set(state)
    stage_results.OVERLAP_JUDGED.set(state)
    with state.transaction():
        reset_after(state, "deduplicate")
    assert stage_results.CONTESTS_SETTLED.is_set(state)
    assert not stage_results.OVERLAP_JUDGED.is_set(state)


def test_the_architecture_page_lists_the_stages_as_they_are() -> None:
    rows = [
        "| {} | {} | {} | {} | {} |".format(
            stage.name,
            stage.phase,
            "yes" if stage.in_plan else "no",
            ", ".join(sorted(stage.invalidated_by, key=NAMES.index)) or "-",
            (stage.__doc__ or "").splitlines()[0],
        )
        for stage in STAGES
    ]
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page
