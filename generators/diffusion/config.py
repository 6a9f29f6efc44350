"""Configuration of a generator: config.json of its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from medsanitize.errors import IntegrityError
from medsanitize.verifiers.reid.images.image import Modality

SCHEMA = 1
KIND = "generator"


@dataclass(frozen=True, slots=True)
class GeneratorConfig:
    """Configuration of a generator.

    Attributes
    ----------
    modality, size, classes
        Modality, width and height of the images in pixels, class names in order of their numbers.
    autoencoder, denoiser, schedule
        Configurations of diffusers' AutoencoderKL, UNet2DModel and DDIMScheduler.
    steps
        DDIM steps per image.
    guidance
        Guidance scale; 1 is no guidance. Otherwise the last class of the denoiser means "no class".
    privacy
        Statement of differential privacy, from ``PrivacyPlan.facts``; None for a model without.
    """

    modality: Modality
    size: int
    classes: tuple[str, ...]
    autoencoder: dict[str, Any]
    denoiser: dict[str, Any]
    schedule: dict[str, Any]
    steps: int
    guidance: float
    privacy: Mapping[str, Any] | None = None

    def to_bytes(self) -> bytes:
        """Return canonical JSON."""
        # Sorted and indented alike every time: the digest of the folder covers these bytes.
        facts = {"schema": SCHEMA, "kind": KIND, **asdict(self)}
        if self.privacy is None:
            del facts["privacy"]
        return (json.dumps(facts, indent=1, sort_keys=True) + "\n").encode()


def read_config(data: bytes) -> GeneratorConfig:
    """Parse the bytes of config.json.

    Raises
    ------
    IntegrityError
        If they are damaged, of another schema version or not of a generator.
    """
    try:
        facts = json.loads(data)
        if (facts["schema"], facts["kind"]) != (SCHEMA, KIND):
            raise IntegrityError(
                f"The folder does not contain a generator of schema version {SCHEMA}",
                "Pass a folder written by train generator",
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
            privacy=_privacy(facts["privacy"]) if "privacy" in facts else None,
        )
    # RecursionError: deeply nested JSON in a hostile file.
    except (KeyError, TypeError, ValueError, RecursionError):
        raise IntegrityError(
            "config.json of the generator is invalid", "Train or fetch the model again"
        ) from None


def _privacy(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Check a statement of differential privacy; an error here is one of the caller."""
    numbers = ("epsilon", "delta", "clip", "noise_multiplier", "sampling_rate", "patients", "steps")
    spent = {name: float(facts["spent"][name]) for name in ("pld", "prv", "rdp")}
    if not all(0 < one < math.inf for one in (*spent.values(), *(facts[name] for name in numbers))):
        raise ValueError
    return {**facts, "unit": str(facts["unit"]), "spent": spent}
