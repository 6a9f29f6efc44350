"""Synthetic images as PNG files, each with a JSON sidecar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medsanitize.generators.export.provenance import SyntheticProvenance
from medsanitize.release.canonical_json import document_json
from medsanitize.sanitize.formats.png.png_samples import encode_png

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def png_object(image: NDArray[np.uint8]) -> bytes:
    """Encode an image, ``(rows, columns)``, uint8, as PNG without metadata."""
    # Our own encoder: it writes no ancillary chunks, which others fill with times and names.
    return encode_png(image[..., None], 1).write()


def sidecar(said: SyntheticProvenance) -> bytes:
    """Return the JSON sidecar of a PNG: its provenance."""
    facts: dict[str, object] = {
        "synthetic": True,
        "vetted": said.vetted,
        "description": said.description,
        "model_sha256": said.model,
        "gate": said.verdict,
        "match_bound": said.bound,
        "residual_bound": said.residual,
        "software": f"medsanitize {said.version}",
    }
    if said.label:
        facts["class"] = said.label
    return document_json(facts)
