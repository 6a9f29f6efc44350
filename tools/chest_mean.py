"""Compute the mean by which the packaged radiograph features are centered, from phantoms.

    python -m medsanitize.tools.chest_mean

The mean represents what all chest radiographs have in common for the network; it contains no patient data.
Run the tool again when the phantoms or the features change, and copy the printed digest to
``verifiers/reid/models/pretrained.py``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from medsanitize.generators.phantoms.chest import chest_phantom
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models import pretrained
from medsanitize.verifiers.reid.models.onnx_session import embed, open_session

PATIENTS = 40


def write_mean(file: Path) -> str:
    """Write the mean of the features of 40 phantom patients; return the SHA-256 of the file."""
    from medsanitize.verifiers.reid.models.networks.build import build_network
    from medsanitize.verifiers.reid.models.onnx_export import to_onnx
    from safetensors.numpy import save

    config = pretrained.RADIOGRAPH
    # Uncentered, since the mean is what centering subtracts.
    network = build_network({**config.network, "centered": False}).eval()
    network.get_submodule("backbone").load_state_dict(pretrained.imagenet_weights())
    session = open_session(to_onnx(network, config.preprocessing.size), 1)
    pictures = [
        ImageArray(chest_phantom(patient, 0, size=256), Modality.RADIOGRAPH) for patient in range(PATIENTS)
    ]
    vectors = embed(session, pictures, config.preprocessing, config.dimension)
    # Double precision, so that rounding errors stay below those of float16.
    data = save({"mean": vectors.mean(0, dtype=np.float64).astype(np.float16)})
    file.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    print(write_mean(Path(pretrained.__file__).parent / pretrained.CHEST_MEAN))
