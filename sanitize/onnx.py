"""ONNX Runtime sessions on one dedicated thread that flushes denormal numbers to zero.

Arithmetic with denormal numbers is about a hundred times slower and does not change the recognized text.
ONNX Runtime sets the flag for the thread that creates the first session of a process, so every session of the
program is created here. Other threads keep IEEE 754 arithmetic.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_THREAD: Final = ThreadPoolExecutor(1, "networks")


def open_network(graph: str | bytes, options: Any) -> Any:
    """Create an inference session.

    Parameters
    ----------
    graph : str or bytes
        Path or content of an ONNX model.
    options : onnxruntime.SessionOptions
        Changed in place.

    Returns
    -------
    onnxruntime.InferenceSession
    """
    from onnxruntime import (  # type: ignore[import-untyped]
        InferenceSession,
        disable_telemetry_events,
    )

    # In addition to the environment variable that `offline` sets before the import.
    disable_telemetry_events()
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return _THREAD.submit(InferenceSession, graph, options, providers=["CPUExecutionProvider"]).result()


def run_network(session: Any, batch: NDArray[np.float32]) -> NDArray[np.float32]:
    """Run a network with one input and return its first output.

    Parameters
    ----------
    session : onnxruntime.InferenceSession
        Created by `open_network`.
    batch : ndarray of float32
        In the shape that the network requires.

    Returns
    -------
    ndarray of float32
    """
    given = {session.get_inputs()[0].name: batch}
    result: Any = _THREAD.submit(session.run, None, given).result()
    return np.asarray(result[0], np.float32)
