"""A model folder is as written, or it is rejected."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.config import ModelConfig, ModelKind, read_config
from medsanitize.verifiers.reid.models.load import open_retrieval, open_verification
from medsanitize.verifiers.reid.models.model_folder import LIST, read_folder
from medsanitize.verifiers.reid.models.preprocess import Channels, Fit, Preprocessing
from medsanitize.verifiers.reid.models.pretrained import DEVIATION, MEAN, imagenet_weights
from medsanitize.verifiers.reid.models.save import (
    TOLERANCE,
    ExportedModel,
    ModelDocuments,
    export,
    save_model,
)

SIZE = 64
PAPERS = ModelDocuments({"recipe": "none"})


@pytest.fixture(scope="module")
def trained() -> ExportedModel:
    how = Preprocessing(SIZE, Fit.CROP, Channels.GRAY, MEAN, DEVIATION)
    network = {"name": "lite0-features", "size": SIZE, "groups": [4], "grid": 2}
    config = ModelConfig(ModelKind.RETRIEVAL, Modality.RADIOGRAPH, network, 112 * 4 + 1280, how)
    weights = {f"backbone.{name}": value for name, value in imagenet_weights().items()}
    return export(config, weights)


@pytest.fixture
def folder(tmp_path: Path, trained: ExportedModel) -> Path:
    save_model(tmp_path / "model", trained, {}, PAPERS)
    return tmp_path / "model"


def picture(seed: int, modality: Modality = Modality.RADIOGRAPH) -> ImageArray:
    pixels = np.random.default_rng(seed).random((80, 72), np.float32)
    return ImageArray(pixels, modality)


def test_a_saved_model_round_trips(folder: Path, trained: ExportedModel) -> None:
    import torch
    from medsanitize.verifiers.reid.models.networks.build import build_network
    from medsanitize.verifiers.reid.models.preprocess import prepare

    model = open_retrieval(folder)
    network = build_network(trained.config.network).eval()
    network.load_state_dict(trained.weights)
    pictures = [picture(seed) for seed in range(5)]
    images = torch.tensor(np.stack([prepare(one, trained.config.preprocessing) for one in pictures]))
    with torch.no_grad():
        expected = network(images).numpy()
    found = model.embed(pictures)
    assert found.shape == (5, model.dimension)
    assert np.abs(found - expected).max() < TOLERANCE
    assert read_config(read_folder(folder).content["config.json"]).deviation < TOLERANCE


def test_a_vector_does_not_depend_on_batch_or_threads(folder: Path) -> None:
    pictures = [picture(seed) for seed in range(6)]
    together = open_retrieval(folder).embed(pictures)
    alone = np.concatenate([open_retrieval(folder, threads=2).embed([one]) for one in pictures[::-1]])
    assert np.array_equal(together, alone[::-1])


def test_the_model_folder_is_deterministic(folder: Path, trained: ExportedModel, tmp_path: Path) -> None:
    digest = save_model(tmp_path / "again", trained, {}, PAPERS)
    assert digest == open_retrieval(folder).digest
    for one in folder.iterdir():
        assert one.read_bytes() == (tmp_path / "again" / one.name).read_bytes()


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors", "model.onnx", "training.json", LIST])
@pytest.mark.parametrize("place", [0, -2])
def test_one_changed_bit_is_rejected(folder: Path, name: str, place: int) -> None:
    data = bytearray((folder / name).read_bytes())
    data[place] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(IntegrityError):
        open_retrieval(folder)


def test_a_changed_file_is_reported_by_name(folder: Path) -> None:
    (folder / "training.json").write_text("{}")
    with pytest.raises(IntegrityError, match=r"training\.json of the model was modified"):
        open_retrieval(folder)


def test_a_missing_file_is_rejected(folder: Path) -> None:
    (folder / "training.json").unlink()
    with pytest.raises(IntegrityError, match=r"training\.json\) is missing"):
        open_retrieval(folder)


def test_an_added_file_is_rejected_without_quoting_its_name(folder: Path) -> None:
    (folder / "Smith.pt").write_bytes(b"")
    with pytest.raises(IntegrityError, match="was added") as caught:
        open_retrieval(folder)
    assert "Smith" not in str(caught.value)


def test_a_link_in_the_folder_is_rejected(folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").rename(tmp_path / "elsewhere")
    (folder / "config.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="other than regular files"):
        open_retrieval(folder)


def test_a_model_is_never_overwritten(folder: Path, trained: ExportedModel) -> None:
    with pytest.raises(UsageError, match="already contains a model"):
        save_model(folder, trained, {}, PAPERS)


def test_a_folder_without_a_model_gives_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not contain a model"):
        open_retrieval(tmp_path)


def test_a_model_of_another_kind_is_rejected(folder: Path) -> None:
    with pytest.raises(UsageError, match="contains a retrieval model"):
        open_verification(folder)


def test_pictures_of_another_modality_are_rejected(folder: Path) -> None:
    with pytest.raises(UsageError, match="radiograph"):
        open_retrieval(folder).embed([picture(0), picture(1, Modality.SLIDE)])


def test_another_schema_version_is_rejected(trained: ExportedModel) -> None:
    facts = json.loads(trained.config.to_bytes())
    with pytest.raises(IntegrityError, match="schema version"):
        read_config(json.dumps({**facts, "schema": 2}).encode())


@pytest.mark.parametrize("change", [{"network": 3}, {"kind": "x"}, {"preprocessing": {}}, {"dimension": "a"}])
def test_an_inconsistent_configuration_is_rejected(trained: ExportedModel, change: dict[str, object]) -> None:
    facts = json.loads(trained.config.to_bytes())
    with pytest.raises(IntegrityError, match="is invalid"):
        read_config(json.dumps({**facts, **change}).encode())


def test_a_graph_with_external_files_is_rejected(folder: Path) -> None:
    import onnx
    from medsanitize.verifiers.reid.models.onnx_session import open_session

    model = onnx.load_model_from_string((folder / "model.onnx").read_bytes())
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/hostname"
    with pytest.raises(IntegrityError):
        open_session(model.SerializeToString(), 1)
