"""The text reading thread flushes denormal numbers to zero, whichever network a process opens first."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import numpy as np, onnx
from onnx import TensorProto, helper
from medsanitize.sanitize import onnx as networks
from medsanitize.verifiers.reid.models.onnx_session import open_session

ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("in", "out")]
graph = helper.make_graph([helper.make_node("Identity", ["in"], ["out"])], "same", ends[:1], ends[1:])
model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
open_session(model.SerializeToString(), 1)
tiny = np.full(16, 1e-38, np.float32)
print(float(networks._THREAD.submit(lambda: (tiny * np.float32(0.01)).max()).result()))
print(float((tiny * np.float32(0.01)).max()) > 0)
"""


def test_text_recognition_is_fast_after_opening_an_image_model() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.0", "True"]
