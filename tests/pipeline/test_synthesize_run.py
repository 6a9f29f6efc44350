"""Synthetic images in whole runs: originals dropped, images judged, staged, audited and marked, or none."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pydicom
import pytest
from medsanitize.errors import UsageError
from medsanitize.generators.gate import gate as gate_module
from medsanitize.generators.quality import page as quality_page
from medsanitize.generators.quality import quality as quality_module
from medsanitize.pipeline import drawing, synthesize_stage, synthetic_objects
from medsanitize.pipeline.drawing import Draw, apportioned
from medsanitize.pipeline.evidence_stage import synthetic_of
from medsanitize.pipeline.opening import page_path as review_page
from medsanitize.pipeline.outcome import RunResult
from medsanitize.pipeline.review import make_review, take_decisions
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.stop import Stop, Stopped
from medsanitize.pipeline.synthesize_stage import page_path
from medsanitize.pipeline.synthetic_objects import FIRST_ROW
from medsanitize.policies.model import Policy
from medsanitize.release.manifest import read_rows
from medsanitize.release.summary import Figures, Synthetic
from medsanitize.release.verify import verify
from medsanitize.verifiers.audit import audit_release

from tests.pipeline.conftest import KEY, prepare, tree
from tests.pipeline.synthetics import (
    CLASSES,
    Coarse,
    Maker,
    coarse_features,
    digest_of,
    person,
    write_export,
    write_people,
    write_table,
    write_verifier,
)

Make = Callable[..., Policy]
RULE = "synthesize:replaced"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough people to calibrate on, an export of others, and the table of all."""
    base = tmp_path_factory.mktemp("people")
    rows = [*write_people(base / "parts", 300), *write_export(base / "export")]
    write_table(base / "labels.csv", rows)
    few = [row for row in rows if row[2] != "calibration" or row[1].endswith("7")]
    write_table(base / "few.csv", few)
    return base


@pytest.fixture(scope="module")
def gates() -> dict[Any, Any]:
    """Gates that were calibrated before."""
    return {}


@pytest.fixture(scope="module")
def known(people: Path) -> dict[str, Any]:
    """What the generator's folder says of its training."""
    images = digest_of(people / "labels.csv", "train")
    return {"classes": dict.fromkeys(CLASSES, 55), "images": images, "start": "random"}


@pytest.fixture
def generator(
    monkeypatch: pytest.MonkeyPatch, gates: dict[Any, Any], known: dict[str, Any]
) -> dict[str, Maker]:
    """Models that need no weights, in this process; tests may put another generator in its place."""
    held = {"now": Maker()}
    monkeypatch.setattr(drawing, "open_once", lambda *_: held["now"])
    monkeypatch.setattr(synthesize_stage, "open_once", lambda *_: held["now"])
    monkeypatch.setattr(synthesize_stage, "open_verifiers", lambda *_: (Coarse(), Coarse()))
    monkeypatch.setattr("medsanitize.generators.latent.generator.training_of", lambda _: known)
    for module in (quality_module, quality_page):
        monkeypatch.setattr(module, "features_of", coarse_features)
    calibrated = gate_module.prepare

    def prepare_once(*sides: Any, **terms: Any) -> Any:
        key = (held["now"], *(len(side.patients) for side in sides[:3]))
        if key not in gates:
            gates[key] = calibrated(*sides, **terms)
        return gates[key]

    monkeypatch.setattr(gate_module, "prepare", prepare_once)
    return held


@pytest.fixture
def make(people: Path, tmp_path: Path, generator: dict[str, Maker]) -> Make:
    """A policy; keyword arguments change its section, ``others`` further ones. ``export``: a copy of it."""
    assert generator

    def policy(
        name: str = "w", table: Path | None = None, export: bool = False, others: Any = None, **section: str
    ) -> Policy:
        base = tmp_path / name
        if export:
            shutil.copytree(people / "export", base / "export")
        if not (base / "verifier").exists():
            write_verifier(base / "verifier")
        settings = {
            "replace": "by-label",
            "labels": "[effusion]",
            "model": "./generator",
            "verifier": "./verifier",
            "reference": f"{{images: {people}, table: {table or people / 'labels.csv'}}}",
            "bound": "0.1",
            **section,
        }
        if settings["replace"] != "by-label":
            settings.pop("labels")
        text = ", ".join(f"{key}: {value}" for key, value in settings.items())
        sections = {
            "release": '{name: chest, version: "1.0", mode: pseudonymous}',
            "inputs": f"[{'./export' if export else people / 'export'}]",
            "synthesize": f"{{{text}}}",
            "pixels": "{at_risk: release}",
        }
        return prepare(base, **{**sections, **(others or {})})

    return policy


def done(policy: Policy, **options: Any) -> RunResult:
    return run(policy, Options(workers=1), **options)


@pytest.fixture(scope="module")
def finished() -> list[tuple[Policy, RunResult]]:
    """What was released before, only to be looked at."""
    return []


@pytest.fixture
def released(make: Make, finished: list[tuple[Policy, RunResult]]) -> tuple[Policy, RunResult]:
    """A release with synthetic images, made once."""
    if not finished:
        policy = make()
        finished.append((policy, done(policy)))
    return finished[0]


def gate(result: RunResult) -> Any:
    return next(one for one in result.gates if one.name == "synthetic images")


def files(policy: Policy) -> list[Path]:
    return sorted(path for path in (policy.output / "data").rglob("*") if path.is_file())


def test_labelled_originals_are_dropped_and_as_many_images_stand_in_their_place(
    released: tuple[Policy, RunResult],
) -> None:
    policy, result = released
    rows = list(read_rows(policy.output))
    made = [row for row in rows if row.synthetic]
    assert result.dropped == {RULE: 4}
    assert (result.objects, result.outcomes["released"]) == (8, 4)
    assert gate(result).result == "passed"
    assert len(rows) == 8
    assert {row.synthetic_label for row in made} == {"effusion"}
    assert {(row.model_digest, row.gate_verdict) for row in made} == {("f" * 64, "passed")}
    assert all(row.match_bound is not None and 0 < row.match_bound <= 0.1 for row in made)
    assert not any(row.model_digest or row.gate_verdict for row in rows if not row.synthetic)


def test_every_synthetic_image_has_a_patient_and_a_study_of_its_own(
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
    assert verify(policy.output, key=None).status == "intact"
    assert audit_release(policy.output).findings == ()


def test_the_report_shows_verdict_and_images_and_the_page_of_the_holder_is_not_in_it(
    released: tuple[Policy, RunResult],
) -> None:
    policy, _ = released
    report = (policy.output / "report.html").read_text()
    assert "no match found by these attacks at this bound" in report
    assert report.count("data:image/png;base64,") == 1
    page = page_path(policy)
    assert page.stat().st_mode & 0o777 == 0o600
    assert "never publish" in page.read_text()


def report_of(policy: Policy) -> str:
    """The text of the release's report."""
    page = (policy.output / "report.html").read_text().split("</style>")[1]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_report_tells_copies_drawn_from_copies_left(released: tuple[Policy, RunResult]) -> None:
    told = re.search(
        r"Match a training patient, of all that the generator draws ([\d.]+)% "
        r"Are copies, of all that the generator draws ([\d.]+)% "
        r"Are copies, of what is left when matches are removed ([\d.e-]+)",
        report_of(released[0]),
    )
    assert told is not None
    matches, copies, left = (float(one) for one in told.groups())
    assert matches < copies
    assert left < copies / 100


def test_the_evidence_tells_copies_drawn_from_copies_left(released: tuple[Policy, RunResult]) -> None:
    policy, _ = released
    told = json.loads((policy.output / "croissant.json").read_text())["rai:dataCollection"]
    assert re.search(r"at most [\d.]+% of it are copies, and at most \d\.\d+e-\d+ of what is left", told)


FIGURES = (
    "Like the real ones",
    "precision: share of synthetic images among the real ones",
    "Fréchet distance",
    "two halves of the real ones",
    "Variety, over all pairs of some images",
    "Class agreement of a linear classifier of the features",
)


def test_the_report_of_all_classes_has_every_figure_of_quality_with_its_interval(make: Make) -> None:
    policy = make(replace="all")
    done(policy)
    report = report_of(policy)
    assert [name for name in FIGURES if name not in report] == []
    assert "8 synthetic images (those made for the release, before any review) of 32 px" in report
    assert "beside 110 real ones of 110 patients" in report
    assert re.search(r"real images of other patients 110 0\.\d+ \(0\.\d+ to [01]\.\d+\)", report)


def test_where_one_class_is_drawn_its_real_images_are_compared_and_class_agreement_is_not_made(
    released: tuple[Policy, RunResult],
) -> None:
    report = report_of(released[0])
    assert "beside 55 real ones of 55 patients" in report
    assert "Not made: fewer than two classes have images" in report


def test_of_fewer_released_images_than_can_be_measured_all_that_were_drawn_are(
    released: tuple[Policy, RunResult],
) -> None:
    assert "29 synthetic images (all that were drawn, removed ones too)" in report_of(released[0])


def test_where_too_few_real_images_are_of_the_class_the_report_says_so_in_place_of_the_figures(
    make: Make, people: Path, tmp_path: Path
) -> None:
    table = tmp_path / "rare.csv"
    rows = (people / "labels.csv").read_text().splitlines()
    kept = [f"holdout{number}," for number in (1, 3, 5)]
    table.write_text(
        "\n".join(
            row.replace("effusion", "clear")
            if ",holdout," in row and not any(name in row for name in kept)
            else row
            for row in rows
        )
    )
    policy = make(table=table)
    result = done(policy)
    assert gate(result).result == "passed"
    assert "Not measured: Quality is measured on 6 patients and 6 synthetic" in report_of(policy)
    assert "one side has 3" in report_of(policy)
    assert "Fréchet" not in report_of(policy)


def test_the_page_of_the_holder_has_the_same_figures_and_the_nearest_real_images(
    released: tuple[Policy, RunResult],
) -> None:
    policy, _ = released
    page = page_path(policy).read_text()
    told = re.findall(r"\d\.\d+ \(\d\.\d+ to \d\.\d+\)", page)
    assert len(told) == 9
    assert told == re.findall(r"\d\.\d+ \(\d\.\d+ to \d\.\d+\)", (policy.output / "report.html").read_text())
    assert "Nearest real images" in page
    assert "Nearest real images" not in (policy.output / "report.html").read_text()


def test_what_is_said_of_the_images_is_kept_as_it_is() -> None:
    figures = Figures("Variety", ("", "value"), (("real", "0.4 (0.3 to 0.5)"),), texts=1)
    said = Synthetic(2, 2, 2, 0, "passed", "", "", 0.1, ("a",), "", 0.2, 0.01, ("b", "c"), (figures,))
    state: Any = SimpleNamespace(get=lambda _: json.dumps(asdict(said)))
    assert synthetic_of(state) == said


def test_of_images_that_are_not_released_the_report_has_no_figure_and_the_holder_has_all(
    make: Make, generator: dict[str, Maker]
) -> None:
    generator["now"] = Maker(copied=2)
    policy = make()
    done(policy)
    assert "Not measured: no synthetic image is released." in report_of(policy)
    assert "Fréchet" not in report_of(policy)
    assert "Fréchet" in page_path(policy).read_text()


def test_a_run_that_was_stopped_while_it_measured_ends_with_the_same_bytes(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = make("whole"), make("cut")
    done(whole)
    stop = Stop()
    measured: list[int] = []

    def stopping(images: Any, *_: object) -> Any:
        measured.append(len(images))
        # Both sides are looked at before a stop is heard; the next two looks are those of the next run.
        stop.number = 15 if len(measured) <= 2 else 0
        return coarse_features(images)

    monkeypatch.setattr(quality_module, "features_of", stopping)
    with pytest.raises(Stopped):
        done(cut, stop=stop)
    assert not (cut.output / "RELEASE.json").exists()
    done(cut)
    assert tree(cut.output) == tree(whole.output)


def test_nothing_tells_which_original_an_image_stands_for(make: Make, people: Path, tmp_path: Path) -> None:
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
    done(one)
    done(other)
    images = [[row for row in read_rows(policy.output) if row.synthetic] for policy in (one, other)]
    kept = [{row.path for row in read_rows(policy.output) if not row.synthetic} for policy in (one, other)]
    assert images[0] == images[1]
    assert not kept[0] & kept[1]


def test_too_few_patients_release_nothing_synthetic_and_originals_stay_dropped(
    make: Make, people: Path
) -> None:
    policy = make(table=people / "few.csv")
    result = done(policy)
    assert result.ending == "published"
    assert result.dropped == {RULE: 4}
    assert gate(result).result == "flagged"
    assert "not calibratable" in gate(result).detail
    assert not any(row.synthetic for row in read_rows(policy.output))
    assert "data:image" not in (policy.output / "report.html").read_text()
    assert len(files(policy)) == 4


def test_with_too_few_patients_nothing_is_drawn_and_what_it_takes_is_said(
    make: Make, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic_objects, "pixels_of", lambda *_: pytest.fail("drawn"))
    policy = make(table=people / "few.csv")
    done(policy)
    report = (policy.output / "report.html").read_text()
    assert "299 patients to calibrate on with two images or more, and there are 30" in report
    assert "f" * 64 in report
    assert not page_path(policy).exists()


def without(people: Path, table: Path, names: Sequence[str]) -> Path:
    """The table without some rows."""
    lines = (people / "labels.csv").read_text().splitlines()
    table.write_text("\n".join(line for line in lines if not line.startswith(tuple(names))))
    return table


def test_images_without_a_label_are_counted_and_the_gate_is_flagged(
    make: Make, people: Path, tmp_path: Path
) -> None:
    table = without(people, tmp_path / "part.csv", ["export/i1.dcm", "export/i2.dcm"])
    table.write_text(table.read_text().replace("export/i0.dcm,p0,,clear", "export/i0.dcm,p0,,"))
    result = done(make(table=table))
    assert result.dropped == {RULE: 3}
    assert gate(result).result == "flagged"
    assert "The table gives no label to 3 images" in gate(result).detail


def test_images_without_a_label_are_told_where_no_synthetic_image_passed(
    make: Make, people: Path, tmp_path: Path
) -> None:
    table = without(people, tmp_path / "part.csv", ["export/i2.dcm"])
    rows = table.read_text().splitlines()
    table.write_text("\n".join(row for row in rows if ",calibration," not in row or "7," in row))
    told = gate(done(make(table=table)))
    assert "the verdict is not calibratable" in told.detail
    assert "The table gives no label to 1 images" in told.detail


def test_a_table_of_a_copy_of_the_inputs_is_never_passed(make: Make) -> None:
    result = done(make(export=True))
    assert result.dropped == {}
    assert gate(result).result == "flagged"
    assert "No file of the table is an image of this release" in gate(result).detail


def test_a_table_that_gives_every_image_another_label_passes(make: Make, people: Path) -> None:
    lines = (people / "labels.csv").read_text().splitlines()
    (people / "clear.csv").write_text(
        "\n".join(line.replace("effusion", "clear") if "export/" in line else line for line in lines)
    )
    result = done(make(table=people / "clear.csv"))
    assert (gate(result).result, result.dropped) == ("passed", {})


def test_a_generator_that_copies_is_refused(make: Make, generator: dict[str, Maker]) -> None:
    generator["now"] = Maker(copied=2)
    policy = make()
    result = done(policy)
    assert "verdict is failed" in gate(result).detail
    assert len(files(policy)) == 4


def test_replacing_all_by_images_that_fail_leaves_nothing_to_release(
    make: Make, generator: dict[str, Maker]
) -> None:
    generator["now"] = Maker(copied=2)
    policy = make(replace="all")
    result = done(policy)
    assert result.ending == "refused"
    assert list(policy.output.iterdir()) == []


def test_all_images_may_be_replaced_so_many_a_patient(make: Make) -> None:
    policy = make(replace="all", per_patient="3")
    result = done(policy)
    made = [row for row in read_rows(policy.output) if row.synthetic]
    assert result.dropped == {RULE: 8}
    assert len(made) == 12
    assert sorted(row.synthetic_label or "" for row in made) == ["clear"] * 6 + ["effusion"] * 6


def test_only_flagged_images_are_replaced_where_the_policy_says_so(make: Make) -> None:
    policy = make(replace="flagged", export=True)
    source = policy.inputs[0] / "i0.dcm"
    twin = pydicom.dcmread(source)
    twin.SOPInstanceUID = twin.file_meta.MediaStorageSOPInstanceUID = "1.2.3.4.5"
    twin.save_as(source.with_name("twin.dcm"))
    result = done(policy)
    assert result.dropped == {RULE: 2}


def test_with_nothing_to_replace_nothing_is_drawn(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_objects, "pixels_of", lambda *_: pytest.fail("drawn"))
    assert gate(done(make(replace="flagged"))).result == "passed"


def test_pictures_have_a_file_beside_them_and_both_are_audited(make: Make) -> None:
    policy = make(form="png")
    done(policy)
    row = next(row for row in read_rows(policy.output) if row.synthetic)
    beside = (policy.output / row.path).with_suffix(".json")
    assert (row.kind, row.study) == ("raster", "")
    assert json.loads(beside.read_text())["class"] == "effusion"
    assert verify(policy.output, key=None).status == "intact"
    assert audit_release(policy.output).findings == ()
    beside.write_text(beside.read_text().replace("passed", "parsed"))
    assert {finding.rule for _, finding in audit_release(policy.output).findings} == {"audit:digest"}


@pytest.mark.parametrize("form", ["secondary-capture", "png"])
def test_a_run_that_was_killed_ends_with_the_same_bytes(
    make: Make, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    whole, cut = make("whole", form=form), make("cut", form=form)
    done(whole)
    stop = Stop()
    batches: list[tuple[Draw, ...]] = []
    real = synthetic_objects.pixels_of

    def counted(folder: Path, device: str, part: Sequence[Draw]) -> bytes:
        batches.append(tuple(part))
        made = real(folder, device, part)
        stop.number = 15 if len(batches) == 2 else 0
        return made

    monkeypatch.setattr(synthetic_objects, "pixels_of", counted)
    with pytest.raises(Stopped):
        done(cut, stop=stop)
    done(cut)
    assert len(batches) == len(set(batches))
    assert tree(cut.output) == tree(whole.output)


def test_an_anonymous_release_keeps_no_page_that_shows_patients(make: Make) -> None:
    policy = make(others={"release": '{name: chest, version: "1.0", mode: anonymous}', "keys": "{}"})
    result = done(policy, material=KEY)
    assert gate(result).result == "passed"
    assert not page_path(policy).exists()
    assert "Fréchet distance" in report_of(policy)


def test_what_a_person_refuses_in_a_review_is_not_released(make: Make) -> None:
    approve = '{name: chest, version: "1.0", mode: pseudonymous, approve: required}'
    policy = make(others={"release": approve})
    done(policy)
    make_review(policy)
    page = review_page(policy).read_text()
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
    take_decisions(policy, policy.state / "decisions.json")
    again = done(policy)
    result = run(policy, Options(workers=1, approve=again.digest))
    rows = list(read_rows(policy.output))
    assert result.ending == "published"
    assert (result.objects, result.dropped) == (8, {RULE: 4})
    assert sum(row.synthetic for row in rows) == 3
    assert len(files(policy)) == len(rows) == 7


def test_labels_that_nobody_has_are_refused_before_anything_is_read(make: Make) -> None:
    with pytest.raises(UsageError, match="not in the table"):
        done(make(labels="[effusion, nothing]"))


def test_a_label_that_the_generator_does_not_know_is_refused(make: Make, generator: dict[str, Maker]) -> None:
    generator["now"] = Maker(classes=("clear", "mass"))
    with pytest.raises(UsageError, match="no class for 1"):
        done(make())


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"images": "0" * 64}, "not what the generator was trained on"),
        ({"images_before": ["0" * 64]}, "learnt from other images before"),
        ({"start": "0" * 64}, "nothing says which images"),
        ({"start": "0" * 64, "images_before": "unknown"}, "nothing says which images"),
    ],
)
def test_a_generator_that_knows_others_than_the_table_names_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch, known: dict[str, Any], facts: dict[str, Any], said: str
) -> None:
    changed = {**known, **facts}
    monkeypatch.setattr("medsanitize.generators.latent.generator.training_of", lambda _: changed)
    with pytest.raises(UsageError, match=said):
        done(make())


def test_a_generator_that_went_on_with_the_very_same_images_is_taken(
    make: Make, monkeypatch: pytest.MonkeyPatch, known: dict[str, Any]
) -> None:
    changed = {**known, "start": "0" * 64, "images_before": [known["images"]]}
    monkeypatch.setattr("medsanitize.generators.latent.generator.training_of", lambda _: changed)
    assert gate(done(make())).result == "passed"


@pytest.mark.parametrize(("part", "model"), [("holdout", "verifier"), ("calibration", "retrieval")])
def test_a_model_that_learned_from_patients_kept_back_is_refused(
    make: Make, people: Path, tmp_path: Path, part: str, model: str
) -> None:
    write_verifier(tmp_path / "w" / model, digest_of(people / "labels.csv", part))
    with pytest.raises(UsageError, match=f"was trained on the {part} part"):
        done(make(**{model: f"./{model}"}))


def test_a_model_that_learned_from_a_part_is_found_where_the_generator_knows_fewer_classes(
    make: Make, people: Path, tmp_path: Path
) -> None:
    table, lines = tmp_path / "rare.csv", (people / "labels.csv").read_text()
    table.write_text(lines.replace("holdout0,holdout,clear", "holdout0,holdout,mass"))
    write_verifier(tmp_path / "w" / "verifier", digest_of(people / "labels.csv", "holdout"))
    with pytest.raises(UsageError, match="was trained on the holdout part"):
        done(make(table=table))


def test_more_images_than_the_memory_holds_are_refused_before_anything_is_drawn(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "memory", lambda: 1 << 20)
    monkeypatch.setattr(synthetic_objects, "pixels_of", lambda *_: pytest.fail("drawn"))
    with pytest.raises(UsageError, match="GB of memory"):
        done(make(per_patient="1000"))


@pytest.mark.parametrize(
    ("total", "shares", "counts"),
    [(5, (1, 1), [3, 2]), (7, (5, 0, 2), [5, 0, 2]), (3, (1, 1, 1, 1), [1, 1, 1, 0])],
)
def test_numbers_are_shared_out_whole(total: int, shares: tuple[int, ...], counts: list[int]) -> None:
    assert apportioned(total, shares) == counts


def test_people_are_told_apart() -> None:
    """Of the simulation itself: one's visits are alike, and nobody else."""
    model = Coarse()
    from medsanitize.generators.latent.squares import as_picture

    seen = model.embed([as_picture(person([1, 2], visit)) for visit in (0, 1)])
    other = model.embed([as_picture(person([1, 3]))])
    assert model.score(seen[:1], seen[1:])[0] > 0.95
    assert model.score(seen[:1], other)[0] < 0.1
    assert np.isfinite(other).all()
