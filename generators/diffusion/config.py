"""What a generator is, as plain data: config.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from medsanitize.errors import IntegrityError
from medsanitize.verifiers.reid.images.image import Modality

SCHEMA = 1
KIND = "generator"


@dataclass(frozen=True, slots=True)
class GeneratorConfig:
    """What a generator is.

    Attributes
    ----------
    modality, size, classes
        What it makes: kind, side in pixels, names of the labels by number.
    autoencoder, denoiser, schedule
        Configurations of diffusers' AutoencoderKL, UNet2DModel and DDIMScheduler.
    steps
        Of DDIM for an image.
    guidance
        Weight of the class; 1 is no guidance. Above 1 the denoiser's last class means none.
    """

    modality: Modality
    size: int
    classes: tuple[str, ...]
    autoencoder: dict[str, Any]
    denoiser: dict[str, Any]
    schedule: dict[str, Any]
    steps: int
    guidance: float

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        facts = {"schema": SCHEMA, "kind": KIND, **asdict(self)}
        return (json.dumps(facts, indent=1, sort_keys=True) + "\n").encode()


def read_config(data: bytes) -> GeneratorConfig:
    """From the bytes of config.json.

    Raises
    ------
    IntegrityError
        If they are of another schema version, or not a generator's.
    """
    try:
        facts = json.loads(data)
        if (facts["schema"], facts["kind"]) != (SCHEMA, KIND):
            raise IntegrityError(
                f"The folder holds no generator of schema version {SCHEMA}",
                "Give the folder that train generator wrote",
            )
        return GeneratorConfig(
            modality=Modality(facts["modality"]),
            size=int(facts["size"]),
            classes=tuple(str(name) for name in facts["classes"]),
            autoencoder=dict(facts["autoencoder"]),
            denoiser=dict(facts["denoiser"]),
            schedule=dict(facts["schedule"]),
            steps=int(facts["steps"]),
            guidance=float(facts["guidance"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        raise IntegrityError(
            "config.json of the generator cannot be understood", "Train or fetch the model again"
        ) from None
