"""Sampling: equal seeds give equal images, and only safe folders are opened."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DModel
from medsanitize.errors import IntegrityError, MedsanitizeError, UsageError
from medsanitize.generators.diffusion.config import GeneratorConfig
from medsanitize.generators.diffusion.generator import Generator, open_generator, training_of
from medsanitize.generators.diffusion.model_folder import AUTOENCODER, DENOISER, FILES
from medsanitize.generators.diffusion.networks import autoencoder_facts, denoiser_facts, schedule_facts
from medsanitize.generators.diffusion.preprocess import preprocess_image, to_image_array
from medsanitize.generators.diffusion.recipes import RECIPES, recipe_for
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.model_folder import CONFIG, write_folder
from safetensors.torch import save

pytestmark = pytest.mark.generate


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def parts() -> tuple[AutoencoderKL, UNet2DModel]:
    """Tiny networks with random weights, for two classes."""
    torch.manual_seed(5)
    tiny = recipe_for("tiny")
    return AutoencoderKL(**autoencoder_facts(tiny)), UNet2DModel(**denoiser_facts(tiny, 2))


def content() -> dict[str, bytes]:
    tiny = recipe_for("tiny")
    encoder, unet = parts()
    facts = autoencoder_facts(tiny), denoiser_facts(tiny, 2), schedule_facts(tiny)
    config = GeneratorConfig(Modality.RADIOGRAPH, 32, ("ill", "well"), *facts, steps=4, guidance=1.5)
    return {
        CONFIG: config.to_bytes(),
        AUTOENCODER: save(encoder.state_dict()),
        DENOISER: save(unet.state_dict()),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("generator") / "model"
    write_folder(made, content(), FILES)
    return made


@pytest.fixture(scope="module")
def generator(folder: Path) -> Generator:
    return open_generator(folder)


@pytest.fixture(scope="module")
def eleven(generator: Generator) -> Any:
    """Images of both classes and many seeds, sampled together."""
    return generator.sample([place % 2 for place in range(11)], list(range(100, 111)))


def test_an_image_depends_only_on_its_class_and_seed(generator: Generator, eleven: Any) -> None:
    alone = [generator.sample([place % 2], [100 + place])[0] for place in range(11)]
    backwards = generator.sample([place % 2 for place in range(10, -1, -1)], list(range(110, 99, -1)))
    assert np.array_equal(eleven, np.stack(alone))
    assert np.array_equal(eleven, backwards[::-1])


def test_other_seeds_and_other_classes_give_other_images(generator: Generator, eleven: Any) -> None:
    other = generator.sample([1], [100])[0]
    assert len({image.tobytes() for image in (*eleven, other)}) == 12


def test_the_number_of_threads_does_not_change_the_images(generator: Generator, eleven: Any) -> None:
    torch.set_num_threads(2)
    try:
        again = generator.sample([place % 2 for place in range(11)], list(range(100, 111)))
    finally:
        torch.set_num_threads(1)
    assert np.array_equal(eleven, again)


def test_reconstruction_and_variation_preserve_the_shape(generator: Generator, eleven: Any) -> None:
    again = generator.reconstruct(eleven)
    varied = generator.vary(eleven, [0] * 11, 0.25, list(range(11)))
    assert again.shape == varied.shape == (11, 32, 32)
    assert again.dtype == varied.dtype == np.uint8
    assert np.array_equal(varied[3:4], generator.vary(eleven[3:4], [0], 0.25, [3]))


def test_a_stronger_variation_leaves_less_of_the_image(generator: Generator, eleven: Any) -> None:
    def apart(strength: float) -> float:
        one, other = generator.vary(eleven[:2], [0, 0], strength, [3, 3]).astype(int)
        return float(np.abs(one - other).mean())

    assert apart(1.0) < apart(0.25) / 2


def test_an_empty_request_returns_no_images(generator: Generator) -> None:
    assert generator.sample([], []).shape == (0, 32, 32)


@pytest.mark.parametrize(
    "ask",
    [
        lambda one: one.sample([0], [1, 2]),
        lambda one: one.sample([2], [1]),
        lambda one: one.sample([0], [-1]),
        lambda one: one.reconstruct(np.zeros((1, 16, 16), np.uint8)),
        lambda one: one.vary(np.zeros((1, 32, 32), np.uint8), [0], 0.0, [1]),
        lambda one: one.vary(np.zeros((2, 32, 32), np.uint8), [0], 0.5, [1]),
    ],
)
def test_invalid_sampling_requests_are_rejected(
    generator: Generator, ask: Callable[[Generator], Any]
) -> None:
    with pytest.raises(UsageError):
        ask(generator)


def test_the_digest_is_that_of_the_file_list(folder: Path, generator: Generator) -> None:
    assert generator.digest == hashlib.sha256((folder / "SHA256SUMS").read_bytes()).hexdigest()


def test_a_changed_byte_is_detected(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    data = bytearray((copy / DENOISER).read_bytes())
    data[-1] ^= 1
    (copy / DENOISER).write_bytes(bytes(data))
    with pytest.raises(IntegrityError, match=f"{DENOISER} of the model was modified"):
        open_generator(copy)


def test_weights_of_another_architecture_are_rejected(tmp_path: Path) -> None:
    given = content()
    facts = json.loads(given[CONFIG])
    facts["denoiser"]["block_out_channels"] = [32, 32]
    write_folder(tmp_path / "model", {**given, CONFIG: json.dumps(facts).encode()}, FILES)
    with pytest.raises(IntegrityError, match="do not match the architecture"):
        open_generator(tmp_path / "model")


@pytest.mark.parametrize("change", [{"in_channels": 4}, {"out_channels": 4}])
def test_a_denoiser_for_other_latents_is_rejected(tmp_path: Path, change: dict[str, int]) -> None:
    given = content()
    facts = json.loads(given[CONFIG])
    facts["denoiser"] |= change
    weights = save(UNet2DModel(**facts["denoiser"]).state_dict())
    changed = {**given, CONFIG: json.dumps(facts).encode(), DENOISER: weights}
    write_folder(tmp_path / "model", changed, FILES)
    with pytest.raises(IntegrityError, match="number of latent channels"):
        open_generator(tmp_path / "model")


@pytest.mark.parametrize("change", [{"down_block_types": ["Nothing", "Nothing"]}, {"norm_num_groups": 7}])
def test_an_architecture_that_cannot_be_built_is_reported(tmp_path: Path, change: dict[str, Any]) -> None:
    given = content()
    facts = json.loads(given[CONFIG])
    facts["denoiser"] |= change
    write_folder(tmp_path / "model", {**given, CONFIG: json.dumps(facts).encode()}, FILES)
    with pytest.raises(IntegrityError, match="diffusers cannot build"):
        open_generator(tmp_path / "model")


@pytest.mark.parametrize("data", [pickle.dumps({"weight": 1}), b"PK\x03\x04 an archive of a pickle"])
def test_a_pickle_under_another_name_is_not_read(tmp_path: Path, data: bytes) -> None:
    write_folder(tmp_path / "model", {**content(), AUTOENCODER: data}, FILES)
    with pytest.raises(UsageError, match="The weights are pickled"):
        open_generator(tmp_path / "model")


def test_a_file_of_pickled_weights_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "model.ckpt").write_bytes(pickle.dumps({}))
    with pytest.raises(UsageError, match="pickled"):
        open_generator(tmp_path / "model.ckpt")


def test_a_verifier_is_rejected_as_generator(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", {CONFIG: b"{}", "weights.safetensors": b"", "model.onnx": b""})
    with pytest.raises(MedsanitizeError):
        open_generator(tmp_path / "model")


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A pipeline with our three parts as saved by diffusers."""
    encoder, unet = parts()
    encoder.save_pretrained(tmp_path / "vae")
    unet.save_pretrained(tmp_path / "unet")
    DDIMScheduler(**schedule_facts(recipe_for("tiny"))).save_pretrained(tmp_path / "scheduler")
    index = {
        "_class_name": "LatentPipeline",
        "vae": ["diffusers", "AutoencoderKL"],
        "unet": ["diffusers", "UNet2DModel"],
        "scheduler": ["diffusers", "DDIMScheduler"],
    }
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    return tmp_path


def test_a_diffusers_pipeline_opens_as_generator(pipeline: Path) -> None:
    opened = open_generator(pipeline)
    assert (opened.size, opened.classes, training_of(pipeline)) == (32, ("0", "1", "2"), {})
    images = opened.sample([0, 2], [1, 1])
    assert not np.array_equal(images[0], images[1])
    assert open_generator(pipeline).digest == opened.digest


def test_pickled_weights_of_a_pipeline_are_not_read(pipeline: Path) -> None:
    (pipeline / "unet" / "diffusion_pytorch_model.safetensors").rename(
        pipeline / "unet" / "diffusion_pytorch_model.bin"
    )
    with pytest.raises(UsageError, match="The weights are pickled"):
        open_generator(pipeline)


def test_a_pipeline_of_another_kind_is_rejected(pipeline: Path) -> None:
    index = json.loads((pipeline / "model_index.json").read_text())
    index["unet"] = ["diffusers", "UNet2DConditionModel"]
    (pipeline / "model_index.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match="Pipelines of this kind"):
        open_generator(pipeline)


def test_preprocessing_crops_the_center_and_converts_back() -> None:
    pixels = np.zeros((40, 60), np.float32)
    pixels[:, 8:52] = 1
    found = preprocess_image(ImageArray(pixels, Modality.RADIOGRAPH), 20)
    assert (found == 255).all()
    assert (to_image_array(found).pixels == 1).all()


def test_a_slide_cannot_be_preprocessed_for_a_generator() -> None:
    with pytest.raises(UsageError, match="radiograph"):
        preprocess_image(ImageArray(np.zeros((8, 8, 3), np.float32), Modality.SLIDE), 8)


def test_the_paper_recipe_has_the_published_parameters() -> None:
    recipe = RECIPES["gpu-512"]
    schedule = schedule_facts(recipe)
    assert autoencoder_facts(recipe)["latent_channels"] == 8
    assert (schedule["beta_start"], schedule["beta_end"]) == (0.002, 0.02)
    assert schedule["num_train_timesteps"] == 1000
    # The embedding of time and class is four times as wide as the first level.
    assert 4 * recipe.denoiser.channels[0] == 1024
    assert (recipe.size, recipe.latent, recipe.patience) == (512, 64, 30)


def test_an_unknown_recipe_is_reported() -> None:
    with pytest.raises(UsageError, match="recipe is unknown"):
        recipe_for("huge")
