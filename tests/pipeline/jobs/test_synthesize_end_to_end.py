"""Phantoms end to end: a generator trained with `tiny`, sampled, judged, released or not, verified."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.generators.privacy_gate import gate as gate_module
from medsanitize.pipeline.jobs import synthesize as command
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.synthesis import synthesize_stage as stage
from medsanitize.policies.model import Policy
from medsanitize.release.manifest import read_rows
from medsanitize.release.verify import verify_release

from tests.helpers.hospital import prepare, tree
from tests.helpers.synthetic_images import CoarseModel, simple_controls, write_verifier

pytestmark = pytest.mark.generate

PARTS = ("train", "holdout", "calibration", "train")


def call(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(cli, [*map(str, arguments), "--json"])
    assert result.exit_code in (0, 1), result.output
    facts: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return facts


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Phantoms of 48 patients in three splits, and a generator trained on half of them."""
    base = tmp_path_factory.mktemp("trained")
    table = write_chests(base / "scans", range(36), visits=(1, 2), size=48, seed=4)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (base / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("file", "patient_id", "split", "label"))
        for row in rows:
            patient = int("".join(filter(str.isdigit, row["patient_id"])))
            label = ("clear", "effusion")[patient % 3 > 0]
            writer.writerow((row["file"], row["patient_id"], PARTS[patient % 4], label))
    table.unlink()
    write_verifier(base / "verifier")
    asked = ("--images", base / "scans", "--labels", base / "labels.csv")
    torch.set_num_threads(1)
    call("train", "generator", *asked, "--split", "train", "--class", "label",
         "--recipe", "tiny", "--output", base / "generator")  # fmt: skip
    return base


def policy(trained: Path, base: Path, **section: str) -> Policy:
    settings = {
        "replace": "by-label",
        "labels": "[effusion]",
        "model": f"{trained}/generator",
        "verifier": f"{trained}/verifier",
        "reference": f"{{images: {trained}/scans, table: {trained}/labels.csv}}",
        **section,
    }
    text = ", ".join(f"{key}: {value}" for key, value in settings.items())
    return prepare(
        base,
        inputs=f"[{trained}/scans]",
        raster="{action: clean}",
        pixels="{at_risk: release}",
        synthesize=f"{{{text}}}",
    )


@pytest.fixture(autouse=True)
def _verifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated verifiers: their quality is not tested here."""
    simple_controls(monkeypatch)
    for module in (stage, command):
        monkeypatch.setattr(module, "open_verifiers", lambda *_: (CoarseModel(), CoarseModel()))


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that passes everything, to test the release."""
    real = gate_module.calibrate_gate

    class Passing:
        needed = ()

        def __init__(self, *sides: Any, **terms: Any) -> None:
            self._gate = real(*sides, **terms)
            self.terms = self._gate.terms
            self.verifiers = self._gate.verifiers
            self.plan = replace(self._gate.plan, images=30)

        def judge(self, images: Any) -> Any:
            judged = self._gate.judge(images)
            kept = np.ones(len(images), bool)
            return replace(judged, kept=kept, verdict=replace(judged.verdict, state="passed"))

    monkeypatch.setattr(gate_module, "calibrate_gate", Passing)


def test_with_too_few_images_nothing_synthetic_is_released(trained: Path, tmp_path: Path) -> None:
    asked = policy(trained, tmp_path)
    result = run(asked, Options(workers=1))
    gate = next(gate for gate in result.gates if gate.name == "synthetic images")
    assert (result.ending, gate.result) == ("published", "flagged")
    assert "insufficient_data" in gate.detail
    assert result.dropped["synthesize:replaced"] > 0
    assert not any(row.synthetic for row in read_rows(asked.output))
    assert verify_release(asked.output, key=None).status == "intact"


@pytest.mark.usefixtures("passing")
def test_accepted_images_are_identical_for_any_number_of_workers(trained: Path, tmp_path: Path) -> None:
    one, two = policy(trained, tmp_path / "one", form="cr"), policy(trained, tmp_path / "two", form="cr")
    result = run(one, Options(workers=1))
    run(two, Options(workers=2))
    made = [row for row in read_rows(one.output) if row.synthetic]
    assert len(made) == result.dropped["synthesize:replaced"]
    assert {(row.rows, row.synthetic_label) for row in made} == {(32, "effusion")}
    assert verify_release(one.output, key=None).status == "intact"
    assert "Fréchet distance" in (one.output / "report.html").read_text()
    assert tree(one.output) == tree(two.output)


def test_the_command_reports_what_is_needed_and_is_deterministic(trained: Path, tmp_path: Path) -> None:
    facts = [
        call(
            "synthesize", trained / "generator", "--images", trained / "scans",
            "--labels", trained / "labels.csv", "--class", "label", "--verifier", trained / "verifier",
            "-n", "12", "--balanced", "--unvetted", "--workers", workers,
            "--output", tmp_path / str(workers),
        )
        for workers in (1, 2)
    ]  # fmt: skip
    assert facts[0]["verdict"]["state"] == "insufficient_data"
    assert any("128 x 128 pixels" in needed for needed in facts[0]["verdict"]["needed"])
    assert facts[0]["training_images_confirmed"] is True
    assert "Nearest real images" in (tmp_path / "1" / "synthesis.html").read_text()
    assert facts[0] == facts[1]
    assert facts[0]["written"] + facts[0]["shortfall"] == 12
    assert (facts[0]["quality_of"], facts[0]["quality"]["synthetic"]) == ("all that were drawn", 12)
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("1", "2")
    ]
    assert files[0] == files[1]
