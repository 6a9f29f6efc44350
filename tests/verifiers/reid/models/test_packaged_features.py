"""The packaged features, which need no training."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.preprocess import Channels, Fit, Preprocessing, prepare
from medsanitize.verifiers.reid.models.pretrained import imagenet_weights, packaged_digest, packaged_retrieval
from numpy.typing import NDArray
from PIL import Image

PLAIN = {"mean": (0.0, 0.0, 0.0), "deviation": (1.0, 1.0, 1.0)}


def noise(seed: int, modality: Modality) -> ImageArray:
    return ImageArray(np.random.default_rng(seed).random((40, 50, 3), np.float32), modality)


@pytest.mark.parametrize(("modality", "dimension"), [(Modality.RADIOGRAPH, 8192), (Modality.SLIDE, 1280)])
def test_vectors_have_unit_length(modality: Modality, dimension: int) -> None:
    model = packaged_retrieval(modality)
    vectors = model.embed([noise(seed, modality) for seed in range(3)])
    assert vectors.shape == (3, dimension) == (3, model.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_an_empty_batch_gives_no_vectors() -> None:
    assert packaged_retrieval(Modality.SLIDE).embed([]).shape == (0, 1280)


def test_a_radiograph_is_rejected_by_the_slide_model() -> None:
    with pytest.raises(UsageError, match="slide"):
        packaged_retrieval(Modality.SLIDE).embed([noise(0, Modality.RADIOGRAPH)])


def test_the_packaged_models_of_two_kinds_have_different_digests() -> None:
    assert len({packaged_digest(modality) for modality in Modality}) == len(Modality)


def test_the_packaged_network_matches_its_reference_implementation() -> None:
    """Sums over a fixed wave picture, taken from the reference implementation of the packaged weights."""
    import torch
    from medsanitize.verifiers.reid.models.networks.lite import Lite0

    network = Lite0().eval()
    network.load_state_dict(imagenet_weights())
    rows, columns = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    wave = torch.stack([torch.sin(rows / 5), torch.cos(columns / 7), torch.sin((rows + columns) / 9)])
    with torch.no_grad():
        _, top = network(wave[None])
    assert top.shape == (1, 1280, 2, 2)
    assert float(top.sum()) == pytest.approx(2611.2368, rel=1e-4)
    assert float(top.square().sum()) == pytest.approx(9368.5146, rel=1e-4)


def test_the_common_component_of_phantoms_is_removed() -> None:
    """Non-negative features all point in one direction; centered ones do not."""
    vectors = packaged_retrieval(Modality.RADIOGRAPH).embed(
        [ImageArray(wave(seed), Modality.RADIOGRAPH) for seed in range(4)]
    )
    assert vectors.min() < 0


def wave(seed: int) -> NDArray[np.float32]:
    rows, columns = np.mgrid[:60, :60]
    return np.asarray(0.5 + 0.5 * np.sin(rows / (4 + seed)) * np.cos(columns / 6), np.float32)


def test_weights_of_another_network_are_rejected() -> None:
    import torch
    from medsanitize.verifiers.reid.models.networks.lite import lite_weights

    with pytest.raises(IntegrityError, match="EfficientNet-Lite0"):
        lite_weights({"conv.weight": torch.zeros(1)})


@pytest.mark.parametrize("fit", list(Fit))
def test_every_fit_keeps_a_uniform_square(fit: Fit) -> None:
    how = Preprocessing(8, fit, Channels.GRAY, **PLAIN)
    flat = ImageArray(np.full((16, 16), 0.5, np.float32), Modality.RADIOGRAPH)
    assert np.array_equal(prepare(flat, how), np.full((3, 8, 8), 0.5, np.float32))


def test_pad_adds_black_and_crop_takes_the_center() -> None:
    pixels = np.zeros((4, 8), np.float32)
    pixels[:, 2:6] = 1
    wide = ImageArray(pixels, Modality.RADIOGRAPH)
    padded = prepare(wide, Preprocessing(8, Fit.PAD, Channels.GRAY, **PLAIN))[0]
    cropped = prepare(wide, Preprocessing(4, Fit.CROP, Channels.GRAY, **PLAIN))[0]
    assert padded[:2].sum() == padded[6:].sum() == 0
    assert padded[2:6].sum() == pixels.sum()
    assert np.array_equal(cropped, np.ones((4, 4), np.float32))


def test_halving_averages_neighbors() -> None:
    stripes = np.zeros((16, 16), np.float32)
    stripes[:, ::2] = 1
    small = prepare(
        ImageArray(stripes, Modality.RADIOGRAPH), Preprocessing(8, Fit.STRETCH, Channels.GRAY, **PLAIN)
    )
    assert np.abs(small[0, :, 1:-1] - 0.5).max() < 0.01


@pytest.mark.parametrize("shape", [(300, 200), (37, 90), (16, 16), (5, 7)])
@pytest.mark.parametrize("fit", list(Fit))
def test_scaling_matches_pillow(shape: tuple[int, int], fit: Fit) -> None:
    pixels = np.random.default_rng(0).random(shape, np.float32)
    rows, columns = shape
    side = min(shape)
    box = (0.0, 0.0, float(columns), float(rows))
    if fit is Fit.CROP:
        left, top = (columns - side) / 2, (rows - side) / 2
        box = (left, top, left + side, top + side)
    across, down = 32, 32
    if fit is Fit.PAD:
        across, down = round(32 * columns / max(shape)), round(32 * rows / max(shape))
    expected = np.asarray(Image.fromarray(pixels).resize((across, down), Image.Resampling.BILINEAR, box))
    found = prepare(ImageArray(pixels, Modality.RADIOGRAPH), Preprocessing(32, fit, Channels.GRAY, **PLAIN))[
        0
    ]
    above, before = (32 - down) // 2, (32 - across) // 2
    assert np.abs(found[above : above + down, before : before + across] - expected).max() < 1e-5


def test_color_keeps_its_channel_order_and_gray_is_luma() -> None:
    red = np.zeros((4, 4, 3), np.float32)
    red[..., 0] = 1
    picture = ImageArray(red, Modality.SLIDE)
    color = prepare(picture, Preprocessing(4, Fit.STRETCH, Channels.COLOR, **PLAIN))
    gray = prepare(picture, Preprocessing(4, Fit.STRETCH, Channels.GRAY, **PLAIN))
    assert color[:, 0, 0].tolist() == [1, 0, 0]
    assert gray[:, 0, 0] == pytest.approx([0.299] * 3)


def test_mean_and_deviation_are_applied_per_channel() -> None:
    how = Preprocessing(4, Fit.STRETCH, Channels.COLOR, (0.0, 0.5, 1.0), (1.0, 0.5, 0.25))
    white = ImageArray(np.ones((4, 4, 3), np.float32), Modality.SLIDE)
    assert prepare(white, how)[:, 0, 0].tolist() == [1, 1, 0]
