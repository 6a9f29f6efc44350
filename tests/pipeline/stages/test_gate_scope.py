"""Every gate states how much it looked at, and none passes that looked at nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from medsanitize.pipeline.reporting.console import show_result
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.stages.faces import faces_gate
from medsanitize.pipeline.stages.sanitize import burned_in_gate
from medsanitize.pipeline.stages.tally import Tally
from medsanitize.policies.model import FacesAction, Policy
from medsanitize.release.summary import GateResult, GateSummary, gate_of_check

Workplace = Callable[..., Policy]
ONE = Options(workers=1)


def tally_of(check: str, **results: int) -> Tally:
    tally = Tally()
    tally.checks[check].update(results)
    return tally


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ({}, ("not_applicable", 0, 0)),
        ({"not_applicable": 7}, ("not_applicable", 0, 0)),
        ({"not_run": 4}, ("not_run", 0, 4)),
        ({"passed": 5, "not_applicable": 1}, ("passed", 5, 5)),
        ({"passed": 5, "not_run": 1}, ("flagged", 5, 6)),
        ({"passed": 5, "flagged": 2}, ("flagged", 7, 7)),
    ],
)
def test_a_gate_follows_from_how_many_objects_were_looked_at(
    results: dict[str, int], expected: tuple[GateResult, int, int]
) -> None:
    gate = gate_of_check("a check", results, "detail", unconcerned="none")
    assert (gate.result, gate.looked_at, gate.concerned) == expected


def test_no_gate_can_pass_that_looked_at_nothing() -> None:
    with pytest.raises(ValueError, match="looked at nothing"):
        GateSummary("a check", "passed", "", 0, 5)


def test_text_in_pixels_is_not_applicable_where_no_object_was_read() -> None:
    gate = burned_in_gate(tally_of("pixels", not_applicable=160), clean_pixel_data=True)
    assert gate.result == "not_applicable"
    assert "0 objects" not in gate.detail


@pytest.mark.parametrize(
    ("action", "results", "result"),
    [
        ("ignore", {"not_run": 160}, "not_run"),
        ("flag", {"flagged": 160}, "flagged"),
        ("deface", {"passed": 160}, "passed"),
        ("flag", {"not_applicable": 3}, "not_applicable"),
    ],
)
def test_heads_that_may_show_a_face_have_a_gate(
    action: FacesAction, results: dict[str, int], result: GateResult
) -> None:
    assert faces_gate(tally_of("faces", **results), action).result == result


def test_every_check_of_the_manifest_has_a_gate_with_its_scope(workplace: Workplace) -> None:
    policy = workplace()
    gates = {gate.name: gate for gate in run(policy, ONE).gates}
    named = (
        "burned-in text",
        "faces",
        "residual identifiers",
        "duplicates by pixels",
        "earlier releases",
        "overlap",
    )
    for name in named:
        assert gates[name].looked_at is not None
        assert gates[name].concerned is not None
    assert all(gate.looked_at != 0 for gate in gates.values() if gate.result == "passed")
    told = json.loads((policy.state / "return.json").read_text())["gates"]
    assert {gate["name"]: (gate["looked_at"], gate["concerned"]) for gate in told} == {
        name: (gate.looked_at, gate.concerned) for name, gate in gates.items()
    }


def test_the_terminal_and_the_report_state_the_scope(
    workplace: Workplace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    policy = workplace()
    done = run(policy, ONE)
    show_result(done)
    audit = next(gate for gate in done.gates if gate.name == "residual identifiers")
    assert f"looked at {audit.scope}" in capsys.readouterr().out
    assert f"<td>{audit.scope}</td>" in (policy.output / "report.html").read_text()
