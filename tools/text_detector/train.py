"""Train the network that finds burned-in text, and write it as ONNX.

    python -m medsanitize.tools.text_detector.train GROUNDS OUT.onnx [--steps 6000] [--fonts /usr/share/fonts]

GROUNDS is what `prepare` wrote. The network sees local contrast only and predicts, for cells of 4 x 4 pixels,
whether they contain text; it is trained on random letters of every script that the installed fonts have.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from medsanitize.sanitize.burned_in.local_contrast import RADII, local_contrast
from medsanitize.tools.text_detector.fonts import Font, installed_fonts
from medsanitize.tools.text_detector.grounds import Ground, load_images, with_hard_places
from medsanitize.tools.text_detector.samples import CELL, samples
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F

# Maps at 1/2, 1/4 and 1/8 of the resolution; dilations of the layers at 1/8.
_WIDTHS = (16, 32, 64)
_DILATIONS = (1, 2, 4, 1)
# Samples in a batch, how many of them are new, and how many older ones are kept for the rest.
_BATCH, _NEW, _KEPT = 32, 12, 6000
OPSET, IR_VERSION = 17, 8


class TextNetwork(nn.Module):
    """Convolutions at 1/2, 1/4 and 1/8 of the resolution, joined at 1/4: logits of cells."""

    def __init__(self) -> None:
        super().__init__()
        half, quarter, eighth = _WIDTHS
        self.first = nn.Conv2d(len(RADII), half, 5, 2, 2)
        self.second = nn.Conv2d(half, quarter, 3, 2, 1)
        self.third = nn.Conv2d(quarter, eighth, 3, 2, 1)
        self.wide = nn.ModuleList(nn.Conv2d(eighth, eighth, 3, 1, one, one) for one in _DILATIONS)
        self.narrow = nn.Conv2d(eighth, quarter, 1)
        self.joined = nn.Conv2d(quarter, quarter, 3, 1, 1)
        self.last = nn.Conv2d(quarter, 1, 1)

    def forward(self, planes: torch.Tensor) -> torch.Tensor:
        """Return the logit of each cell for planes of shape ``(n, 2, rows, columns)``."""
        fine = F.relu(self.second(F.relu(self.first(planes))))
        coarse = F.relu(self.third(fine))
        for layer in self.wide:
            coarse = coarse + F.relu(layer(coarse))
        up = F.interpolate(F.relu(self.narrow(coarse)), scale_factor=2, mode="nearest")
        logits: torch.Tensor = self.last(F.relu(self.joined(up + fine)))
        return logits


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, write; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("grounds", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fonts", type=Path, default=Path("/usr/share/fonts"))
    parser.add_argument("--rate", type=float, default=3e-3, help="largest learning rate")
    parser.add_argument("--start", type=Path, help="weights (.pt) of an earlier training to continue")
    given = parser.parse_args(arguments)
    torch.manual_seed(given.seed)
    network = TextNetwork()
    if given.start:
        network.load_state_dict(torch.load(given.start, weights_only=True))
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(network.parameters(), lr=given.rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, given.rate, given.steps, pct_start=0.1)
    images = load_images(given.grounds)
    if given.start:
        images = [with_hard_places(one, _chances(network, one), CELL) for one in images]
        print(sum(bool(one.hard) for one in images), "of", len(images), "grounds are taken for text")
    data = _Batches(images, installed_fonts(given.fonts, held_out=False), given.seed)
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=1, prefetch_factor=4)
    start, total = time.monotonic(), 0.0
    for step, (planes, text, weight) in zip(range(given.steps), loader, strict=False):
        with torch.autocast("cpu", torch.bfloat16):
            logits = network(planes.contiguous(memory_format=torch.channels_last))
        loss = _loss(logits.float()[:, 0], text, weight)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        total += loss.item()
        if step % 100 == 99:
            print(f"{step + 1:6} {total / 100:.4f} {time.monotonic() - start:6.0f} s", flush=True)
            total = 0.0
        if step % 1000 == 999 or step + 1 == given.steps:
            torch.save(network.state_dict(), given.out.with_suffix(".pt"))
            given.out.write_bytes(to_onnx(network))
    return 0


@torch.no_grad()
def _chances(network: TextNetwork, image: Ground) -> NDArray[np.float32]:
    """Text map of a ground at its own resolution."""
    below, right = (-side % 8 for side in image.values.shape)
    planes = np.pad(local_contrast(image.values), ((0, 0), (0, below), (0, right)), "edge")
    found: NDArray[np.float32] = torch.sigmoid(network(torch.from_numpy(planes)[None]))[0, 0].numpy()
    return found


class _Batches(torch.utils.data.IterableDataset[tuple[torch.Tensor, ...]]):
    """Batches of new samples and of older ones, since drawing costs more than a step of training."""

    def __init__(self, images: list[Ground], fonts: list[Font], seed: int) -> None:
        self._images, self._fonts, self._seed = images, fonts, seed

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        torch.set_num_threads(1)
        rng = np.random.default_rng([self._seed, 1])
        drawn = samples([self._seed, 0], self._images, self._fonts)
        kept: list[tuple[NDArray[Any], ...]] = []
        while True:
            new: list[tuple[NDArray[Any], ...]] = []
            for _ in range(_NEW if len(kept) >= _BATCH else _BATCH):
                sample = next(drawn)
                planes = local_contrast(sample.values).astype(np.float16)
                new.append((planes, sample.text, sample.weight))
            old = [kept[int(at)] for at in rng.integers(len(kept), size=_BATCH - len(new))] if kept else []
            for one in new:
                if len(kept) < _KEPT:
                    kept.append(one)
                else:
                    kept[int(rng.integers(_KEPT))] = one
            yield tuple(
                torch.from_numpy(np.stack(part).astype(np.float32)) for part in zip(*(new + old), strict=True)
            )


def _loss(logits: torch.Tensor, text: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Cross entropy of the judged cells, and one minus their overlap (Dice)."""
    entropy = F.binary_cross_entropy_with_logits(logits, text, reduction="none")
    # Few cells hold text, and a missed one is the worse error.
    balance = weight * (1 + text)
    chance = torch.sigmoid(logits) * weight
    overlap = (2 * (chance * text).sum() + 1) / (chance.sum() + (text * weight).sum() + 1)
    return (entropy * balance).sum() / balance.sum().clamp(min=1) * 4 + (1 - overlap)


def to_onnx(network: TextNetwork) -> bytes:
    """Write the network: ``planes (n, 2, rows, columns)`` to ``text (n, 1, rows / 4, columns / 4)``."""
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def convolved(maps: str, layer: Any, *, relu: bool = True) -> str:
        names = [f"weight{len(constants)}", f"bias{len(constants)}"]
        for name, value in zip(names, (layer.weight, layer.bias), strict=True):
            constants.append(numpy_helper.from_array(value.detach().contiguous().numpy(), name))
        pads = [*layer.padding, *layer.padding]
        shape = {"kernel_shape": layer.kernel_size, "strides": layer.stride, "dilations": layer.dilation}
        result = add("Conv", maps, *names, pads=pads, **shape)
        return add("Relu", result) if relu else result

    fine = convolved(convolved("planes", network.first), network.second)
    coarse = convolved(fine, network.third)
    for layer in network.wide:
        coarse = add("Add", coarse, convolved(coarse, layer))
    constants.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"))
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    up = add("Resize", convolved(coarse, network.narrow), "", "scales", **modes)
    joined = convolved(add("Add", up, fine), network.joined)
    text = add("Sigmoid", convolved(joined, network.last, relu=False))
    graph = helper.make_graph(
        nodes,
        "burned-in text",
        [helper.make_tensor_value_info("planes", TensorProto.FLOAT, ["n", len(RADII), "rows", "columns"])],
        [helper.make_tensor_value_info(text, TensorProto.FLOAT, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    data: bytes = model.SerializeToString()
    return data


if __name__ == "__main__":
    sys.exit(main())
