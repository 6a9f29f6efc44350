"""Images embedded per second on one core: torch and ONNX Runtime.

    python benchmarks/embedding.py [--images 96]

Both use one thread; the time is CPU time, which other load on the machine changes little. "prepared" is the
network only, "from pixels" includes scaling of 512 x 512 pixels to the network's size, as in a run. Prints a
Markdown table. Exits 1 if ONNX Runtime embeds fewer than 80 images per second at 224 pixels, or its vectors
differ from torch's by more than a model folder allows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import machine, table
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.models.networks.build import build_network
from medsanitize.verifiers.reid.models.onnx_export import to_onnx
from medsanitize.verifiers.reid.models.onnx_session import BATCH, open_session
from medsanitize.verifiers.reid.models.preprocess import prepare
from medsanitize.verifiers.reid.models.pretrained import default_config, packaged_retrieval, packaged_weights
from medsanitize.verifiers.reid.models.save import TOLERANCE

TARGET = 80.0


def rate(work: Callable[[], Any], images: int) -> float:
    """Images per CPU second; the best of three rounds after a warm-up."""
    work()
    found = []
    for _ in range(3):
        began = time.process_time()
        work()
        found.append(images / (time.process_time() - began))
    return max(found)


def measure(modality: Modality, count: int) -> tuple[list[str], float, float]:
    """One row of the table, ONNX Runtime's rate from pixels, and the largest difference from torch."""
    config = default_config(modality)
    network = build_network(config.network).eval()
    network.load_state_dict(packaged_weights(modality))
    session = open_session(to_onnx(network, config.preprocessing.size), 1)
    model = packaged_retrieval(modality)
    random = np.random.default_rng(0)
    shape = (512, 512) if modality is Modality.RADIOGRAPH else (512, 512, 3)
    pictures = [ImageArray(random.random(shape, np.float32), modality) for _ in range(count)]
    ready = np.stack([prepare(picture, config.preprocessing) for picture in pictures])
    batches = [ready[start : start + BATCH] for start in range(0, count, BATCH)]

    def by_torch() -> Any:
        with torch.inference_mode():
            return np.concatenate([network(torch.from_numpy(batch)).numpy() for batch in batches])

    def by_onnx() -> Any:
        return np.concatenate([session.run(["vectors"], {"images": batch})[0] for batch in batches])

    apart = float(np.abs(by_torch() - by_onnx()).max())
    rates = [rate(work, count) for work in (by_torch, by_onnx, lambda: model.embed(pictures))]
    row = [f"{modality} {config.preprocessing.size}", *(f"{one:.0f}" for one in rates), f"{apart:.1e}"]
    return row, rates[2], apart


def main() -> int:
    """Measure both packaged models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=96)
    count = parser.parse_args().images // BATCH * BATCH
    torch.set_num_threads(1)
    rows, good = [], True
    for modality in Modality:
        row, from_pixels, apart = measure(modality, count)
        rows.append(row)
        good &= apart <= TOLERANCE and (modality is not Modality.SLIDE or from_pixels >= TARGET)
    print(machine())
    heads = [
        "packaged model, px",
        "torch, prepared",
        "ONNX, prepared",
        "ONNX, from pixels",
        "largest difference",
    ]
    print(table(heads, rows))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
