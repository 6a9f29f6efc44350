"""The training loop with a stage that learns nothing: what is stored, and when it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from medsanitize.errors import UsageError
from medsanitize.generators.diffusion.accelerator import AcceleratorHandle, open_accelerator
from medsanitize.generators.diffusion.training_loop import Schedule, StageContext, run_stage
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.training.checkpoint import Position, group, read_checkpoint
from numpy.typing import NDArray
from torch import Tensor

pytestmark = pytest.mark.generate

PACE = Schedule(every=3, grids=100, patience=2, seed=0)


class Part:
    """A stage whose held-out loss always decreases, until its weights become invalid or it is stopped."""

    name, number, steps, batch = "part", 0, 30, 1

    def __init__(self, cancellation: Cancellation, breaks: int = -1) -> None:
        self._stops, self._breaks = cancellation, breaks
        self._weights, self._held = torch.zeros(2), 100.0

    def chosen(self, step: int, random: np.random.Generator) -> list[int]:
        assert random
        return [step]

    def step(self, step: int, places: Sequence[int], draw: torch.Generator) -> Mapping[str, Tensor]:
        assert places
        assert draw
        if step == self._breaks:
            self._weights[0] = float("nan")
            self._stops.number = 2
        return {"loss": torch.ones(())}

    def held(self) -> float:
        self._held -= 1
        return self._held

    def keep(self) -> None:
        pass

    def tensors(self) -> dict[str, Tensor]:
        return {"part.weights": self._weights}

    def images(self) -> NDArray[np.uint8]:
        return np.zeros((1, 1, 8, 8), np.uint8)


class Several(AcceleratorHandle):
    """One of several processes; the held-out loss of the others does not decrease."""

    def mean(self, values: Mapping[str, float]) -> dict[str, float]:
        return dict.fromkeys(values, 1.0) if "held" in values else dict(values)


def test_weights_with_nan_never_replace_a_checkpoint(tmp_path: Path) -> None:
    cancellation = Cancellation()
    place = StageContext(tmp_path, "test", open_accelerator("no"), NoProgress(), cancellation)
    with pytest.raises(UsageError, match="the training diverged") as told:
        run_stage(Part(cancellation, breaks=3), Position(), {}, PACE, place)
    stored = read_checkpoint(tmp_path, "test")
    assert stored is not None
    assert stored[0].step == 3
    assert torch.equal(group(stored[1], "part")["weights"], torch.zeros(2))
    assert "last good checkpoint is" in told.value.remedy


def test_all_processes_end_a_stage_by_the_mean_loss(tmp_path: Path) -> None:
    cancellation = Cancellation()
    place = StageContext(
        tmp_path, "test", Several(open_accelerator("no").accelerator), NoProgress(), cancellation
    )
    ended = run_stage(Part(cancellation), Position(), {}, PACE, place)
    assert [(entry["step"], entry["held"]) for entry in ended.log] == [(3, 1.0), (6, 1.0), (9, 1.0)]
