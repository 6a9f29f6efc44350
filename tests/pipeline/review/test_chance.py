"""What the audit finds in pixels quarantines the object; a person may judge a finding to be chance."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pydicom
import pytest
from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.export_ledger import audit_with_state
from medsanitize.pipeline.review.pages import apply_decisions, make_review
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.policies.model import Policy

from tests.helpers.hospital import CANARIES, tree

ONE = Options(workers=1)
APPROVED = '{name: chest-ct, version: "1.0", mode: pseudonymous, approve: required}'
Workplace = Callable[..., Policy]
PLANTED = f"{CANARIES[0]}^A".encode()


def plant(policy: Policy, value: bytes = PLANTED) -> None:
    """Write a known value into the pixels of one object."""
    path = policy.output.parent / "export" / "p1" / "i0001"
    data = pydicom.dcmread(path)
    text = b"\0" + value + b"\0" * (1 + len(value) % 2)
    data.PixelData = data.PixelData[:4096] + text + data.PixelData[4096 + len(text) :]
    data.save_as(path)


def gate_of(result: RunResult) -> Any:
    return next(gate for gate in result.gates if gate.name == "residual identifiers")


def page_of(policy: Policy) -> str:
    make_review(policy)
    return workspace_of(policy).review_page().read_text()


def decide(policy: Policy, verdict: str, reason: str | None) -> Any:
    page = page_of(policy)
    excerpts = dict.fromkeys(re.findall(r'name="(excerpt-[0-9a-f]{32})"', page))
    facts = {
        "version": 1,
        "page": re.findall(r'data-page="([^"]*)"', page)[0],
        "approve": None,
        "decisions": dict.fromkeys(excerpts, verdict),
        "reasons": {} if reason is None else dict.fromkeys(excerpts, reason),
    }
    file = policy.output.parent / "decisions.json"
    file.write_text(json.dumps(facts))
    return apply_decisions(policy, file)


def test_a_value_in_pixels_quarantines_its_object_and_flags_the_gate(workplace: Workplace) -> None:
    policy = workplace()
    plant(policy)
    done = run(policy, ONE)
    assert (done.ending, done.quarantined["identifier-in-pixels"]) == ("published", 1)
    assert gate_of(done).result == "flagged"
    for path in policy.output.rglob("*"):
        assert not path.is_file() or PLANTED not in path.read_bytes()


def test_a_policy_may_refuse_a_release_with_a_value_in_pixels(workplace: Workplace) -> None:
    policy = workplace(audit="{in_pixels: refuse}")
    plant(policy)
    done = run(policy, ONE)
    assert (done.ending, gate_of(done).result) == ("refused", "failed")


def test_a_value_outside_pixels_refuses_the_release(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    _find_in_headers(monkeypatch)
    assert run(workplace(), ONE).ending == "refused"


def test_the_page_shows_file_place_value_and_surroundings(workplace: Workplace) -> None:
    policy = workplace(release=APPROVED)
    plant(policy)
    run(policy, ONE)
    page = page_of(policy)
    assert "p1/i0001" in page
    assert re.search(r"Place: bytes [\d,]+ to [\d,]+", page)
    assert f"Value: {PLANTED.decode()}" in page
    assert "With what surrounds it: " in page


def test_the_value_is_on_the_page_only(workplace: Workplace, capfd: pytest.CaptureFixture[str]) -> None:
    policy = workplace(release=APPROVED)
    plant(policy)
    done = run(policy, ONE)
    page_of(policy)
    workspace_of(policy).review_page().unlink()
    for folder in (policy.state, policy.output):
        for path in folder.rglob("*"):
            assert not path.is_file() or PLANTED not in path.read_bytes()
    assert CANARIES[0] not in repr(done) + "".join(capfd.readouterr())


def test_a_finding_judged_to_be_chance_is_released_and_stated(workplace: Workplace) -> None:
    policy = workplace(release=APPROVED)
    plant(policy)
    held = run(policy, ONE)
    taken = decide(policy, "chance", "a texture")
    again = run(policy, ONE)
    assert (held.quarantined["identifier-in-pixels"], taken.objects > 0) == (1, True)
    assert "identifier-in-pixels" not in again.quarantined
    assert gate_of(again).result == "flagged"
    assert "1 findings were judged by a person to be chance" in gate_of(again).detail
    assert run(policy, replace(ONE, approve=again.digest)).ending == "published"


def test_a_refused_run_continues_after_its_finding_is_judged_to_be_chance(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    _find_in_headers(monkeypatch)
    policy = workplace()
    refused = run(policy, ONE)
    decide(policy, "chance", "the name of a device")
    done = run(policy, ONE)
    assert (refused.ending, done.ending, gate_of(done).result) == ("refused", "published", "flagged")


def test_a_judgment_holds_only_for_what_was_seen(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    _find_in_headers(monkeypatch)
    policy = workplace()
    run(policy, ONE)
    decide(policy, "chance", "the name of a device")
    _find_in_headers(monkeypatch, "another value")
    assert run(policy, ONE).ending == "refused"


def test_what_is_not_chance_is_quarantined(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    _find_in_headers(monkeypatch)
    policy = workplace()
    run(policy, ONE)
    decide(policy, "quarantine", None)
    done = run(policy, ONE)
    assert (done.ending, done.quarantined["review"]) == ("published", 1)


def test_a_later_audit_of_the_release_knows_what_was_judged_to_be_chance(workplace: Workplace) -> None:
    policy = workplace(release=APPROVED)
    plant(policy)
    run(policy, ONE)
    decide(policy, "chance", "a texture")
    run(policy, replace(ONE, approve=run(policy, ONE).digest))
    assert audit_with_state(str(policy.output), policy).passed


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_chance_needs_a_reason(workplace: Workplace, reason: str | None) -> None:
    policy = workplace(release=APPROVED)
    plant(policy)
    run(policy, ONE)
    with pytest.raises(UsageError):
        decide(policy, "chance", reason)


def test_the_reason_is_stored_encrypted(workplace: Workplace) -> None:
    policy = workplace(release=APPROVED)
    plant(policy)
    run(policy, ONE)
    decide(policy, "chance", "a peculiar texture")
    for path in policy.state.rglob("*"):
        assert not path.is_file() or b"peculiar" not in path.read_bytes()


def test_what_is_quarantined_does_not_change_how_unlikely_a_hit_must_be(workplace: Workplace) -> None:
    details = []
    for number in (1, 2):
        policy = workplace(f"w{number}", release=APPROVED)
        plant(policy)
        for _ in range(number):  # the second run audits again, without the quarantined object
            held = run(policy, ONE)
        details.append(gate_of(held).detail)
    assert details[0] == details[1]


def test_the_same_judgments_give_the_same_release(workplace: Workplace) -> None:
    trees = []
    for name in ("a", "b"):
        policy = workplace(name, release=APPROVED)
        plant(policy)
        run(policy, ONE)
        decide(policy, "chance", f"reason {name}")
        run(policy, replace(ONE, approve=run(policy, ONE).digest))
        trees.append(tree(policy.output))
    assert trees[0] == trees[1]


def _find_in_headers(monkeypatch: pytest.MonkeyPatch, value: str = "a value") -> None:
    """Make the audit find something in the header of one object."""
    from medsanitize.pipeline.stages import audit as stage
    from medsanitize.pipeline.state.excerpts import seal_excerpt

    monkeypatch.undo()
    original = stage._audit_one
    first: list[str] = []

    def audit(worker: Any, target: Any) -> Any:
        first[:] = first or [target.sha256]
        found = original(worker, target)
        if target.sha256 != first[0]:
            return found
        place = ("(0008,1090)", "audit:text")
        seal = seal_excerpt(worker.seal, *place, "the value of the attribute", value, value)
        return replace(found, findings=(place,), excerpts=(seal,))

    monkeypatch.setattr(stage, "_audit_one", audit)
