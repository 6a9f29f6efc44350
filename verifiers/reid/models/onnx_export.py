"""Fast export of torch networks to ONNX.

torch's own exporter takes about eight seconds per network, which every process that uses the packaged model
would have to wait for. The networks here consist of a dozen operations; they are traced symbolically, and
each operation is written as its ONNX operator. An operation that is not listed is an error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from medsanitize.verifiers.reid.models.networks.layers import GridPool, SamePad
from medsanitize.verifiers.reid.models.networks.match import Cohort
from medsanitize.verifiers.reid.models.networks.moments import RandomProjection, RegionMoments
from onnx import TensorProto, helper, numpy_helper
from torch import fx, nn
from torch.nn import functional as F

OPSET = 17
# Of onnx releases of 2022, which every later runtime reads.
IR_VERSION = 8


class _Tracer(fx.Tracer):
    """Tracer that stops at layers with an operator of their own."""

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return isinstance(
            module, GridPool | SamePad | RegionMoments | RandomProjection | Cohort
        ) or super().is_leaf_module(module, name)


class _Writer:
    """Nodes and constants of the graph."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        """Add a constant and return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name


def to_onnx(network: nn.Module, size: int) -> bytes:
    """Export a network in evaluation mode: ``images (n, 3, size, size)`` to ``vectors (n, d)``.

    Parameters
    ----------
    network : nn.Module
        Network in evaluation mode.
    size : int
        Input size, pixels.

    Raises
    ------
    NotImplementedError
        If an operation of the network is not listed here.
    """
    with torch.no_grad():
        length = int(network(torch.zeros(1, 3, size, size)).shape[1])
    writer, names = _Writer(), dict[fx.Node, str]()
    result = ""
    for node in _Tracer().trace(network).nodes:
        if node.op == "placeholder":
            names[node] = "images"
        elif node.op == "get_attr":
            names[node] = writer.constant(_attribute(network, str(node.target)))
        elif node.op == "output":
            result = names[node.args[0]]
        else:
            names[node] = _write(node, network, writer, names)
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, size, size])
    vectors = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["n", length])
    # Gives the output its name, whichever node computed it.
    writer.nodes.append(helper.make_node("Identity", [result], ["vectors"]))
    graph = helper.make_graph(writer.nodes, "network", [images], [vectors], writer.constants)
    model = helper.make_model(
        graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)], producer_name=""
    )
    onnx.checker.check_model(model)
    # The digest of the model covers these bytes.
    return bytes(model.SerializeToString(deterministic=True))


def _attribute(network: nn.Module, target: str) -> Any:
    value: Any = network
    for part in target.split("."):
        value = getattr(value, part)
    return value.detach().numpy()


def _write(node: fx.Node, network: nn.Module, writer: _Writer, names: dict[fx.Node, str]) -> str:
    def given(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return names[value]
        return [given(one) for one in value] if isinstance(value, list | tuple) else value

    arguments = [given(one) for one in node.args]
    keywords = {name: given(value) for name, value in node.kwargs.items() if value is not None}
    if node.op == "call_module":
        module = network.get_submodule(str(node.target))
        for kind, layer in _LAYERS:
            if isinstance(module, kind):
                return layer(writer, module, *arguments)
        raise NotImplementedError(f"No ONNX operator is listed for the layer {type(module).__name__}")
    function = _FUNCTIONS.get(node.target)
    if function is None:
        raise NotImplementedError(f"No ONNX operator is listed for {node.target}")
    return function(writer, *arguments, **keywords)


def _convolution(writer: _Writer, layer: nn.Conv2d, maps: str) -> str:
    rows, columns = (int(side) for side in layer.padding)
    inputs = [maps, writer.constant(layer.weight.detach().numpy())]
    if layer.bias is not None:
        inputs.append(writer.constant(layer.bias.detach().numpy()))
    return writer.node(
        "Conv", *inputs, group=layer.groups, strides=layer.stride, dilations=layer.dilation,
        kernel_shape=layer.kernel_size, pads=[rows, columns, rows, columns],
    )  # fmt: skip


def _normalization(writer: _Writer, layer: nn.BatchNorm1d | nn.BatchNorm2d, maps: str) -> str:
    values = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    names = [writer.constant(value.detach().numpy()) for value in values if value is not None]
    return writer.node("BatchNormalization", maps, *names, epsilon=layer.eps)


def _linear(writer: _Writer, layer: nn.Linear, vectors: str) -> str:
    product = writer.node("MatMul", vectors, writer.constant(layer.weight.detach().numpy().T))
    if layer.bias is None:
        return product
    return writer.node("Add", product, writer.constant(layer.bias.detach().numpy()))


def _largest(writer: _Writer, layer: nn.MaxPool2d, maps: str) -> str:
    def pair(value: Any) -> list[int]:
        return [int(value)] * 2 if isinstance(value, int) else [int(one) for one in value]

    return writer.node(
        "MaxPool", maps, kernel_shape=pair(layer.kernel_size), strides=pair(layer.stride),
        pads=pair(layer.padding) * 2,
    )  # fmt: skip


def _average(writer: _Writer, layer: nn.AvgPool2d, maps: str) -> str:
    side = int(layer.kernel_size)  # type: ignore[arg-type]
    return writer.node("AveragePool", maps, kernel_shape=[side] * 2, strides=[int(layer.stride)] * 2)  # type: ignore[arg-type]


def _padding(writer: _Writer, layer: SamePad, maps: str) -> str:
    left, right, top, bottom = layer.padding
    # ONNX lists the pads before all axes, then those after.
    pads = np.array([0, 0, top, left, 0, 0, bottom, right], np.int64)
    return writer.node("Pad", maps, writer.constant(pads))


def _grid(writer: _Writer, layer: GridPool, maps: str) -> str:
    """Pool rows, then columns; bins may differ by one in width, as in adaptive pooling."""
    for axis in (2, 3):
        cells = []
        for start, end in layer.bins():
            edges = [writer.constant(np.array([edge], np.int64)) for edge in (start, end, axis)]
            kind = "ReduceMax" if layer.largest else "ReduceMean"
            cells.append(writer.node(kind, writer.node("Slice", maps, *edges), axes=[axis], keepdims=1))
        maps = writer.node("Concat", *cells, axis=axis)
    return maps


def _moments(writer: _Writer, layer: RegionMoments, cells: str) -> str:
    """Flatten the cells of each map; in a shape, 0 keeps a dimension and -1 takes the rest."""
    regions, places = layer.weights.shape
    channels = writer.node("Slice", writer.node("Shape", cells), *_numbers(writer, 1, 2, 0))
    shape = writer.node("Concat", *_numbers(writer, -1, 1), channels, *_numbers(writer, places), axis=0)
    flat = writer.node("Reshape", cells, shape)
    weighted = writer.node("Mul", flat, writer.constant(layer.weights[None, :, None].numpy()))
    products = writer.node("MatMul", weighted, writer.node("Transpose", flat, perm=[0, 1, 3, 2]))
    end = writer.node("Concat", *_numbers(writer, 0, regions, -1), axis=0)
    return writer.node("Reshape", products, end)


def _scramble(writer: _Writer, layer: RandomProjection, vectors: str) -> str:
    pads = np.array([0, 0, 0, len(layer.signs) - layer.length], np.int64)
    padded = writer.node("Pad", vectors, writer.constant(pads))
    signed = writer.node("Mul", padded, writer.constant(layer.signs.numpy()))
    shape = writer.constant(np.array([-1, layer.rows, layer.columns], np.int64))
    mixed = writer.node("MatMul", writer.constant(layer.left.numpy()), writer.node("Reshape", signed, shape))
    mixed = writer.node("MatMul", mixed, writer.constant(layer.right.numpy()))
    row = writer.node("Flatten", mixed, axis=1)
    return writer.node("Gather", row, writer.constant(layer.kept.numpy()), axis=1)


def _cohort(writer: _Writer, layer: Cohort, cells: str) -> str:
    _, channels, places = layer.cells.shape
    shape = writer.constant(np.array([-1, 1, channels, places], np.int64))
    flat = writer.node("Transpose", writer.node("Reshape", cells, shape), perm=[0, 1, 3, 2])
    products = writer.node("MatMul", flat, writer.constant(layer.cells.numpy()))
    likeness = writer.node("Add", products, writer.constant(layer.outside.numpy()))
    sides = [
        writer.node(
            "ReduceMean", writer.node("ReduceMax", likeness, axes=[axis], keepdims=0), axes=[2], keepdims=0
        )
        for axis in (3, 2)
    ]
    found = writer.node("Mul", writer.node("Add", *sides), writer.constant(np.float32(0.5)))
    mean = writer.node("ReduceMean", found, axes=[1], keepdims=1)
    apart = writer.node("Sub", found, mean)
    spread = writer.node("ReduceMean", writer.node("Mul", apart, apart), axes=[1], keepdims=1)
    return writer.node("Concat", mean, writer.node("Sqrt", spread), axis=1)


def _numbers(writer: _Writer, *numbers: int) -> list[str]:
    return [writer.constant(np.array([number], np.int64)) for number in numbers]


def _binary(kind: str) -> Callable[..., str]:
    def write(writer: _Writer, one: Any, other: Any) -> str:
        names = [
            name if isinstance(name, str) else writer.constant(np.float32(name)) for name in (one, other)
        ]
        return writer.node(kind, *names)

    return write


def _unary(kind: str) -> Callable[..., str]:
    return lambda writer, value: writer.node(kind, value)


def _mean(writer: _Writer, value: str, dim: Any, keepdim: bool = False) -> str:
    axes = [dim] if isinstance(dim, int) else list(dim)
    return writer.node("ReduceMean", value, axes=axes, keepdims=int(keepdim))


def _flatten(writer: _Writer, value: str, start_dim: int) -> str:
    return writer.node("Flatten", value, axis=start_dim)


def _normalize(writer: _Writer, value: str, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> str:
    if p != 2.0:
        raise NotImplementedError("Only the Euclidean norm is listed")
    length = writer.node("ReduceL2", value, axes=[dim], keepdims=1)
    # As in torch, eps is a lower limit of the length and not added to it.
    return writer.node("Div", value, writer.node("Max", length, writer.constant(np.float32(eps))))


def _cat(writer: _Writer, values: list[str], dim: int = 0) -> str:
    return writer.node("Concat", *values, axis=dim)


def _flip(writer: _Writer, value: str, dims: Any) -> str:
    axes = [dims] if isinstance(dims, int) else list(dims)
    # ONNX has no flip: a slice with step -1, whose end must lie before the first element.
    edges = [np.full(len(axes), edge, np.int64) for edge in (-1, np.iinfo(np.int64).min)]
    steps = np.full(len(axes), -1, np.int64)
    names = [writer.constant(one) for one in (*edges, np.array(axes, np.int64), steps)]
    return writer.node("Slice", value, *names)


def _relu6(writer: _Writer, _layer: nn.ReLU6, value: str) -> str:
    return writer.node("Clip", value, writer.constant(np.float32(0)), writer.constant(np.float32(6)))


_LAYERS: tuple[tuple[type[nn.Module], Callable[..., str]], ...] = (
    (nn.Conv2d, _convolution),
    (nn.BatchNorm1d, _normalization),
    (nn.BatchNorm2d, _normalization),
    (nn.Linear, _linear),
    (nn.AvgPool2d, _average),
    (nn.MaxPool2d, _largest),
    (nn.ReLU6, _relu6),
    (nn.ReLU, lambda writer, _layer, value: writer.node("Relu", value)),
    (nn.Identity, lambda _writer, _layer, value: value),
    (nn.Dropout, lambda _writer, _layer, value: value),
    (nn.Flatten, lambda writer, layer, value: _flatten(writer, value, layer.start_dim)),
    (SamePad, _padding),
    (GridPool, _grid),
    (RegionMoments, _moments),
    (RandomProjection, _scramble),
    (Cohort, _cohort),
)
_FUNCTIONS: dict[Any, Callable[..., str]] = {
    operator.add: _binary("Add"),
    operator.sub: _binary("Sub"),
    operator.mul: _binary("Mul"),
    operator.truediv: _binary("Div"),
    operator.matmul: _binary("MatMul"),
    torch.cat: _cat,
    torch.flip: _flip,
    torch.sigmoid: _unary("Sigmoid"),
    torch.abs: _unary("Abs"),
    F.relu: _unary("Relu"),
    F.normalize: _normalize,
    "matmul": _binary("MatMul"),
    "flatten": _flatten,
    "mean": _mean,
    "flip": _flip,
}
