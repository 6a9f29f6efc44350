"""Files of a generator folder, and reading of diffusers pipelines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.models.model_folder import (
    CARD,
    CONFIG,
    CURVES,
    LOG,
    TRAINING,
    Names,
    digest_of,
)
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

AUTOENCODER = "autoencoder.safetensors"
DENOISER = "denoiser.safetensors"
SAMPLES = "samples.png"
FILES = Names(
    frozenset({CONFIG, AUTOENCODER, DENOISER}),
    frozenset({CONFIG, AUTOENCODER, DENOISER, TRAINING, CARD, LOG, CURVES, SAMPLES}),
)

INDEX = "model_index.json"
_WEIGHTS = "diffusion_pytorch_model.safetensors"
_PICKLES = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".pickle")
_SUPPORTED = "Use a pipeline of AutoencoderKL, UNet2DModel and a scheduler, as saved by diffusers"


def tensors_of(data: bytes) -> dict[str, Tensor]:
    """Parse a safetensors file.

    Raises
    ------
    UsageError
        If it is a pickle or a zip archive, which may contain one.
    IntegrityError
        If it is damaged.
    """
    # Magic bytes of a pickle and of torch's zip format. Neither is ever loaded: a pickle can run code.
    if data[:1] == b"\x80" or data[:2] == b"PK":
        raise pickled()
    try:
        return load(data)
    except (SafetensorError, ValueError, KeyError):
        raise IntegrityError("The weights are damaged", "Fetch or train the model again") from None


def pickled() -> UsageError:
    """Error for pickled weights, which can run code when they are loaded."""
    return UsageError(
        "The weights are pickled and were not read: unpickling can run code",
        "Save the model again with save_pretrained(..., safe_serialization=True), or fetch its safetensors",
    )


def read_pipeline(folder: Path) -> tuple[str, Mapping[str, dict[str, Any]], Mapping[str, dict[str, Tensor]]]:
    """Read digest, configurations and weights of a diffusers pipeline.

    The parts are ``vae`` and ``unet`` (with weights) and ``scheduler``. Only the files of these parts are
    read, and the digest covers only them.

    Raises
    ------
    UsageError
        If it is another kind of pipeline, or its weights are pickled.
    IntegrityError
        If a file is damaged.
    """
    index = _json(folder / INDEX)
    kinds = {
        part: entry[1] if isinstance(entry := index.get(part), list) and len(entry) == 2 else None
        for part in ("vae", "unet", "scheduler")
    }
    if kinds["vae"] != "AutoencoderKL" or kinds["unet"] != "UNet2DModel" or kinds["scheduler"] is None:
        raise UsageError("Pipelines of this kind are not supported", _SUPPORTED)
    facts = {
        "vae": _json(folder / "vae" / CONFIG),
        "unet": _json(folder / "unet" / CONFIG),
        "scheduler": _json(folder / "scheduler" / "scheduler_config.json"),
    }
    data = {part: _weights(folder / part) for part in ("vae", "unet")}
    content = {f"{part}.json": json.dumps(facts[part], sort_keys=True).encode() for part in facts}
    digests = {part: hashlib.sha256(bytes_).hexdigest().encode() for part, bytes_ in data.items()}
    return digest_of({**content, **digests}), facts, {part: tensors_of(one) for part, one in data.items()}


def _weights(folder: Path) -> bytes:
    path = folder / _WEIGHTS
    if path.is_file():
        return path.read_bytes()
    there = list(folder.iterdir()) if folder.is_dir() else []
    if any(one.suffix in _PICKLES for one in there):
        raise pickled()
    # Sharded weights are not supported: the digest covers one file per part.
    raise UsageError(
        f"The pipeline has no {_WEIGHTS} for one of its components",
        "Save it again with save_pretrained, one file per component",
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_bytes())
    except OSError:
        raise UsageError("The pipeline has no configuration for one of its components", _SUPPORTED) from None
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise IntegrityError("A configuration of the pipeline is damaged", "Fetch it again")
    return facts
