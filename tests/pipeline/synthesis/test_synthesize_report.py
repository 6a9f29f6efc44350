"""Synthetic images and their quality in the report, the evidence and the private page."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from medsanitize.generators.quality import metrics as quality_module
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.state.stage_results import SYNTHETIC
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation, Cancelled
from medsanitize.release.summary import FigureTable, SyntheticSummary

from tests.helpers.hospital import KEY, tree
from tests.helpers.synthesis import Make, report_of, run_policy, synthetic_gate
from tests.helpers.synthetic_images import FakeGenerator, coarse_features


def test_the_report_shows_verdict_and_images_without_the_private_page(
    released: tuple[Policy, RunResult],
) -> None:
    policy, _ = released
    report = (policy.output / "report.html").read_text()
    assert "no match found by these attacks at this bound" in report
    assert report.count("data:image/png;base64,") == 1
    page = workspace_of(policy).synthetic_page
    assert page.stat().st_mode & 0o777 == 0o600
    assert "never publish" in page.read_text()


def test_the_report_distinguishes_generated_from_remaining_copies(released: tuple[Policy, RunResult]) -> None:
    told = re.search(
        r"Match a training patient, of all generated images ([\d.]+)% "
        r"Copies of training images, of all generated images ([\d.]+)% "
        r"Copies of training images, after matches are removed ([\d.]+)%",
        report_of(released[0]),
    )
    assert told is not None
    matches, copies, left = (float(one) for one in told.groups())
    assert matches < copies
    assert left < copies / 10


def test_the_evidence_distinguishes_generated_from_remaining_copies(
    released: tuple[Policy, RunResult],
) -> None:
    policy, _ = released
    told = json.loads((policy.output / "croissant.json").read_text())["rai:dataCollection"]
    assert re.search(r"at most [\d.]+% are copies, and at most [\d.]+% after matches are removed", told)


FIGURES = (
    "Similarity to real images",
    "precision: share of synthetic images near real ones",
    "Fréchet distance",
    "two halves of the real images",
    "Variety, over all pairs of some images",
    "Class agreement of a linear classifier of the features",
)


def test_the_report_of_all_classes_has_every_quality_metric_with_its_interval(make: Make) -> None:
    policy = make(replace="all")
    run_policy(policy)
    report = report_of(policy)
    assert [name for name in FIGURES if name not in report] == []
    assert "8 synthetic images (generated for the release, before any review) of 32 px" in report
    assert "against 110 real ones of 110 patients" in report
    assert re.search(r"real images of other patients 110 0\.\d+ \(0\.\d+ to [01]\.\d+\)", report)


def test_for_one_class_its_real_images_are_compared_without_class_agreement(
    released: tuple[Policy, RunResult],
) -> None:
    report = report_of(released[0])
    assert "against 55 real ones of 55 patients" in report
    assert "Not run: fewer than two classes have images" in report


def test_with_too_few_released_images_all_generated_ones_are_measured(
    released: tuple[Policy, RunResult],
) -> None:
    assert re.search(r"\d\d synthetic images \(all samples, including removed ones\)", report_of(released[0]))


def test_with_too_few_real_images_the_report_gives_a_reason_instead_of_metrics(
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
    result = run_policy(policy)
    assert synthetic_gate(result).result == "passed"
    assert "Not measured: Quality metrics require at least 6 patients and 6 synthetic" in report_of(policy)
    assert "one set has 3" in report_of(policy)
    assert "Fréchet" not in report_of(policy)


def test_the_private_page_has_the_same_metrics_and_the_nearest_real_images(
    released: tuple[Policy, RunResult],
) -> None:
    policy, _ = released
    page = workspace_of(policy).synthetic_page.read_text()
    told = re.findall(r"\d\.\d+ \(\d\.\d+ to \d\.\d+\)", page)
    assert len(told) == 9
    assert told == re.findall(r"\d\.\d+ \(\d\.\d+ to \d\.\d+\)", (policy.output / "report.html").read_text())
    assert "Nearest real images" in page
    assert "Nearest real images" not in (policy.output / "report.html").read_text()


def test_the_image_statements_are_stored_unchanged() -> None:
    figures = FigureTable("Variety", ("", "value"), (("real", "0.4 (0.3 to 0.5)"),), texts=1)
    said = SyntheticSummary(2, 2, 2, 0, "passed", "", "", 0.1, ("a",), "", 0.2, 0.01, ("b", "c"), (figures,))
    state: Any = SimpleNamespace(get=lambda _: json.dumps(asdict(said)))
    assert SYNTHETIC.load(state) == said


def test_metrics_of_unreleased_images_are_only_on_the_private_page(
    make: Make, generator: dict[str, FakeGenerator]
) -> None:
    generator["now"] = FakeGenerator(copied=2)
    policy = make()
    run_policy(policy)
    assert "Not measured: no synthetic image is released." in report_of(policy)
    assert "Fréchet" not in report_of(policy)
    assert "Fréchet" in workspace_of(policy).synthetic_page.read_text()


def test_a_run_stopped_during_measurement_gives_the_same_bytes(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = make("whole"), make("cut")
    run_policy(whole)
    stop = Cancellation()
    measured: list[int] = []

    def stopping(images: Any, *_: object) -> Any:
        measured.append(len(images))
        # Both sets are embedded before cancellation takes effect; the next two are those of the next run.
        stop.number = 15 if len(measured) <= 2 else 0
        return coarse_features(images)

    monkeypatch.setattr(quality_module, "features_of", stopping)
    with pytest.raises(Cancelled):
        run_policy(cut, cancellation=stop)
    assert not (cut.output / "RELEASE.json").exists()
    run_policy(cut)
    assert tree(cut.output) == tree(whole.output)


def test_an_anonymous_release_keeps_no_page_with_phi(make: Make) -> None:
    policy = make(others={"release": '{name: chest, version: "1.0", mode: anonymous}', "keys": "{}"})
    result = run_policy(policy, release_key=KEY)
    assert synthetic_gate(result).result == "passed"
    assert not workspace_of(policy).synthetic_page.exists()
    assert "Fréchet distance" in report_of(policy)
