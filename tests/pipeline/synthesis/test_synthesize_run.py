"""Synthetic images in whole runs: originals dropped, images judged, staged, audited and marked."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pydicom
import pytest
from medsanitize.pipeline.review.pages import apply_decisions, make_review
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.synthesis import write_objects
from medsanitize.pipeline.synthesis.draw import SampleRequest, apportion
from medsanitize.pipeline.synthesis.write_objects import FIRST_ROW
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation, Cancelled
from medsanitize.release.manifest import read_rows
from medsanitize.release.verify import verify_release
from medsanitize.verifiers.leaks.audit import audit_release

from tests.helpers.hospital import tree
from tests.helpers.synthesis import RULE, Make, released_files, report_of, run_policy, synthetic_gate
from tests.helpers.synthetic_images import CoarseModel, FakeGenerator, person


def test_labeled_originals_are_replaced_by_equally_many_images(
    released: tuple[Policy, RunResult],
) -> None:
    policy, result = released
    rows = list(read_rows(policy.output))
    made = [row for row in rows if row.synthetic]
    assert result.dropped == {RULE: 4}
    assert (result.objects, result.outcomes["released"]) == (8, 4)
    assert synthetic_gate(result).result == "passed"
    assert len(rows) == 8
    assert {row.synthetic_label for row in made} == {"effusion"}
    assert {(row.model_digest, row.gate_verdict) for row in made} == {("f" * 64, "passed")}
    assert all(row.residual_bound is not None and 0 < row.residual_bound <= 0.001 for row in made)
    assert all((row.match_bound or 0) > (row.residual_bound or 0) for row in made)
    assert not any(row.model_digest or row.gate_verdict for row in rows if not row.synthetic)


def test_every_synthetic_image_has_its_own_patient_and_study(
    released: tuple[Policy, RunResult],
) -> None:
    policy, _ = released
    rows = list(read_rows(policy.output))
    real = {row.patient for row in rows if not row.synthetic}
    made = [row for row in rows if row.synthetic]
    assert len({row.patient for row in made}) == len({row.study for row in made}) == len(made)
    assert not real & {row.patient for row in made}
    for row in made:
        data = pydicom.dcmread(policy.output / row.path)
        assert (data.PatientID, data.StudyDate, data.AccessionNumber) == (row.patient, "", "")


def test_the_release_is_intact_and_its_audit_finds_nothing(released: tuple[Policy, RunResult]) -> None:
    policy, _ = released
    assert verify_release(policy.output, key=None).status == "intact"
    assert audit_release(policy.output).findings == ()


def test_the_original_of_a_synthetic_image_is_not_recorded(make: Make, people: Path, tmp_path: Path) -> None:
    lines = (people / "labels.csv").read_text().splitlines()
    swapped = {"clear": "effusion", "effusion": "clear"}
    others = [
        ",".join([*parts[:3], swapped[parts[3]]]) if line.startswith("export/") else line
        for line in lines[:0:-1]
        for parts in [line.split(",")]
    ]
    table = tmp_path / "other.csv"
    table.write_text("\n".join([lines[0], *others]))
    one, other = make("one"), make("two", table=table)
    run_policy(one)
    run_policy(other)
    images = [[row for row in read_rows(policy.output) if row.synthetic] for policy in (one, other)]
    kept = [{row.path for row in read_rows(policy.output) if not row.synthetic} for policy in (one, other)]
    assert images[0] == images[1]
    assert not kept[0] & kept[1]


def test_with_too_few_patients_nothing_synthetic_is_released_and_originals_are_dropped(
    make: Make, people: Path
) -> None:
    policy = make(table=people / "few.csv")
    result = run_policy(policy)
    assert result.ending == "published"
    assert result.dropped == {RULE: 4}
    assert synthetic_gate(result).result == "flagged"
    assert "insufficient_data" in synthetic_gate(result).detail
    assert not any(row.synthetic for row in read_rows(policy.output))
    assert "data:image" not in (policy.output / "report.html").read_text()
    assert len(released_files(policy)) == 4


def test_with_too_few_patients_nothing_is_sampled_and_the_need_is_reported(
    make: Make, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_objects, "generate_pixels", lambda *_: pytest.fail("drawn"))
    policy = make(table=people / "few.csv")
    run_policy(policy)
    report = (policy.output / "report.html").read_text()
    assert "the 1 that there are allow at best a residual" in report
    assert "f" * 64 in report
    assert not workspace_of(policy).synthetic_page.exists()


def test_a_copying_generator_fails_the_gate(make: Make, generator: dict[str, FakeGenerator]) -> None:
    generator["now"] = FakeGenerator(copied=2)
    policy = make()
    result = run_policy(policy)
    assert "verdict is failed" in synthetic_gate(result).detail
    assert len(released_files(policy)) == 4


def test_replacing_all_by_rejected_images_leaves_nothing_to_release(
    make: Make, generator: dict[str, FakeGenerator]
) -> None:
    generator["now"] = FakeGenerator(copied=2)
    policy = make(replace="all")
    result = run_policy(policy)
    assert result.ending == "refused"
    assert list(policy.output.iterdir()) == []


def test_all_images_can_be_replaced_by_a_number_per_patient(make: Make) -> None:
    policy = make(replace="all", per_patient="3")
    result = run_policy(policy)
    made = [row for row in read_rows(policy.output) if row.synthetic]
    assert result.dropped == {RULE: 8}
    assert len(made) == 12
    assert sorted(row.synthetic_label or "" for row in made) == ["clear"] * 6 + ["effusion"] * 6


def test_only_flagged_images_are_replaced_if_configured(make: Make) -> None:
    policy = make(replace="flagged", export=True)
    source = policy.inputs[0] / "i0.dcm"
    twin = pydicom.dcmread(source)
    twin.SOPInstanceUID = twin.file_meta.MediaStorageSOPInstanceUID = "1.2.3.4.5"
    twin.save_as(source.with_name("twin.dcm"))
    result = run_policy(policy)
    assert result.dropped == {RULE: 2}


def test_tries_are_counted_over_the_versions_of_a_release(make: Make) -> None:
    policy = make()
    run_policy(policy)
    run_policy(make("again"))
    later = '{name: chest, version: "2.0", mode: pseudonymous}'
    second = make(others={"release": later, "output": "./second"}, residual="0.002")
    run_policy(second)
    assert "(try 1 on these patients" in report_of(policy)
    assert "(try 2 on these patients" in report_of(second)


def test_with_nothing_to_replace_nothing_is_sampled(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_objects, "generate_pixels", lambda *_: pytest.fail("drawn"))
    assert synthetic_gate(run_policy(make(replace="flagged"))).result == "passed"


def test_pictures_have_a_sidecar_and_both_are_audited(make: Make) -> None:
    policy = make(form="png")
    run_policy(policy)
    row = next(row for row in read_rows(policy.output) if row.synthetic)
    beside = (policy.output / row.path).with_suffix(".json")
    assert (row.kind, row.study) == ("raster", "")
    assert json.loads(beside.read_text())["class"] == "effusion"
    assert verify_release(policy.output, key=None).status == "intact"
    assert audit_release(policy.output).findings == ()
    beside.write_text(beside.read_text().replace("passed", "parsed"))
    assert {finding.rule for _, finding in audit_release(policy.output).findings} == {"audit:digest"}


@pytest.mark.parametrize("form", ["secondary-capture", "png"])
def test_a_killed_run_gives_the_same_bytes(make: Make, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    whole, cut = make("whole", form=form), make("cut", form=form)
    run_policy(whole)
    stop = Cancellation()
    batches: list[tuple[SampleRequest, ...]] = []
    real = write_objects.generate_pixels

    def counted(folder: Path, device: str, part: Sequence[SampleRequest]) -> bytes:
        batches.append(tuple(part))
        made = real(folder, device, part)
        stop.number = 15 if len(batches) == 2 else 0
        return made

    monkeypatch.setattr(write_objects, "generate_pixels", counted)
    with pytest.raises(Cancelled):
        run_policy(cut, cancellation=stop)
    run_policy(cut)
    assert len(batches) == len(set(batches))
    assert tree(cut.output) == tree(whole.output)


def test_images_rejected_in_a_review_are_not_released(make: Make) -> None:
    approve = '{name: chest, version: "1.0", mode: pseudonymous, approve: required}'
    policy = make(others={"release": approve})
    run_policy(policy)
    make_review(policy)
    page = workspace_of(policy).review_page().read_text()
    items = set(re.findall(r'type="radio" name="(object-[0-9]*)"', page))
    synthetic = sorted(name for name in items if int(name.removeprefix("object-")) >= FIRST_ROW)
    assert len(synthetic) == 4
    facts = {
        "version": 1,
        "page": re.findall(r'data-page="([^"]*)"', page)[0],
        "approve": None,
        "decisions": {synthetic[0]: "quarantine"},
    }
    (policy.state / "decisions.json").write_text(json.dumps(facts))
    apply_decisions(policy, policy.state / "decisions.json")
    again = run_policy(policy)
    result = run(policy, Options(workers=1, approve=again.digest))
    rows = list(read_rows(policy.output))
    assert result.ending == "published"
    assert (result.objects, result.dropped) == (8, {RULE: 4})
    assert sum(row.synthetic for row in rows) == 3
    assert len(released_files(policy)) == len(rows) == 7


@pytest.mark.parametrize(
    ("total", "shares", "counts"),
    [(5, (1, 1), [3, 2]), (7, (5, 0, 2), [5, 0, 2]), (3, (1, 1, 1, 1), [1, 1, 1, 0])],
)
def test_counts_are_distributed_as_integers(total: int, shares: tuple[int, ...], counts: list[int]) -> None:
    assert apportion(total, shares) == counts


def test_the_verifier_separates_people() -> None:
    """Of the simulation itself: visits of a person are similar, and different people are not."""
    model = CoarseModel()
    from medsanitize.generators.diffusion.preprocess import to_image_array

    seen = model.embed([to_image_array(person([1, 2], visit)) for visit in (0, 1)])
    other = model.embed([to_image_array(person([1, 3]))])
    assert model.score(seen[:1], seen[1:])[0] > 0.95
    assert model.score(seen[:1], other)[0] < 0.1
    assert np.isfinite(other).all()
