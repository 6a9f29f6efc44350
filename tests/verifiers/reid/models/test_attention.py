"""Heatmaps of the areas by which two images match."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.config import ModelConfig, ModelKind
from medsanitize.verifiers.reid.models.gradcam import AttentionModel, attention_maps, packaged_attention_model
from medsanitize.verifiers.reid.models.preprocess import Channels, Fit, Preprocessing, prepare
from medsanitize.verifiers.reid.models.pretrained import DEVIATION, MEAN, imagenet_weights
from medsanitize.verifiers.reid.models.scoring import Scoring
from numpy.typing import NDArray

SIZE = 192
NETWORKS = {
    Scoring.NONE: {
        "name": "lite0-moments", "sizes": [SIZE, 128], "groups": [4], "kept": [16], "regions": 3,
        "products": 32, "scrambled": 256, "coarse": 8,
    },
    Scoring.MATCH: {
        "name": "lite0-match", "size": SIZE, "groups": [4, 5], "kept": [16, 8], "grid": 6, "reach": 1,
        "cohort": 4,
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=list(NETWORKS))
def model(request: pytest.FixtureRequest) -> AttentionModel:
    """A model trained on a few pictures of textures."""
    import torch
    from medsanitize.verifiers.reid.models.networks.build import build_network
    from medsanitize.verifiers.reid.training.second_order_pooling import (
        learn_cells,
        learn_coarse,
        learn_products,
    )

    facts = NETWORKS[request.param]
    how = Preprocessing(SIZE, Fit.STRETCH, Channels.GRAY, MEAN, DEVIATION)
    network: Any = build_network(facts).eval()
    network.backbone.load_state_dict(imagenet_weights())
    images = torch.from_numpy(np.stack([prepare(picture(100 + n, 200 + n), how) for n in range(16)]))
    with torch.no_grad():
        if request.param is Scoring.MATCH:
            for own, group in zip(network.cells, network.groups, strict=True):
                learn_cells(own, own.pool(network.backbone(images)[0][group]))
        for scale, rescaling in zip(
            getattr(network, "scales", ()), getattr(network, "rescalings", ()), strict=True
        ):
            maps = network.backbone(rescaling(images))[0][4]
            pooled = scale.branches[0].cells.pool(maps)
            learn_cells(scale.branches[0].cells, pooled)
            learn_products(scale.branches[0], pooled)
            learn_coarse(scale.coarse[0], pooled, 0.75)
        dimension = network(images[:1]).shape[1]
    kind = ModelKind.VERIFICATION if request.param is Scoring.MATCH else ModelKind.RETRIEVAL
    return AttentionModel(
        ModelConfig(kind, Modality.RADIOGRAPH, facts, dimension, how, request.param), network, {}
    )


def texture(seed: int, side: int = 192) -> NDArray[np.float32]:
    """Blobs and lines of a few pixels, different for every seed."""
    draw = np.random.default_rng(seed)
    coarse = draw.random((side // 8, side // 8))
    return np.asarray(np.kron(coarse, np.ones((8, 8))) * 0.8 + draw.random((side, side)) * 0.2, np.float32)


def picture(own: int, shared: int) -> ImageArray:
    """A shared texture at the lower right, an individual one elsewhere."""
    pixels = texture(own)
    pixels[96:, 96:] = texture(shared)[96:, 96:]
    return ImageArray(pixels, Modality.RADIOGRAPH)


def test_the_heatmap_marks_identical_areas_of_two_images(model: AttentionModel) -> None:
    """A quarter of each is shared, which an uninformative heatmap would give a quarter of the heat."""
    half, shares = SIZE // 2, []
    for pair in range(4):
        heat = attention_maps(model, picture(2 * pair, 20 + pair), picture(2 * pair + 1, 20 + pair)).heat
        shares += list(heat[:, half:, half:].sum((1, 2)) / heat.sum((1, 2)))
    assert np.mean(shares) > 0.33


def test_maps_have_the_size_of_the_network_input(model: AttentionModel) -> None:
    found = attention_maps(model, picture(1, 9), picture(2, 9))
    assert found.heat.shape == found.squares.shape == (2, SIZE, SIZE)
    assert found.heat.dtype == found.squares.dtype == np.float32
    assert found.heat.min() >= 0
    assert found.heat.max((1, 2)) == pytest.approx(1)


def test_swapping_the_images_swaps_the_maps(model: AttentionModel) -> None:
    one, other = picture(1, 9), picture(2, 9)
    there, back = attention_maps(model, one, other), attention_maps(model, other, one)
    assert np.allclose(there.heat, back.heat[::-1], atol=1e-3)


def test_an_image_of_another_modality_is_rejected(model: AttentionModel) -> None:
    slide = ImageArray(np.zeros((8, 8, 3), np.float32), Modality.SLIDE)
    with pytest.raises(UsageError, match="slide"):
        attention_maps(model, picture(1, 9), slide)


def test_the_packaged_features_are_supported() -> None:
    found = attention_maps(packaged_attention_model(Modality.RADIOGRAPH), picture(1, 9), picture(2, 9))
    assert found.heat.max((1, 2)) == pytest.approx(1)
