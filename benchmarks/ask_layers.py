"""The part of benchmarks/ask.py on whole networks: what their layers cost under two-party computation.

A layer of activations that nobody knows is measured in three parts: products with a secret matrix (a 1 x 1
convolution), products of numbers one by one (a depthwise convolution has no matrix), and ReLU6 (two
comparisons and two choices). Of EfficientNet-Lite0, which computes the packaged features, all of them are
counted, so that its cost follows. What else a network needs is left out, so that it takes longer.
"""

from __future__ import annotations

import resource
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from common import table
from medsanitize.federation.near.process import Spu, open_spu
from medsanitize.verifiers.reid.models.networks.lite import GROUPS, POOLED, STEM

# A middle layer of Lite0 at 128 pixels: 64 places, 240 to 80 channels.
PLACES, INNER, OUTER = 64, 240, 80
NUMBERS: Final = 1 << 16
# The packaged features read 384 pixels.
SIZES: Final = (64, 128, 224, 384)
LINE: Final = 1e9 / 8


@dataclass(frozen=True)
class Work:
    """Multiplications of matrices and one by one, and activations, of one image."""

    matrix: int
    single: int
    relu: int


def work_of(size: int) -> Work:
    """Count what EfficientNet-Lite0 does with an image of this size."""
    side = -(-size // 2)
    matrix, single, relu, inputs = side * side * 27 * STEM, 0, side * side * STEM, STEM
    for repeats, kernel, stride, expansion, outputs in GROUPS:
        for place in range(repeats):
            inner = inputs * expansion
            if expansion > 1:
                matrix, relu = matrix + side * side * inputs * inner, relu + side * side * inner
            side = -(-side // (stride if place == 0 else 1))
            single, relu = single + side * side * inner * kernel * kernel, relu + side * side * inner
            matrix += side * side * inner * outputs
            inputs = outputs
    return Work(matrix + side * side * inputs * POOLED, single, relu + side * side * POOLED)


def layer_costs(library: Path) -> str:
    """Measure the parts of a layer, and return what networks would cost as tables."""
    shared, weight = f"tensor<{PLACES}x{INNER}xf32>", f"tensor<{INNER}x{OUTER}xf32>"
    mapped, flat = f"tensor<{PLACES}x{OUTER}xf32>", f"tensor<{NUMBERS}xf32>"
    product = (
        f"%r = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : ({shared}, {weight}) -> {mapped}"
    )
    single = f"%r = stablehlo.multiply %s, %w : {flat}"
    relu = (
        f"%zero = stablehlo.constant dense<0.0> : {flat}\n%six = stablehlo.constant dense<6.0> : {flat}\n"
        f"%a = stablehlo.maximum %s, %zero : {flat}\n%r = stablehlo.minimum %a, %six : {flat}"
    )
    parts = {
        "products of a matrix": (product, (PLACES, INNER), (INNER, OUTER), mapped, PLACES * INNER * OUTER),
        "products one by one": (single, (NUMBERS,), (NUMBERS,), flat, NUMBERS),
        "ReLU6": (relu, (NUMBERS,), (NUMBERS,), flat, NUMBERS),
    }
    rows, rates = list[list[object]](), list[tuple[float, float, float]]()
    for name, (line, left, right, result, count) in parts.items():
        seconds, cpu, carried = (_net(library, line, left, right, result, place) for place in range(3))
        rates.append((count / seconds, count / cpu, carried / count))
        rows.append([name, f"{count:,}", f"{seconds:.1f}", f"{cpu:.1f}", f"{carried / 1e6:.1f}",
                     f"{count / seconds:,.0f}", f"{carried / count:.1f}"])  # fmt: skip
    head = ["part", "number", "seconds", "CPU s", "MB", "a second", "bytes each"]
    told, networks = table(head, rows), list[list[object]]()
    for size in SIZES:
        work = work_of(size)
        counts = (work.matrix, work.single, work.relu)
        seconds, cpu = (
            sum(n / rate[place] for n, rate in zip(counts, rates, strict=True)) for place in (0, 1)
        )
        carried = sum(n * rate[2] for n, rate in zip(counts, rates, strict=True))
        networks.append([f"{size} px", *(f"{one / 1e6:.1f}" for one in counts), f"{seconds / 60:.0f}",
                         f"{cpu / 60:.0f}", f"{carried / 1e9:.1f}", f"{carried / LINE:.0f}"])  # fmt: skip
    head = ["Lite0 at", "M products of matrices", "M one by one", "M ReLU6", "minutes", "CPU minutes", "GB"]
    return f"{told}\n\n{table([*head, 's on a line of 1 Gbit/s'], networks)}"


_MEASURED: dict[str, tuple[float, float, float]] = {}


def _net(
    library: Path, line: str, left: tuple[int, ...], right: tuple[int, ...], result: str, place: int
) -> float:
    """Seconds, CPU seconds or bytes of a part, less those of a computation that only shares its inputs."""
    if line not in _MEASURED:
        kind = f"tensor<{'x'.join(map(str, left))}xf32>"
        whole = _run(library, _program(line, left, right, result), left, right)
        least = _run(library, _program("", left, right, kind), left, right)
        seconds, cpu, carried = (max(one - two, 1e-9) for one, two in zip(whole, least, strict=True))
        _MEASURED[line] = seconds, cpu, carried
    return _MEASURED[line][place]


def _program(line: str, left: tuple[int, ...], right: tuple[int, ...], result: str) -> str:
    """A program on the sum of two secrets, one of each party, so that nobody knows the activations."""
    kind, other = (f"tensor<{'x'.join(map(str, one))}xf32>" for one in (left, right))
    returned = "%r" if line else "%s"
    return (
        f"func.func @main(%a0: {kind}, %b0: {kind}, %w: {other}, %zero0: tensor<f32>) -> ({result}) {{\n"
        f"%s = stablehlo.add %a0, %b0 : {kind}\n{line}\nreturn {returned} : {result}\n}}\n"
    )


def _run(
    library: Path, program: str, left: tuple[int, ...], right: tuple[int, ...]
) -> tuple[float, float, float]:
    """Run a program at both parties; seconds, CPU seconds and bytes."""
    draw = np.random.default_rng(0)
    inputs = [("a", left, 0), ("b", left, 1), ("w", right, 1)]
    facts = {"session": "0" * 32, "fraction": 24, "program": program, "inputs": inputs}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as both:
        sockets = [f"{folder}/{name}" for name in ("asking", "answering")]
        with open_spu(library) as asking, open_spu(library) as answering:
            spent = (resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter())
            written = sum(_written(one) for one in (asking, answering))

            def step(spu: Spu, rank: int) -> None:
                own = [
                    draw.normal(size=shape).astype("<f4").tobytes() for _, shape, who in inputs if who == rank
                ]
                told = {**facts, "rank": rank, "own": sockets[rank], "peer": sockets[1 - rank]}
                spu.process.call("classify", told, own, seconds=600, returned=2)

            for done in [both.submit(step, asking, 0), both.submit(step, answering, 1)]:
                done.result()
            seconds = time.perf_counter() - spent[1]
            written = sum(_written(one) for one in (asking, answering)) - written
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - spent[0].ru_utime - spent[0].ru_stime, written


def _written(spu: Spu) -> int:
    """Bytes that the process has written, nearly all to the partner's."""
    lines = Path(f"/proc/{spu.process.child.process.pid}/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])
