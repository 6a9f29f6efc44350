"""Second-order pooling of local features: the network of the CPU recipe, and its training."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.preprocess import Channels, ContrastMode, Fit, Preprocessing, prepare
from medsanitize.verifiers.reid.models.radiograph_normalization import content, even_contrast
from numpy.typing import NDArray


def wave(rows: int = 90, columns: int = 110) -> NDArray[np.float32]:
    row, column = np.mgrid[:rows, :columns]
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, (rows, columns))
    return np.asarray(0.5 + 0.3 * np.sin(row / 7) * np.cos(column / 9 + row / 40) + noise, np.float32)


@pytest.mark.parametrize("level", [0.0, 0.4, 1.0])
def test_uniform_borders_are_cropped(level: float) -> None:
    bordered = np.full((120, 150), level, np.float32)
    bordered[10:100, 25:135] = wave()
    assert content(bordered) == (10, 100, 25, 135)


def test_a_uniform_picture_is_not_cropped() -> None:
    assert content(np.zeros((3, 3), np.float32)) == (0, 3, 0, 3)
    assert content(np.zeros((200, 1), np.float32)) == (0, 200, 0, 1)


def test_contrast_equalization_removes_exposure_differences() -> None:
    dark = even_contrast(wave(96, 96) * 0.4 + 0.05)
    bright = even_contrast(wave(96, 96) * 0.8 + 0.2)
    assert np.abs(dark - bright).max() < 0.02
    assert dark.min() >= 0
    assert dark.max() <= 1


def test_equalization_preserves_the_order_within_a_tile() -> None:
    ramp = np.repeat(np.linspace(0, 1, 64, dtype=np.float32)[None] ** 3, 64, 0)
    assert (np.diff(even_contrast(ramp)[4, :8]) >= -1e-6).all()


def test_a_uniform_picture_is_not_equalized() -> None:
    assert np.ptp(even_contrast(np.full((16, 16), 0.3, np.float32))) == 0


def test_large_and_small_versions_of_a_picture_are_preprocessed_alike() -> None:
    how = Preprocessing(64, Fit.STRETCH, Channels.GRAY, (0.0,) * 3, (1.0,) * 3, ContrastMode.EVEN)
    small = wave(256, 256)
    large = np.kron(small, np.ones((4, 4), np.float32))
    one, other = (prepare(ImageArray(each, Modality.RADIOGRAPH), how) for each in (small, large))
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.99


def test_second_order_moments_compare_all_pairs_of_positions() -> None:
    """The inner product of two regions' moments is the weighted sum of squared inner products."""
    import torch
    from medsanitize.verifiers.reid.models.networks.moments import RegionMoments, region_weights

    one, other = torch.randn(2, 1, 5, 4, 4, dtype=torch.float64).float()
    layer, weights = RegionMoments(4, 2), region_weights(4, 2)
    places = one[0].flatten(1), other[0].flatten(1)
    expected = torch.einsum("ri,rj,ij->r", weights, weights, (places[0].T @ places[1]) ** 2)
    assert torch.allclose((layer(one) * layer(other)).sum(2)[0], expected, rtol=1e-4)


def test_random_projection_preserves_distances() -> None:
    import torch
    from medsanitize.verifiers.reid.models.networks.moments import RandomProjection

    vectors = torch.nn.functional.normalize(torch.randn(12, 3000, generator=torch.Generator().manual_seed(1)))
    whole, part = RandomProjection(3000, 4096), RandomProjection(3000, 2048)
    assert torch.allclose(
        torch.cdist(whole(vectors), whole(vectors)), torch.cdist(vectors, vectors), atol=1e-3
    )
    kept = part(vectors) * (4096 / 2048) ** 0.5
    assert (torch.cdist(kept, kept) - torch.cdist(vectors, vectors)).abs().max() < 0.1


def test_fitting_whitens_channels_and_products() -> None:
    import torch
    from medsanitize.verifiers.reid.models.networks.moments import Branch, Cells
    from medsanitize.verifiers.reid.training.second_order_pooling import learn_cells, learn_products

    draw = torch.Generator().manual_seed(0)
    mixing = torch.randn(6, 6, generator=draw)
    maps = torch.einsum("cd,ndij->ncij", mixing, torch.randn(200, 6, 4, 4, generator=draw)) + 3
    branch = Branch(Cells(6, 4, 4, 5), 4, 2, 5, 8)
    with torch.no_grad():
        learn_cells(branch.cells, maps)
        learn_products(branch, maps)
        cells = branch.cells.whiten(maps - branch.cells.mean).transpose(0, 1).flatten(1)
        products = branch.whiten(branch.moments(branch.cells(maps))) - branch.mean
    assert torch.allclose(cells @ cells.T / cells.shape[1], torch.eye(5), atol=0.05)
    flat = products.flatten(0, 1)
    assert torch.allclose(flat.T @ flat / len(flat), torch.eye(8), atol=1e-3)
    assert products.mean(0).abs().max() < 1e-4


def test_cells_match_only_within_the_search_radius() -> None:
    from medsanitize.verifiers.reid.models.region_matching import Matching

    cells = np.eye(16, dtype=np.float32).reshape(16, 4, 4)
    moved = np.roll(cells, 1, axis=2)
    moved[:, :, 0] = 0
    statistics = np.array([0.0, 1.0], np.float32)
    one, other = (np.concatenate([each.ravel(), statistics])[None] for each in (cells, moved))
    assert Matching(16, 4, 0).match(one, one)[0] == pytest.approx(1)
    assert Matching(16, 4, 0).match(one, other)[0] == pytest.approx(0)
    assert Matching(16, 4, 1).match(one, other)[0] == pytest.approx(0.75)


def test_a_match_score_is_symmetric_and_normalized_by_the_cohort() -> None:
    from medsanitize.verifiers.reid.models.region_matching import Matching

    how = Matching(5, 3, 1)
    vectors = np.random.default_rng(0).normal(size=(40, how.dimension)).astype(np.float32)
    vectors[:, -1] = 0.5
    one, other = vectors[:20], vectors[20:]
    found = how.match(one, other)
    assert np.allclose(found, how.match(other, one), atol=1e-5)
    one[:, -2] -= 1
    assert np.allclose(how.match(one, other) - found, 1, atol=1e-5)


def test_cohort_scores_equal_pair_scores() -> None:
    import torch
    from medsanitize.verifiers.reid.models.networks.match import Cohort
    from medsanitize.verifiers.reid.models.region_matching import Matching

    cohort = Cohort(6, 5, 3, 1)
    cells = torch.randn(2, 5, 3, 3)
    plain = np.array([0.0, 1.0], np.float32)
    rows = [np.concatenate([each.numpy().ravel(), plain]) for each in (*cells, *cohort.cells)]
    expected = [
        [Matching(5, 3, 1).match(one[None], other[None])[0] for other in rows[2:]] for one in rows[:2]
    ]
    assert np.allclose(cohort.matches(cells).numpy(), expected, atol=1e-5)


def test_a_linear_rule_separates_what_a_threshold_separates() -> None:
    from medsanitize.verifiers.reid.models.scoring import BIAS, WEIGHT
    from medsanitize.verifiers.reid.training.frozen_backbone import fit_line

    values = np.array([0.1, 0.2, 0.3, 2.0, 2.1, 2.2], np.float32)
    line, loss = fit_line(values, values > 1)
    logits = values * float(line[WEIGHT]) + float(line[BIAS])
    assert ((logits > 0) == (values > 1)).all()
    assert loss < 0.3


def test_few_images_leave_the_last_components_empty() -> None:
    import torch
    from medsanitize.verifiers.reid.models.networks.moments import Coarse
    from medsanitize.verifiers.reid.training.second_order_pooling import learn_coarse

    maps = torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    coarse = Coarse(3, 4, 9)
    with torch.no_grad():
        learn_coarse(coarse, maps, 1.0)
        rows = coarse.project(maps.flatten(1))
    assert torch.allclose(rows.mean(0), torch.zeros(9), atol=1e-4)
    assert torch.allclose(
        rows[:, :4].T @ rows[:, :4], torch.eye(4) * rows[:, 0].square().sum(), rtol=1e-3, atol=1e-3
    )
    assert rows[:, 4:].abs().max() == 0
