"""A calibration file applies only to its models: with other scores, nothing might match."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.pipeline.engines.fingerprint_workers import calibrations_of, unused_models
from medsanitize.verifiers.reid.calibration import Calibration, calibrate
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap.calibration_file import CalibrationFile, read_calibration_file
from medsanitize.verifiers.reid.overlap.models import ModelPaths, Models

CHEST, SLIDE = Modality.RADIOGRAPH, Modality.SLIDE


@dataclass(frozen=True)
class Named:
    """The part of a model that a comparison needs before computing fingerprints: its digest."""

    digest: str


def models(retrieval: str = "r", verifier: str | None = None) -> Models:
    found: Any = {CHEST: Named(retrieval), SLIDE: Named("s")}
    return Models(found, {CHEST: Named(verifier)} if verifier else {})  # type: ignore[dict-item]


@pytest.fixture(scope="module")
def scores() -> Calibration:
    first, second = np.arange(20), np.r_[np.arange(10), np.arange(10) + 1]
    return calibrate(np.linspace(0, 1, 20), first, second)


@pytest.mark.parametrize(("digest", "opened"), [("r", models()), ("r+v", models(verifier="v"))])
def test_a_calibration_applies_to_its_models(
    digest: str, opened: Models, scores: Calibration, tmp_path: Path
) -> None:
    (tmp_path / "c.json").write_text(CalibrationFile(CHEST, digest, scores).to_json())
    assert calibrations_of(tmp_path / "c.json", opened) == {CHEST: scores}


@pytest.mark.parametrize(
    ("digest", "opened"),
    [("r+v", models()), ("r", models(verifier="v")), ("other", models()), ("r+w", models(verifier="v"))],
    ids=["of a verifier", "of distances", "another model", "another verifier"],
)
def test_a_calibration_of_other_scores_is_rejected(
    digest: str, opened: Models, scores: Calibration, tmp_path: Path
) -> None:
    (tmp_path / "c.json").write_text(CalibrationFile(CHEST, digest, scores).to_json())
    with pytest.raises(UsageError, match="other models"):
        calibrations_of(tmp_path / "c.json", opened)


def test_a_calibration_without_models_is_rejected(scores: Calibration) -> None:
    with pytest.raises(UsageError, match="does not name its models"):
        read_calibration_file(scores.to_json())


@pytest.mark.parametrize(
    "text", ["{", '{"models": "r"}', '{"calibration": {}, "modality": "x", "models": "r"}']
)
def test_a_damaged_calibration_is_rejected(text: str) -> None:
    with pytest.raises(IntegrityError):
        read_calibration_file(text)


def outcome(result: str, *held: Modality) -> Any:
    return SimpleNamespace(result=result, datasets=[SimpleNamespace(vectors=dict.fromkeys(held))])


def test_a_verdict_without_the_named_model_reports_it_as_unused() -> None:
    named: Any = {CHEST: Named("r")}
    assert unused_models(ModelPaths((Path("model"),)), Models(named), outcome("exclusive", SLIDE)) == (CHEST,)


@pytest.mark.parametrize(
    "found",
    [outcome("exclusive", CHEST), outcome("overlapping", SLIDE), outcome("inconclusive")],
    ids=["it saw images", "an overlap stands", "nothing was seen"],
)
def test_matches_without_the_named_model_are_still_reported(found: Any) -> None:
    named: Any = {CHEST: Named("r")}
    assert unused_models(ModelPaths((Path("model"),)), Models(named), found) == ()
