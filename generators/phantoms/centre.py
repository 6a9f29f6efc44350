"""Make the mean that the packaged features of radiographs are centred by, from phantoms alone.

    python -m medsanitize.generators.phantoms.centre

It says what chests have in common to the network, and holds nothing of any patient. Run it again when the
phantoms or the features change, and put the digest it prints into ``verifiers/models/packaged.py``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from medsanitize.generators.phantoms.chest import chest_phantom
from medsanitize.verifiers.models import packaged
from medsanitize.verifiers.models.session import embed, open_session
from medsanitize.verifiers.pictures.picture import Modality, Picture

PATIENTS = 40


def write_mean(file: Path) -> str:
    """Write the mean of the features of forty phantom patients; the digest of the file."""
    from medsanitize.verifiers.models.graph import to_onnx
    from medsanitize.verifiers.models.networks.build import build_network
    from safetensors.numpy import save

    config = packaged.RADIOGRAPH
    network = build_network({**config.network, "centred": False}).eval()
    network.get_submodule("backbone").load_state_dict(packaged.imagenet_weights())
    session = open_session(to_onnx(network, config.preprocessing.size), 1)
    pictures = [
        Picture(chest_phantom(patient, 0, size=256), Modality.RADIOGRAPH) for patient in range(PATIENTS)
    ]
    vectors = embed(session, pictures, config.preprocessing, config.dimension)
    data = save({"mean": vectors.mean(0, dtype=np.float64).astype(np.float16)})
    file.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    print(write_mean(Path(packaged.__file__).parent / packaged.CHEST_MEAN))
