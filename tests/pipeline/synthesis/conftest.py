"""People, models without weights, and a policy that replaces images by synthetic ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from medsanitize.generators.privacy_gate import gate as gate_module
from medsanitize.generators.quality import metrics as quality_module
from medsanitize.generators.quality import quality_report as quality_page
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.synthesis import draw
from medsanitize.pipeline.synthesis import synthesize_stage as stage
from medsanitize.policies.model import Policy

from tests.helpers.hospital import prepare
from tests.helpers.synthesis import Make, run_policy
from tests.helpers.synthetic_images import (
    CLASSES,
    SIZE,
    CoarseModel,
    FakeGenerator,
    coarse_features,
    digest_of,
    simple_controls,
    write_export,
    write_people,
    write_table,
    write_verifier,
)


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough people for a calibration, an export of others, and the table of all."""
    base = tmp_path_factory.mktemp("people")
    rows = [*write_people(base / "parts", 300), *write_export(base / "export")]
    write_table(base / "labels.csv", rows)
    few = [row for row in rows if row[2] != "calibration" or row[1] == "calibration7"]
    write_table(base / "few.csv", few)
    return base


@pytest.fixture(scope="session")
def gates() -> dict[Any, Any]:
    """Previously calibrated gates."""
    return {}


@pytest.fixture(scope="session")
def known(people: Path) -> dict[str, Any]:
    """Provenance in the generator's folder."""
    images = digest_of(people / "labels.csv", "train")
    return {"classes": dict.fromkeys(CLASSES, 55), "images": images, "start": "random"}


@pytest.fixture
def generator(
    monkeypatch: pytest.MonkeyPatch, gates: dict[Any, Any], known: dict[str, Any]
) -> dict[str, FakeGenerator]:
    """Models without weights, in this process; tests may replace the generator."""
    held = {"now": FakeGenerator()}
    # Patterns of a quarter of the size that the gate accepts, to save time.
    monkeypatch.setattr("medsanitize.generators.privacy_gate.next_steps.SMALLEST_IMAGES", SIZE)
    monkeypatch.setattr("medsanitize.generators.privacy_gate.draw_plan.FEWEST_JUDGED", 1)
    # The bound of its own takes 642 images; the residual alone takes a few.
    monkeypatch.setattr("medsanitize.generators.privacy_gate.confidence_bounds.LARGEST_MATCH_RATE", 1.0)
    simple_controls(monkeypatch)
    monkeypatch.setattr(draw, "open_generator_once", lambda *_: held["now"])
    monkeypatch.setattr(stage, "open_generator_once", lambda *_: held["now"])
    monkeypatch.setattr(stage, "open_verifiers", lambda *_: (CoarseModel(), CoarseModel()))
    monkeypatch.setattr("medsanitize.generators.diffusion.generator.training_of", lambda _: known)
    for module in (quality_module, quality_page):
        monkeypatch.setattr(module, "features_of", coarse_features)
    calibrated = gate_module.calibrate_gate

    def prepare_once(*sides: Any, **terms: Any) -> Any:
        key = (held["now"], terms["terms"], *(len(side.patients) for side in sides[:3]))
        if key not in gates:
            gates[key] = calibrated(*sides, **terms)
        return gates[key]

    monkeypatch.setattr(gate_module, "calibrate_gate", prepare_once)
    return held


@pytest.fixture
def make(people: Path, tmp_path: Path, generator: dict[str, FakeGenerator]) -> Make:
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


@pytest.fixture(scope="session")
def finished() -> list[tuple[Policy, RunResult]]:
    """A release made before, for reading only."""
    return []


@pytest.fixture
def released(make: Make, finished: list[tuple[Policy, RunResult]]) -> tuple[Policy, RunResult]:
    """A release with synthetic images, made once."""
    if not finished:
        policy = make()
        finished.append((policy, run_policy(policy)))
    return finished[0]
