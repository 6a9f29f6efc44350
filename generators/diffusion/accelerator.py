"""Device and process handling of a training with accelerate, one process per GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from medsanitize.errors import UsageError
from medsanitize.progress import Cancellation, NoProgress, Progress
from torch import nn

# The other processes wait at a barrier while the first preprocesses and encodes all images.
_BARRIER_TIMEOUT = timedelta(hours=24)
# Each synchronization of the stop signal costs a reduction over all processes.
_STEPS_PER_STOP_CHECK = 10

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class AcceleratorHandle:
    """Device of this process and its rank among the processes."""

    accelerator: Accelerator

    @property
    def device(self) -> torch.device:
        """Device of this process."""
        return torch.device(self.accelerator.device)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and reports progress."""
        return bool(self.accelerator.is_main_process)

    def share(self, batch: Sequence[int]) -> slice:
        """Return the part of a batch that this process computes.

        Raises
        ------
        UsageError
            If there are more processes than images in the batch.
        """
        rank, count = self.accelerator.process_index, self.accelerator.num_processes
        if count > len(batch):
            # A process without an image would not take part in the gradient reduction and block the others.
            raise UsageError("There are more processes than images in a batch", "Start fewer processes")
        return slice(rank, None, count)

    def placed(self, module: nn.Module) -> nn.Module:
        """Move a module to the device of this process, in channels-last layout for faster convolutions."""
        return module.to(device=self.device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def joined(self, module: nn.Module) -> nn.Module:
        """Wrap a placed module so that gradients are averaged over all processes."""
        joined: nn.Module = self.accelerator.prepare_model(module)
        return joined

    def stopping(self, cancellation: Cancellation, step: int) -> bool:
        """Whether any process was asked to stop. All processes return True at the same step."""
        # A single process needs no agreement and can stop at any step.
        if self.accelerator.num_processes == 1:
            return bool(cancellation.number)
        if step % _STEPS_PER_STOP_CHECK:
            return False
        asked = torch.tensor([cancellation.number], device=self.device)
        return bool(self.accelerator.reduce(asked, "sum").item())

    def mean(self, values: Mapping[str, float]) -> dict[str, float]:
        """Average each value over all processes, so that a NaN of one process is seen by all."""
        if self.accelerator.num_processes == 1:
            return dict(values)
        own = torch.tensor(list(values.values()), device=self.device, dtype=torch.float32)
        shared: torch.Tensor = self.accelerator.reduce(own, "mean")
        return dict(zip(values, shared.tolist(), strict=True))

    def wait(self) -> None:
        """Block until all processes have reached this point."""
        self.accelerator.wait_for_everyone()

    def progress(self, progress: Progress) -> Progress:
        """Return the given progress in the first process, and one that discards everything in the others."""
        return progress if self.first else NoProgress()


def open_accelerator(precision: str) -> AcceleratorHandle:
    """Use the devices that the processes were started with; on a CPU in float32.

    Parameters
    ----------
    precision
        Mixed precision on a GPU: ``no`` or ``bf16``.
    """
    on_gpu = torch.cuda.is_available()
    options: dict[str, Any] = {
        "mixed_precision": precision if on_gpu else "no",
        "kwargs_handlers": [InitProcessGroupKwargs(timeout=_BARRIER_TIMEOUT)],
    }
    return AcceleratorHandle(Accelerator(cpu=not on_gpu, **options))
