"""The networks, their ONNX graphs, and their initial weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import IntegrityError, UsageError

SMALL: dict[str, Any] = {"depths": [1, 1, 1, 1], "width": 8, "dimension": 16}
NETWORKS: list[dict[str, Any]] = [
    {"name": "siamese-retrieval", "size": 96, "grid": 2, "hidden": 24, **SMALL},
    {"name": "siamese-verification", **SMALL},
    {"name": "densenet", "depths": [1, 2, 1, 1], "growth": 4},
    {"name": "lite0-match", "size": 96, "groups": [4, 5], "kept": [5, 6], "grid": 3, "reach": 1, "cohort": 4},
    {"name": "lite0-projected", "size": 96, "groups": [6], "grid": 2, "dimension": 8},
    {
        "name": "lite0-moments",
        "sizes": [96, 64],
        "groups": [2, 6],
        "kept": [5, 6],
        "regions": 2,
        "products": 7,
        "scrambled": 16,
        "coarse": 3,
    },
]


@pytest.mark.parametrize("facts", NETWORKS, ids=lambda facts: facts["name"])
def test_the_onnx_graph_matches_torch(facts: dict[str, Any]) -> None:
    import torch
    from medsanitize.verifiers.reid.models.networks.build import build_network
    from medsanitize.verifiers.reid.models.onnx_export import to_onnx
    from medsanitize.verifiers.reid.models.onnx_session import open_session

    torch.manual_seed(0)
    network = build_network(facts)
    images = torch.randn(3, 3, 96, 96)
    network.train()(images)  # so that batch normalization has nontrivial averages
    with torch.no_grad():
        expected = network.eval()(images).numpy()
    (found,) = open_session(to_onnx(network, 96), 1).run(["vectors"], {"images": images.numpy()})
    assert np.abs(found - expected).max() < 1e-4 * max(1, np.abs(expected).max())


def test_an_operation_without_an_operator_is_an_error() -> None:
    from medsanitize.verifiers.reid.models.onnx_export import to_onnx
    from torch import Tensor, nn

    class Odd(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.cumsum(1).flatten(1)

    with pytest.raises(NotImplementedError, match="cumsum"):
        to_onnx(Odd(), 4)


@pytest.mark.parametrize(("side", "grid"), [(7, 5), (32, 5), (12, 4), (3, 5)])
@pytest.mark.parametrize("largest", [False, True])
def test_grid_pooling_matches_adaptive_pooling(side: int, grid: int, largest: bool) -> None:
    import torch
    from medsanitize.verifiers.reid.models.networks.layers import GridPool
    from torch import nn

    maps = torch.randn(2, 3, side, side)
    expected = (nn.AdaptiveMaxPool2d if largest else nn.AdaptiveAvgPool2d)(grid)(maps)
    assert torch.allclose(GridPool(side, grid, largest=largest)(maps), expected, atol=1e-6)


def test_resnet_50_has_the_published_names_and_size() -> None:
    from medsanitize.verifiers.reid.models.networks.resnet import ResNet

    state = ResNet().state_dict()
    # 25,557,032 parameters in torchvision's documentation, less the classifier's 2,049,000.
    assert sum(value.numel() for name, value in state.items() if _is_weight(name)) == 23_508_032
    assert {"conv1.weight", "layer1.0.downsample.1.bias", "layer3.5.conv2.weight"} < set(state)
    assert state["layer4.2.bn3.weight"].shape == (2048,)


def _is_weight(name: str) -> bool:
    return name.endswith(("weight", "bias"))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    import torch
    from medsanitize.verifiers.reid.models.networks.resnet import ResNet
    from safetensors.torch import save_file

    state = {name: value for name, value in ResNet((1, 1, 1, 1), 8).state_dict().items() if _is_kept(name)}
    save_file({**state, "fc.weight": torch.zeros(10, 256)}, tmp_path / "resnet.safetensors")
    return tmp_path / "resnet.safetensors"


def _is_kept(name: str) -> bool:
    return "num_batches" not in name


def test_a_backbone_is_loaded_from_a_local_file_without_its_classifier(stored: Path) -> None:
    from medsanitize.verifiers.reid.models.networks.initial_weights import start_from
    from medsanitize.verifiers.reid.models.networks.resnet import ResNet
    from safetensors.torch import load_file

    network = ResNet((1, 1, 1, 1), 8)
    start_from(network, str(stored))
    assert network.conv1.weight.equal(load_file(stored)["conv1.weight"])


def test_weights_of_another_network_are_rejected(stored: Path) -> None:
    from medsanitize.verifiers.reid.models.networks.initial_weights import start_from
    from medsanitize.verifiers.reid.models.networks.resnet import ResNet

    with pytest.raises(IntegrityError, match="another network"):
        start_from(ResNet((1, 1, 1, 1), 16), str(stored))


def test_a_damaged_weights_file_is_rejected(tmp_path: Path) -> None:
    from medsanitize.verifiers.reid.models.networks.initial_weights import start_from
    from torch import nn

    (tmp_path / "cut.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(IntegrityError, match="cannot be read"):
        start_from(nn.Identity(), str(tmp_path / "cut.safetensors"))


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    from medsanitize.verifiers.reid.models.networks.initial_weights import start_from
    from torch import nn

    (tmp_path / "resnet.pth").write_bytes(b"\x80\x04")
    with pytest.raises(UsageError, match="can run code"):
        start_from(nn.Identity(), str(tmp_path / "resnet.pth"))


def test_a_hub_name_is_rejected_and_nothing_is_downloaded() -> None:
    from medsanitize.verifiers.reid.models.networks.initial_weights import start_from
    from torch import nn

    with pytest.raises(UsageError, match="pass its path"):
        start_from(nn.Identity(), "timm/resnet50")


def test_an_unknown_network_is_rejected() -> None:
    from medsanitize.verifiers.reid.models.networks.build import build_network

    for facts in ({"name": "other"}, {"name": "siamese-verification", "color": 1}, {}):
        with pytest.raises(IntegrityError, match="does not support the model's network"):
            build_network(facts)
