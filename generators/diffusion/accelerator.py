"""The devices that a training runs on: accelerate, with one process for each GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.training.dataset import Cancellation, TrainingProgress
from torch import nn

# The first process reads the images while the others wait.
_PATIENCE = timedelta(hours=24)
# Steps between two looks of several processes at each other's signals.
_LOOKS = 10

Item = TypeVar("Item")


class Silent:
    """Hears of a process that is not the first: the first one speaks for all."""

    def stage(self, name: str, total: int | None) -> None:
        """Nothing."""

    def advance(self, objects: int) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class AcceleratorHandle:
    """Where this process computes, and its place among the others."""

    accelerator: Accelerator

    @property
    def device(self) -> torch.device:
        """Of this process."""
        return torch.device(self.accelerator.device)

    @property
    def first(self) -> bool:
        """Whether this process writes files and speaks."""
        return bool(self.accelerator.is_main_process)

    def share(self, batch: Sequence[int]) -> slice:
        """The part of a batch that this process computes."""
        rank, count = self.accelerator.process_index, self.accelerator.num_processes
        if count > len(batch):
            raise UsageError("There are more devices than images in a step", "Start fewer processes")
        return slice(rank, None, count)

    def placed(self, module: nn.Module) -> nn.Module:
        """A module on this process's device; layouts that convolutions like."""
        return module.to(device=self.device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def joined(self, module: nn.Module) -> nn.Module:
        """A placed module whose gradients are averaged over all processes."""
        joined: nn.Module = self.accelerator.prepare_model(module)
        return joined

    def stopping(self, stops: Cancellation, step: int) -> bool:
        """Whether any process was asked to stop; all of them hear it at the same step."""
        if self.accelerator.num_processes == 1:
            return bool(stops.number)
        if step % _LOOKS:
            return False
        asked = torch.tensor([stops.number], device=self.device)
        return bool(self.accelerator.reduce(asked, "sum").item())

    def mean(self, values: Mapping[str, float]) -> dict[str, float]:
        """Each number's mean over all processes, so that all of them know of one that is none."""
        if self.accelerator.num_processes == 1:
            return dict(values)
        own = torch.tensor(list(values.values()), device=self.device, dtype=torch.float32)
        shared: torch.Tensor = self.accelerator.reduce(own, "mean")
        return dict(zip(values, shared.tolist(), strict=True))

    def wait(self) -> None:
        """Until all processes are here."""
        self.accelerator.wait_for_everyone()

    def hears(self, hears: TrainingProgress) -> TrainingProgress:
        """Who hears of this process."""
        return hears if self.first else Silent()


def open_accelerator(precision: str) -> AcceleratorHandle:
    """All devices that this process and its siblings were started with; without a GPU, float32."""
    on_gpu = torch.cuda.is_available()
    options: dict[str, Any] = {
        "mixed_precision": precision if on_gpu else "no",
        "kwargs_handlers": [InitProcessGroupKwargs(timeout=_PATIENCE)],
    }
    return AcceleratorHandle(Accelerator(cpu=not on_gpu, **options))
