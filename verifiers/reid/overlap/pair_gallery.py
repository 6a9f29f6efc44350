"""HTML page that shows the closest pairs side by side. Contains PHI."""

from __future__ import annotations

import base64
import html
import os
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UnreadablePicture
from medsanitize.release.atomic_io import storage_errors
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.gradcam import (
    AttentionModel,
    attention_maps,
    open_attention_model,
    packaged_attention_model,
)
from medsanitize.verifiers.reid.overlap.compare import ImagePair
from medsanitize.verifiers.reid.overlap.dataset import ImageFile
from medsanitize.verifiers.reid.overlap.models import ModelPaths
from medsanitize.verifiers.reid.overlap.overlap import Overlap

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GALLERY: Final = "pairs.html"
_MAX_PAIRS: Final = 40
_MAX_EXPLAINED: Final = 10
_SIDE: Final = 320
# The page shows patients: its Content-Security-Policy keeps it from loading or sending anything.
_HEAD: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>Closest pairs</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
.keep { background: #b00020; color: #fff; padding: .6rem 1rem; }
figure { margin: 1.5rem 0; border-top: 1px solid #ccc; padding-top: 1rem; }
img { max-width: 48%; margin-right: 1%; background: #000; vertical-align: top; }
figcaption { margin-bottom: .5rem; }
.match { color: #b00020; font-weight: 600; }
code { overflow-wrap: anywhere; }
</style></head><body>
<h1>Closest pairs</h1>
<p class="keep">This page shows patients and contains PHI: never publish it.</p>
"""
_HEAT = (1.0, 0.35, 0.0)
# Below 1, so that anatomy remains visible under the tint.
_MAX_OPACITY = 0.7


def write_pair_gallery(found: Overlap, models: ModelPaths, path: Path) -> None:
    """Write the page: verdicts, then at most forty matches and closest pairs.

    The first ten pairs that a model scored are followed by the preprocessed images, with the regions that
    made them similar to the network in orange.

    Parameters
    ----------
    found : Overlap
        Result of the comparison.
    models : ModelPaths
        Model folders of the comparison.
    path : Path
        The page; a file that exists is replaced, readable by its owner only.

    Raises
    ------
    EnvironmentFailure
        If the disk is full or fails.
    """
    verdicts = "".join(f"<p>{html.escape(one.verdict.sentence)}</p>\n" for one in found.comparisons)
    shown = found.pairs[:_MAX_PAIRS]
    count = f"<p>{len(shown)} of {len(found.pairs)} pairs, most similar first.</p>\n"
    scored = [pair for pair in shown if pair.score is not None][:_MAX_EXPLAINED]
    figures = "".join(
        _figure(found, number, pair, models if pair in scored else None)
        for number, pair in enumerate(shown, 1)
    )
    with storage_errors():
        path.unlink(missing_ok=True)
        # O_EXCL and O_NOFOLLOW: never through a link that someone placed at this path.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{_HEAD}{verdicts}{count}{figures}</body></html>\n")


def _figure(found: Overlap, number: int, pair: ImagePair, models: ModelPaths | None) -> str:
    images = [
        found.datasets[dataset].images[image]
        for dataset, image in zip(pair.datasets, pair.images, strict=True)
    ]
    titles = [found.datasets[dataset].title for dataset in pair.datasets]
    said = [f"by {pair.basis.replace('_', ' ')}"]
    said += [f"score {pair.score:.4f}"] if pair.score is not None else []
    said += [f"perceptual hashes differ in {pair.bits} bits"] if pair.bits is not None else []
    said += [f"group {pair.group}"] if pair.group else []
    mark = ' class="match"' if pair.matched else ""
    names = " and ".join(
        f"{html.escape(title)}: <code>{html.escape(image.name)}</code>"
        for title, image in zip(titles, images, strict=True)
    )
    caption = f"{number}. <span{mark}>{pair.decision.replace('_', ' ')}</span>, {', '.join(said)}<br>{names}"
    pictures = [_read(image, pair.modality) for image in images]
    shown = "".join(
        _picture(picture, f"image of {title}") for title, picture in zip(titles, pictures, strict=True)
    )
    return f"<figure><figcaption>{caption}</figcaption>{shown}{_links(models, *pictures)}</figure>\n"


def _links(models: ModelPaths | None, one: ImageArray | None, other: ImageArray | None) -> str:
    """Both preprocessed images with the regions that made them similar."""
    if models is None or one is None or other is None or one.modality is None:
        return ""
    network = deciding_network(models, one.modality)
    shown = "".join(_png(pixels, "regions of similarity") for pixels in linked(network, one, other))
    return f"<p>Orange: regions that made the two images similar to the model.</p>{shown}"


def _read(image: ImageFile, kind: Modality | None) -> ImageArray | None:
    from medsanitize.verifiers.reid.images.read import read_image

    try:
        return read_image(image.path, kind=kind)
    except UnreadablePicture:
        # The page assists a review: an unreadable image must not end the comparison.
        return None


def _picture(picture: ImageArray | None, label: str) -> str:
    import numpy as np

    if picture is None:
        return "<em>cannot be shown</em>"
    return _png(np.clip(picture.pixels * 255 + 0.5, 0, 255).astype(np.uint8), label)


def _png(pixels: NDArray[np.uint8], label: str) -> str:
    from PIL import Image as Pillow

    small = Pillow.fromarray(pixels)
    small.thumbnail((_SIDE, _SIDE))
    stream = BytesIO()
    small.save(stream, "PNG")
    data = base64.b64encode(stream.getvalue()).decode()
    return f'<img alt="{html.escape(label)}" src="data:image/png;base64,{data}">'


@lru_cache(maxsize=4)
def deciding_network(paths: ModelPaths, modality: Modality) -> AttentionModel:
    """Open the network that decides on pairs: verification, else retrieval, else packaged."""
    for folder in (*paths.verification, *paths.retrieval):
        opened = open_attention_model(folder)
        if opened.config.modality is modality:
            return opened
    return packaged_attention_model(modality)


def linked(
    network: AttentionModel, one: ImageArray, other: ImageArray
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Compute both preprocessed images, tinted by their attention maps.

    Returns
    -------
    tuple of two arrays of uint8, shape (size, size, 3)
        The images in the order of the arguments.
    """
    import numpy as np

    found = attention_maps(network, one, other)
    heat = _MAX_OPACITY * found.heat[..., None]
    tinted = found.squares[..., None] * (1 - heat) + np.array(_HEAT, np.float32) * heat
    first, second = np.rint(tinted.clip(0, 1) * 255).astype(np.uint8)
    return first, second
