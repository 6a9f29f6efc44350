"""The packaged feature network of the quality metrics; nothing is downloaded."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from medsanitize.generators.diffusion.preprocess import to_image_array
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.onnx_session import BATCH, embed, open_session
from medsanitize.verifiers.reid.models.preprocess import Channels, Fit, Preprocessing
from medsanitize.verifiers.reid.models.pretrained import DEVIATION, MEAN, SHA256, packaged_weights

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.progress import Cancellation, Progress
    from numpy.typing import NDArray

NAME: Final = "EfficientNet-Lite0 trained on ImageNet, pooled top, 1,280 numbers of unit length, 224 px"
DIMENSION: Final = 1280
SIDE: Final = 224
_NETWORK: Final = {"name": "lite0-features", "size": SIDE}
# Stretched to a square: a crop would hide what the generator does at the borders.
_PREPROCESSING: Final = Preprocessing(SIDE, Fit.STRETCH, Channels.GRAY, MEAN, DEVIATION)


def features_digest() -> str:
    """SHA-256 of the weights, the network and the preprocessing; metrics compare only where it is equal."""
    return hashlib.sha256(f"{SHA256} {_NETWORK} {_PREPROCESSING}".encode()).hexdigest()


def features_of(
    images: NDArray[np.uint8], progress: Progress, cancellation: Cancellation
) -> NDArray[np.float32]:
    """Compute features of grayscale images.

    Parameters
    ----------
    images
        ``(n, s, s)``.
    progress, cancellation
        Progress and cancellation.

    Returns
    -------
    array
        ``(n, 1280)``, each row of unit length.

    Raises
    ------
    EnvironmentFailure
        If the package with the weights is not installed.
    """
    import numpy as np

    session = _session()
    found = np.empty((len(images), DIMENSION), np.float32)
    for start in range(0, len(images), BATCH):
        cancellation.check()
        part = [to_image_array(image) for image in images[start : start + BATCH]]
        found[start : start + len(part)] = embed(session, part, _PREPROCESSING, DIMENSION)
        progress.advance(len(part))
    return found


@lru_cache(maxsize=1)
def _session() -> Any:
    from medsanitize.verifiers.reid.models.networks.build import build_network
    from medsanitize.verifiers.reid.models.onnx_export import to_onnx

    network = build_network(_NETWORK).eval()
    network.load_state_dict(packaged_weights(Modality.SLIDE))
    return open_session(to_onnx(network, SIDE), 1)
