"""Rejected policies that replace images, and rejected training data of their models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from medsanitize.errors import UsageError
from medsanitize.pipeline.synthesis import draw, write_objects

from tests.helpers.synthesis import Make, report_of, run_policy, synthetic_gate
from tests.helpers.synthetic_images import FakeGenerator, digest_of, write_verifier


def test_labels_without_images_are_rejected_before_reading(make: Make) -> None:
    with pytest.raises(UsageError, match="not in the table"):
        run_policy(make(labels="[effusion, nothing]"))


def test_a_label_unknown_to_the_generator_is_rejected(
    make: Make, generator: dict[str, FakeGenerator]
) -> None:
    generator["now"] = FakeGenerator(classes=("clear", "mass"))
    with pytest.raises(UsageError, match="no class for 1"):
        run_policy(make())


def private(epsilon: float) -> dict[str, Any]:
    """Statement of a generator with differential privacy."""
    spent = {"pld": epsilon, "prv": epsilon, "rdp": 1.1 * epsilon}
    known = {"clip": 0.1, "noise_multiplier": 2.0, "sampling_rate": 0.1, "steps": 100, "patients": 99}
    return {"unit": "patient", "epsilon": epsilon, "delta": 1e-5, "spent": spent, **known}


@pytest.mark.parametrize("privacy", [None, private(8.5)], ids=["none", "a larger epsilon"])
def test_a_generator_above_the_ceiling_of_epsilon_is_rejected(
    make: Make, generator: dict[str, FakeGenerator], privacy: dict[str, Any] | None
) -> None:
    generator["now"] = FakeGenerator(privacy=privacy)
    with pytest.raises(UsageError, match="does not promise each patient an epsilon of at most 8"):
        run_policy(make(epsilon=8))


def test_a_generator_within_the_ceiling_of_epsilon_is_accepted_and_its_bound_reported(
    make: Make, generator: dict[str, FakeGenerator]
) -> None:
    generator["now"] = FakeGenerator(privacy=private(7.5))
    policy = make(epsilon=8)
    assert synthetic_gate(run_policy(policy)).result == "passed"
    assert "epsilon 7.50 at delta 1e-05" in report_of(policy)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"images": "0" * 64}, "not what the generator was trained on"),
        ({"images_before": ["0" * 64]}, "first trained on other images"),
        ({"start": "0" * 64}, "are not recorded"),
        ({"start": "0" * 64, "images_before": "unknown"}, "are not recorded"),
    ],
)
def test_a_generator_trained_on_other_data_than_the_table_is_rejected(
    make: Make, monkeypatch: pytest.MonkeyPatch, known: dict[str, Any], facts: dict[str, Any], said: str
) -> None:
    changed = {**known, **facts}
    monkeypatch.setattr("medsanitize.generators.diffusion.generator.training_of", lambda _: changed)
    with pytest.raises(UsageError, match=said):
        run_policy(make())


def test_a_generator_trained_further_on_the_same_images_is_accepted(
    make: Make, monkeypatch: pytest.MonkeyPatch, known: dict[str, Any]
) -> None:
    changed = {**known, "start": "0" * 64, "images_before": [known["images"]]}
    monkeypatch.setattr("medsanitize.generators.diffusion.generator.training_of", lambda _: changed)
    assert synthetic_gate(run_policy(make())).result == "passed"


@pytest.mark.parametrize(("part", "model"), [("holdout", "verifier"), ("calibration", "retrieval")])
def test_a_model_trained_on_held_out_patients_is_rejected(
    make: Make, people: Path, tmp_path: Path, part: str, model: str
) -> None:
    write_verifier(tmp_path / "w" / model, digest_of(people / "labels.csv", part))
    with pytest.raises(UsageError, match=f"was trained on the {part} part"):
        run_policy(make(**{model: f"./{model}"}))


def test_a_model_trained_on_a_split_is_detected_despite_fewer_classes(
    make: Make, people: Path, tmp_path: Path
) -> None:
    table, lines = tmp_path / "rare.csv", (people / "labels.csv").read_text()
    table.write_text(lines.replace("holdout0,holdout,clear", "holdout0,holdout,mass"))
    write_verifier(tmp_path / "w" / "verifier", digest_of(people / "labels.csv", "holdout"))
    with pytest.raises(UsageError, match="was trained on the holdout part"):
        run_policy(make(table=table))


def test_a_request_exceeding_memory_is_rejected_before_sampling(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw, "machine_memory", lambda: 1 << 20)
    monkeypatch.setattr(write_objects, "generate_pixels", lambda *_: pytest.fail("drawn"))
    with pytest.raises(UsageError, match="GB of memory"):
        run_policy(make(per_patient="1000"))
