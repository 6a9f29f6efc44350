"""Where a training stands, in one file of tensors with a line of JSON; nothing is pickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from medsanitize.errors import IntegrityError, UsageError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, optim

FILE = "checkpoint.safetensors"


@dataclass(frozen=True, slots=True)
class Position:
    """Where a training stands.

    Attributes
    ----------
    phase, epoch, step
        The next step, each from 0.
    loss
        Sum over the steps of this epoch so far.
    best, since
        Best measure so far and epochs of this phase without a better one.
    log
        One entry an epoch.
    """

    phase: int = 0
    epoch: int = 0
    step: int = 0
    loss: float = 0.0
    best: float | None = None
    since: int = 0
    log: tuple[Mapping[str, float], ...] = ()

    def next_epoch(self) -> Position:
        """The beginning of the next epoch of this phase."""
        return replace(self, epoch=self.epoch + 1, step=0, loss=0.0)

    def next_phase(self) -> Position:
        """The beginning of the next phase."""
        return replace(self, phase=self.phase + 1, epoch=0, step=0, loss=0.0, since=0)


def write_checkpoint(folder: Path, position: Position, tensors: Mapping[str, Tensor], made_by: str) -> None:
    """Replace the checkpoint; a reader sees the earlier one or this one, whole."""
    partial = folder / (FILE + ".part")
    facts = json.dumps({"position": asdict(position), "made_by": made_by})
    save_file(
        {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()},
        partial,
        metadata={"state": facts},
    )
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(folder / FILE)


def read_checkpoint(folder: Path, made_by: str) -> tuple[Position, dict[str, Tensor]] | None:
    """Where the training stood, or None where it has not begun.

    Raises
    ------
    UsageError
        If the checkpoint is of other images, another recipe or another start.
    IntegrityError
        If it is damaged.
    """
    if not (folder / FILE).is_file():
        return None
    try:
        with safe_open(folder / FILE, "pt") as file:
            facts: dict[str, Any] = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  no mapping
        position = Position(**{**facts["position"], "log": tuple(facts["position"]["log"])})
    except (SafetensorError, KeyError, TypeError, ValueError):
        raise IntegrityError(
            "The checkpoint of the training is damaged", "Remove the .training folder and start again"
        ) from None
    if facts.get("made_by") != made_by:
        raise UsageError(
            "An unfinished training of other images, weights or another recipe lies beside the output",
            "Finish it with its own command, remove its .training folder, or choose another output",
        )
    return position, tensors


def group(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin with a prefix and a dot, without it."""
    return {
        name.removeprefix(f"{prefix}."): tensor
        for name, tensor in tensors.items()
        if name.startswith(f"{prefix}.")
    }


def grouped(**groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors under their groups' prefixes."""
    return {
        f"{prefix}.{name}": tensor for prefix, tensors in groups.items() for name, tensor in tensors.items()
    }


def optimizer_tensors(optimizer: optim.Optimizer) -> dict[str, Tensor]:
    """State of each parameter by the parameter's number."""
    parameters = optimizer.param_groups[0]["params"]
    return {
        f"{number}.{name}": value
        for number, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer(optimizer: optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Take what ``optimizer_tensors`` gave."""
    parameters = optimizer.param_groups[0]["params"]
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        parameter = parameters[int(number)]
        # Adam counts its steps on the CPU, whatever the parameters are on.
        moved = value if name == "step" else value.to(parameter.device)
        optimizer.state[parameter][name] = moved
