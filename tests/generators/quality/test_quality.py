"""Every quality metric against a case with a known result."""

from __future__ import annotations

import json

import numpy as np
import pytest
from medsanitize.errors import UsageError
from medsanitize.generators.quality.classifier_transfer import LabeledFeatures, agreements, score
from medsanitize.generators.quality.diversity import diversity, mean_of_pairs
from medsanitize.generators.quality.frechet_distance import frechet, frechet_distance
from medsanitize.generators.quality.interval import mean_of
from medsanitize.generators.quality.logistic_regression import fit_softmax
from medsanitize.generators.quality.metrics import Quality, Sample, quality
from medsanitize.generators.quality.precision_recall import closest, fidelity, reaches
from medsanitize.generators.quality.quality_report import neighbors_section, quality_section
from medsanitize.generators.quality.ssim import ssim
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.html.page import Page, render_page
from numpy.typing import NDArray
from scipy.linalg import sqrtm


def cloud(count: int, dimension: int = 4, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)


def alone(points: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.arange(len(points))


# Fréchet distance


def test_the_distance_of_equal_sets_is_zero() -> None:
    points = cloud(40).astype(np.float64)
    assert frechet_distance(points, points) == pytest.approx(0, abs=1e-9)


def test_the_distance_of_a_shift_is_its_squared_length() -> None:
    points = cloud(40).astype(np.float64)
    assert frechet_distance(points, points + np.array([3, 0, 4, 0])) == pytest.approx(25)


def test_the_distance_of_a_scaling_is_that_of_the_deviations() -> None:
    points = cloud(40).astype(np.float64)
    points -= points.mean(0)
    variance = points.var(0, ddof=1).sum()
    assert frechet_distance(points, 3 * points) == pytest.approx(4 * variance)


@pytest.mark.parametrize("counts", [(60, 50), (6, 50), (6, 7)])
def test_the_distance_is_that_of_two_gaussians(counts: tuple[int, int]) -> None:
    one, other = (cloud(count, 8, seed).astype(np.float64) for seed, count in enumerate(counts))
    other = other @ np.diag(np.arange(1.0, 9)) + 1
    first, second = np.cov(one.T), np.cov(other.T)
    root = np.real(sqrtm(first @ second + 1e-12 * np.eye(8)))
    expected = ((one.mean(0) - other.mean(0)) ** 2).sum() + np.trace(first + second - 2 * root)
    assert frechet_distance(one, other) == pytest.approx(expected, rel=1e-3)


def test_a_weight_is_a_multiplicity() -> None:
    one, other = cloud(5).astype(np.float64), cloud(9, seed=1).astype(np.float64)
    often = np.array([1.0, 0, 3, 2, 1])
    repeated = np.repeat(one, often.astype(int), axis=0)
    assert frechet_distance(one, other, often) == pytest.approx(frechet_distance(repeated, other))


def test_synthetic_images_of_the_same_distribution_are_as_far_as_two_halves() -> None:
    found = frechet(cloud(400), cloud(300, seed=1), alone(cloud(400)), alone(cloud(300)))
    assert found.size == 200
    assert found.matched == pytest.approx(found.real, abs=0.03)
    assert found.distance.low <= found.distance.value <= found.distance.high


def test_the_interval_of_a_shift_contains_its_squared_length() -> None:
    held = 0
    for seed in range(20):
        real, synthetic = cloud(300, 2, seed), cloud(300, 2, seed + 100) + np.float32([2, 0])
        distance = frechet(real, synthetic, alone(real), alone(synthetic)).distance
        held += distance.low <= 4 <= distance.high
    assert held >= 17


# Precision, recall, density, coverage


def test_equal_sets_have_perfect_fidelity() -> None:
    points = cloud(50)
    found = fidelity(points, points, alone(points), alone(points))
    assert (found.precision.value, found.recall.value, found.coverage.value) == (1, 1, 1)
    # Each ball contains its own point and five others.
    assert found.density.value == pytest.approx(6 / 5)


def test_disjoint_sets_have_zero_fidelity() -> None:
    points = cloud(50)
    found = fidelity(points, points + 100, alone(points), alone(points))
    for measure in (found.precision, found.recall, found.density, found.coverage):
        assert (measure.value, measure.low, measure.high) == (0, 0, 0)


def test_missing_modes_reduce_only_recall_and_coverage() -> None:
    one = cloud(40)
    real = np.concatenate([one, one + 100])
    found = fidelity(real, one, alone(real), alone(one))
    assert (found.precision.value, found.recall.value, found.coverage.value) == (1, 0.5, 0.5)


def test_invented_modes_reduce_only_precision_and_density() -> None:
    one = cloud(40)
    synthetic = np.concatenate([one, one + 100])
    found = fidelity(one, synthetic, alone(one), alone(synthetic))
    assert (found.precision.value, found.recall.value, found.coverage.value) == (0.5, 1, 1)
    assert found.density.value == pytest.approx(0.5 * 6 / 5)


def test_a_ball_reaches_to_the_kth_neighbor() -> None:
    line = np.arange(10, dtype=np.float32)[:, None]
    one, three = reaches(line, (1, 3))
    assert one.tolist() == [1] * 10
    assert three.tolist() == [3, 2, 2, 2, 2, 2, 2, 2, 2, 3]


def test_the_nearest_points_are_sorted_by_distance() -> None:
    line = np.arange(10, dtype=np.float32)[:, None]
    assert closest(np.float32([[6.2]]), line, 3).tolist() == [[6, 7, 5]]


# Intervals


def test_the_interval_of_a_share_has_the_theoretical_width() -> None:
    found = mean_of(np.arange(400) % 2.0, np.arange(400))
    assert found.value == 0.5
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.06)


def test_images_of_one_patient_are_resampled_together() -> None:
    values = np.repeat(np.arange(40) % 2.0, 10)
    found = mean_of(values, np.repeat(np.arange(40), 10))
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(40), rel=0.1)


def test_the_mean_of_pairs_excludes_the_diagonal() -> None:
    values = np.array([[9.0, 1, 2], [1, 9, 3], [2, 3, 9]])
    assert mean_of_pairs(values).value == 2


# Structural similarity


def test_an_image_has_ssim_1_with_itself() -> None:
    image = np.random.default_rng(0).random((20, 24)).astype(np.float32)
    assert ssim(image, image) == pytest.approx(1)


def test_uniform_images_are_compared_by_brightness() -> None:
    one, other = np.full((16, 16), 0.2, np.float32), np.full((16, 16), 0.6, np.float32)
    expected = (2 * 0.2 * 0.6 + 1e-4) / (0.2**2 + 0.6**2 + 1e-4)
    assert ssim(one, other) == pytest.approx(expected, rel=1e-5)


def test_a_single_window_follows_the_formula() -> None:
    one, other = np.random.default_rng(1).random((2, 11, 11))
    across = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2)
    window = np.outer(across, across) / across.sum() ** 2
    first, second = (window * one).sum(), (window * other).sum()
    variances = [(window * (image - mean) ** 2).sum() for image, mean in ((one, first), (other, second))]
    covariance = (window * (one - first) * (other - second)).sum()
    expected = (2 * first * second + 1e-4) * (2 * covariance + 9e-4)
    expected /= (first**2 + second**2 + 1e-4) * (sum(variances) + 9e-4)
    assert ssim(one, other) == pytest.approx(expected, abs=1e-9)


def test_ssim_requires_images_of_one_size_that_contain_the_window() -> None:
    with pytest.raises(UsageError, match="smaller than 11 x 11"):
        ssim(np.zeros((8, 20), np.float32), np.zeros((8, 20), np.float32))
    with pytest.raises(UsageError, match="different sizes"):
        ssim(np.zeros((12, 20), np.float32), np.zeros((12, 12), np.float32))


def test_copies_of_one_image_have_no_diversity() -> None:
    squares = np.repeat(np.random.default_rng(0).random((1, 16, 16)), 8, axis=0).astype(np.float32)
    found = diversity(squares, np.ones((8, 3), np.float32), np.arange(8))
    assert found.images == 8
    assert found.ssim.low == pytest.approx(1)
    assert found.distance.high == 0


def test_images_of_one_patient_are_not_paired() -> None:
    squares = np.random.default_rng(0).random((8, 16, 16)).astype(np.float32)
    assert diversity(squares, cloud(8), np.arange(8) // 4).images == 2


# Class agreement


def test_a_classifier_separates_separable_classes() -> None:
    classes = np.arange(60) % 3
    features = cloud(60) * np.float32(0.1) + np.eye(4, dtype=np.float32)[classes]
    assert (fit_softmax(features, classes, 3).predict(features) == classes).all()


def test_a_class_without_images_is_never_predicted() -> None:
    classes = np.arange(20) % 2
    said = fit_softmax(cloud(20), classes, 3).predict(cloud(500, seed=3))
    assert set(said.tolist()) == {0, 1}


def test_scores_match_the_confusion_matrix() -> None:
    images = LabeledFeatures(cloud(6), np.array([0, 0, 0, 0, 1, 1]), np.arange(6))
    found = score("real", "synthetic", images, np.array([0, 0, 0, 1, 1, 0]), 2)
    assert found.accuracy.value == pytest.approx(4 / 6)
    assert found.balanced.value == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert found.f1.value == pytest.approx((2 * 3 / (4 + 4) + 2 * 1 / (2 + 2)) / 2)
    assert 0 < found.accuracy.low < found.accuracy.value < found.accuracy.high <= 1


def test_agreement_is_high_for_equal_and_low_for_swapped_classes() -> None:
    classes = np.arange(100) % 2
    features = cloud(100, seed=2) * np.float32(0.2) + np.eye(4, dtype=np.float32)[classes]
    real = LabeledFeatures(features, classes, np.arange(100))
    assert [one.accuracy.value for one in agreements(real, real, 2)] == [1, 1, 1]
    swapped = LabeledFeatures(features, 1 - classes, np.arange(100))
    assert [one.accuracy.value for one in agreements(real, swapped, 2)] == [1, 0, 0]


# All of it


def images(count: int, seed: int, size: int = 16) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, size, size)).astype(np.uint8)


@pytest.fixture(scope="module")
def found() -> Quality:
    classes = np.arange(12) % 2
    real = Sample(images(12, 0), classes, np.arange(12) // 2 + classes)
    return quality(real, Sample(images(14, 1), np.arange(14) % 2), NoProgress(), Cancellation())


def test_quality_is_plain_data_and_deterministic(found: Quality) -> None:
    classes = np.arange(12) % 2
    real = Sample(images(12, 0), classes, np.arange(12) // 2 + classes)
    again = quality(real, Sample(images(14, 1), np.arange(14) % 2), NoProgress(), Cancellation())
    assert json.dumps(found.to_json(), allow_nan=False) == json.dumps(again.to_json(), allow_nan=False)


def test_quality_states_its_network_and_counts(found: Quality) -> None:
    assert "EfficientNet-Lite0" in found.features
    assert (found.real, found.patients, found.synthetic, found.size) == (12, 7, 14, 16)
    assert [(one.trained_on, one.tested_on) for one in found.agreement] == [
        ("real", "real"),
        ("synthetic", "real"),
        ("real", "synthetic"),
    ]


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        (None, "no classes"),
        (np.zeros(8, np.int64), "fewer than two classes"),
        (np.array([0] * 7 + [1]), "fewer than two classes"),
        (np.array([0] * 6 + [-1] * 2), "fewer than two classes"),
    ],
)
def test_without_two_classes_agreement_is_not_run_with_a_reason(
    classes: NDArray[np.int64] | None, reason: str
) -> None:
    found = quality(
        Sample(images(8, 0), np.arange(8) % 2), Sample(images(8, 1), classes), NoProgress(), Cancellation()
    )
    assert found.agreement == ()
    assert reason in found.agreement_not_run


@pytest.mark.parametrize(
    ("real", "synthetic", "message"),
    [
        (images(8, 0), images(8, 0, 24), "not square grayscale images of one size"),
        (images(8, 0), images(8, 0)[:, :12], "not square grayscale images of one size"),
        (images(8, 0, 8), images(8, 0, 8), "smaller than 11 x 11"),
        (images(8, 0), images(5, 0), "one set has 5"),
    ],
)
def test_images_that_cannot_be_compared_are_rejected(
    real: NDArray[np.uint8], synthetic: NDArray[np.uint8], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        quality(Sample(real), Sample(synthetic), NoProgress(), Cancellation())


def test_the_quality_section_contains_no_images(found: Quality) -> None:
    section = quality_section(found)
    assert section.pictures == ()
    assert b"data:image" not in render_page(Page("k", "t", "l", (), (section,)))


def test_the_neighbor_section_states_that_it_contains_phi() -> None:
    section = neighbors_section(Sample(images(8, 0)), Sample(images(9, 1)), NoProgress(), Cancellation())
    assert len(section.pictures) == 8
    assert "never publish" in section.text[0]
