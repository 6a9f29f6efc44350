"""Measurement of synthetic images against a holdout: selection, number, and reasons for absence."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.generators.diffusion.preprocess import to_image_array
from medsanitize.generators.privacy_gate.splits import Split
from medsanitize.generators.quality import evaluate as measured_module
from medsanitize.generators.quality import metrics as quality_module
from medsanitize.generators.quality import quality_report as quality_page
from medsanitize.generators.quality.evaluate import QualityResult, figures_section, measure
from medsanitize.generators.quality.metrics import Sample
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.images.image import ImageArray
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

pytestmark = pytest.mark.verify

SIZE = 16


def squares(count: int, seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, SIZE, SIZE)).astype(np.uint8)


class Counted(list[ImageArray]):
    """Pictures that count how often they are read."""

    read = 0

    def __getitem__(self, place: object) -> ImageArray:  # type: ignore[override]
        assert isinstance(place, int)
        self.read += 1
        return super().__getitem__(place)


@pytest.fixture(autouse=True)
def _network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the network's features by pixels: their quality is not tested here."""
    for module in (quality_module, quality_page):
        monkeypatch.setattr(
            module, "features_of", lambda images, *_: images.reshape(len(images), -1).astype(np.float32)
        )


def side(count: int) -> Split:
    """Patients with two images each, in two alternating classes."""
    pictures = Counted(to_image_array(one) for one in squares(count, 0))
    patients = np.arange(count, dtype=np.int64) // 2
    return Split(pictures, patients, patients % 2)


def measured(synthetic: int, real: int, classes: NDArray[np.int64] | None = None) -> QualityResult:
    made = Sample(squares(synthetic, 1), classes)
    return measure(made, side(real), NoProgress(), Cancellation(), of_all=False, nearest=False)


def test_images_above_the_limit_are_sampled_and_others_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measured_module, "MAX_IMAGES", 20)
    holdout = side(60)
    found = measure(
        Sample(squares(50, 1)), holdout, NoProgress(), Cancellation(), of_all=False, nearest=False
    )
    assert found.quality is not None
    assert (found.quality.real, found.quality.synthetic) == (20, 20)
    assert isinstance(holdout.pictures, Counted)
    assert holdout.pictures.read == 20


def test_the_comparison_limit_is_stated() -> None:
    assert "At most 1,000 images of each set" in figures_section(measured(12, 24), "some").text[-1]


def test_the_metrics_are_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_module, "MAX_IMAGES", 20)
    assert measured(50, 60).quality == measured(50, 60).quality


def test_the_metrics_are_computed_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[int]()

    def counting(images: NDArray[np.uint8], *_: object) -> NDArray[np.float32]:
        threads.update(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
        return images.reshape(len(images), -1).astype(np.float32)

    monkeypatch.setattr(quality_module, "features_of", counting)
    with threadpool_limits(2, "blas"):
        measured(12, 24)
    assert threads == {1}


def test_images_of_one_class_are_compared_with_real_ones_of_that_class() -> None:
    found = measured(12, 40, np.zeros(12, np.int64)).quality
    assert found is not None
    assert (found.real, found.patients) == (20, 10)


def test_without_classes_all_real_images_are_compared() -> None:
    found = measured(12, 40).quality
    assert found is not None
    assert found.real == 40


def test_too_few_patients_are_reported_instead_of_metrics() -> None:
    section = figures_section(measured(12, 8), "some")
    assert section.text[0].startswith("Not measured: Quality metrics require at least 6 patients")
    assert section.tables == ()


def test_an_unmeasurable_metric_reports_its_reason() -> None:
    table = figures_section(measured(12, 40, np.zeros(12, np.int64)), "some").tables[-1]
    assert table.caption.startswith("Class agreement")
    assert str(table.rows[0][0]).startswith("Not run: fewer than two classes")


@pytest.mark.parametrize("nearest", [True, False])
def test_real_images_are_shown_only_on_request(nearest: bool) -> None:
    found = measure(
        Sample(squares(12, 1)), side(24), NoProgress(), Cancellation(), of_all=False, nearest=nearest
    )
    assert (found.beside is not None) == nearest
    assert figures_section(found, "some").pictures == ()
