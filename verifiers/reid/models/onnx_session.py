"""ONNX Runtime sessions on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.sanitize.onnx import open_network
from medsanitize.verifiers.reid.models.preprocess import Preprocessing, prepare

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray, Modality
    from numpy.typing import NDArray

# Fits the caches of one core. Short batches are filled up, so that an embedding does not depend on the batch.
BATCH = 4


def open_session(graph: bytes, threads: int) -> Any:
    """Open an ONNX Runtime session.

    Parameters
    ----------
    graph : bytes
        ONNX graph.
    threads : int
        Number of threads.

    Raises
    ------
    IntegrityError
        If the bytes are no ONNX graph, or it needs other files or non-standard operators.
    """
    import onnxruntime  # type: ignore[import-untyped]

    _check(graph)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Spinning threads would take the cores of other workers.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    return open_network(graph, options)


def _check(graph: bytes) -> None:
    """Refuse graphs that refer to external files or to custom operators."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load_model_from_string(graph)
        onnx.checker.check_model(model)
    except (DecodeError, onnx.checker.ValidationError):
        raise IntegrityError(
            "The model's network is not a valid ONNX graph", "Fetch or train it again"
        ) from None
    tensors = model.graph.initializer
    # External data could name any file of the machine.
    outside = any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors)
    if outside or model.functions or any(node.domain for node in model.graph.node):
        raise IntegrityError(
            "The model's network uses external files or custom operators", "Fetch or train it again"
        )


def check_modality(pictures: Sequence[ImageArray], modality: Modality) -> None:
    """Check that all images are of the modality of the model.

    Raises
    ------
    UsageError
        If one is not.
    """
    for picture in pictures:
        if picture.modality is not modality:
            raise UsageError(
                f"The model is for {modality} images, but one image is a {picture.modality}",
                f"Use a model for {picture.modality} images",
            )


def embed(
    session: Any, pictures: Sequence[ImageArray], how: Preprocessing, dimension: int
) -> NDArray[np.float32]:
    """Embed images in batches of one size, shape (n, dimension), float32.

    Parameters
    ----------
    session
        ONNX Runtime session of `open_session`.
    pictures : sequence of ImageArray
        The images.
    how : Preprocessing
        Their preprocessing.
    dimension : int
        Length of an embedding.

    Raises
    ------
    IntegrityError
        If an embedding is not finite.
    """
    import numpy as np

    vectors = np.empty((len(pictures), dimension), np.float32)
    batch = np.zeros((BATCH, 3, how.size, how.size), np.float32)
    for start in range(0, len(pictures), BATCH):
        part = pictures[start : start + BATCH]
        for place, picture in enumerate(part):
            batch[place] = prepare(picture, how)
        (result,) = session.run(["vectors"], {"images": batch})
        vectors[start : start + len(part)] = result[: len(part)]
    if not np.isfinite(vectors).all():
        raise IntegrityError(
            "The model returned a vector that is not finite", "Train or fetch the model again"
        )
    return vectors
