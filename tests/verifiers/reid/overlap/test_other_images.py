"""Images unlike those of a stored calibration: its rates decide nothing, and no verdict is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.verifiers.reid.calibration import Calibration, calibrate, calibrate_strangers
from medsanitize.verifiers.reid.exchangeability import difference
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap.dataset import ImageFile
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, collect_fingerprints
from medsanitize.verifiers.reid.overlap.fingerprint import ImageFingerprint
from medsanitize.verifiers.reid.overlap.models import Models
from medsanitize.verifiers.reid.overlap.overlap import Overlap, compare_datasets
from numpy.typing import NDArray

CHEST = Modality.RADIOGRAPH
DIMENSION = 12


@dataclass(frozen=True)
class Named:
    """A model whose embeddings are given."""

    digest: str = "e" * 64
    modality: Modality = CHEST
    dimension: int = DIMENSION

    def embed(self, _pictures: Sequence[Any]) -> Any:
        raise AssertionError("all images have their embeddings")


MODELS = Models({CHEST: Named()})


@dataclass(frozen=True)
class Hospital:
    """How far apart the images of its patients are, and two images of one of them."""

    between: float
    within: float

    def images(self, patients: Sequence[int], visit: int, each: int = 2) -> tuple[NDArray[Any], NDArray[Any]]:
        """Embeddings and patient of each image."""
        found = []
        for patient in patients:
            center = self.between * np.random.default_rng(patient).normal(size=DIMENSION)
            noise = np.random.default_rng([patient, visit]).normal(size=(each, DIMENSION))
            found.append(center + self.within * noise)
        return np.concatenate(found).astype(np.float32), np.repeat(list(patients), each)


TRAINED_ON, OTHER = Hospital(1.0, 0.1), Hospital(0.1, 0.02)


def stored(patients: int = 60) -> Calibration:
    """The calibration that a model brings from the hospital where it was trained."""
    vectors, people = TRAINED_ON.images(range(10_000, 10_000 + patients), 0)
    first, second = np.triu_indices(len(people), 1)
    scores = -np.linalg.norm(vectors[first] - vectors[second], axis=1)
    return calibrate(scores, people[first], people[second])


def side(
    title: str,
    hospital: Hospital,
    patients: Sequence[int],
    visit: int = 0,
    each: int = 2,
    *,
    known: bool = True,
) -> DatasetFingerprint:
    vectors, people = hospital.images(patients, visit, each)
    return collect_fingerprints(
        title,
        [
            (
                ImageFile(Path(), str(n), f"{title}{person}" if known else ""),
                ImageFingerprint(modality=CHEST, embedding=vector),
            )
            for n, (vector, person) in enumerate(zip(vectors, people, strict=True))
        ],
        {},
    )


def compared(*sides: DatasetFingerprint, model: Calibration | None = None) -> Overlap:
    models = Models(MODELS.retrieval, distances={} if model is None else {CHEST: model})
    return compare_datasets(*sides, models=models)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("each", [1, 2])
def test_datasets_of_another_hospital_that_share_nobody_are_never_overlapping(
    each: int, *, known: bool
) -> None:
    for draw in range(0, 400, 40):
        one = side("A", OTHER, range(draw, draw + 18), each=each, known=known)
        other = side("B", OTHER, range(draw + 20, draw + 38), each=each, known=known)
        assert compared(one, other, model=stored()).result != "overlapping"


def test_nobody_is_exclusive_by_a_calibration_of_other_images() -> None:
    one, other = side("A", OTHER, range(18), each=1), side("B", OTHER, range(20, 38), each=1)
    verdict = compared(one, other, model=stored()).comparisons[0].verdict
    assert verdict.result == "inconclusive"
    assert "a stored calibration does not hold here" in verdict.sentence


def test_a_calibration_of_such_images_states_what_is_missed() -> None:
    one, other = side("A", TRAINED_ON, range(18), each=1), side("B", TRAINED_ON, range(20, 38), each=1)
    found = compared(one, other, model=stored())
    assert found.comparisons[0].evidence.thresholds[CHEST].source == "model"
    assert found.result == "exclusive"


def test_strangers_of_one_dataset_say_nothing_about_another() -> None:
    one = side("A", TRAINED_ON, range(60))
    other = side("B", TRAINED_ON, range(60), visit=1, known=False)
    found = compared(one, other, model=stored())
    assert found.result == "inconclusive"
    assert "name its patients in a table" in found.comparisons[0].verdict.sentence


def test_shared_patients_of_another_hospital_are_found() -> None:
    one, other = side("A", OTHER, range(40)), side("B", OTHER, range(34, 74), visit=1)
    assert compared(one, other, model=stored()).result == "overlapping"


def scored(scale: float, patients: int, draw: int) -> Calibration:
    rng = np.random.default_rng(draw)
    first, second = np.triu_indices(patients, 1)
    return calibrate_strangers(scale * rng.normal(size=len(first)), first, second)


def test_a_calibration_of_the_same_images_is_refused_seldom() -> None:
    genuine = calibrate(np.r_[np.full(80, 9.0), np.zeros(1)], np.r_[:80, 0], np.r_[:80, 1]).genuine
    refused = 0
    for draw in range(100):
        held = scored(1.0, 80, 1_000 + draw)
        held = Calibration(genuine, held.disjoint, held.curve, held.patients, held.pairs)
        refused += bool(difference(scored(1.0, 40, draw), held))
    assert refused <= 15


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_a_calibration_of_other_images_is_refused(scale: float) -> None:
    held = scored(1.0, 80, 7)
    held = Calibration((9.0,) * 80, held.disjoint, held.curve, held.patients, held.pairs)
    assert difference(scored(scale, 40, 8), held)


def test_too_few_strangers_cannot_show_that_a_calibration_holds() -> None:
    held = scored(1.0, 80, 7)
    held = Calibration((9.0,) * 80, held.disjoint, held.curve, held.patients, held.pairs)
    assert "of which a comparison with it needs 30" in difference(scored(1.0, 5, 8), held)
