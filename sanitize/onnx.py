"""Networks of ONNX Runtime, opened and run on one thread that counts values next to zero as zero.

Such values take a processor a hundred times as long, and what is read is the same without them. ONNX Runtime
lets the first session of a process, and no later one, tell its thread to do so; other threads, where Python
computes, keep their arithmetic. So every session is opened here.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_APART: Final = ThreadPoolExecutor(1, "networks")


def open_network(graph: str | bytes, options: Any) -> Any:
    """Open a network that stands in a file, or in bytes, under ONNX Runtime's session options."""
    from onnxruntime import (  # type: ignore[import-untyped]
        InferenceSession,
        disable_telemetry_events,
    )

    disable_telemetry_events()  # as `offline` has said before its import
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return _APART.submit(InferenceSession, graph, options, providers=["CPUExecutionProvider"]).result()


def run_network(session: Any, batch: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first output of a network of one input, on the thread that computes fast.

    Parameters
    ----------
    session : InferenceSession
        By `open_network`.
    batch : array of float32
        As the network takes it.
    """
    given = {session.get_inputs()[0].name: batch}
    result: Any = _APART.submit(session.run, None, given).result()
    return np.asarray(result[0], np.float32)
