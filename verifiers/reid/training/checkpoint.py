"""Training checkpoint: one safetensors file with JSON metadata; nothing is pickled."""

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
    """Position of a training.

    Attributes
    ----------
    phase, epoch, step
        The next step, each from 0.
    loss
        Sum over the finished steps of this epoch.
    best, since
        Best validation measure, and epochs of this phase since then.
    log
        One entry per epoch.
    """

    phase: int = 0
    epoch: int = 0
    step: int = 0
    loss: float = 0.0
    best: float | None = None
    since: int = 0
    log: tuple[Mapping[str, float], ...] = ()

    def next_epoch(self) -> Position:
        """Return the start of the next epoch of this phase."""
        return replace(self, epoch=self.epoch + 1, step=0, loss=0.0)

    def next_phase(self) -> Position:
        """Return the start of the next phase."""
        return replace(self, phase=self.phase + 1, epoch=0, step=0, loss=0.0, since=0)


def write_checkpoint(folder: Path, position: Position, tensors: Mapping[str, Tensor], made_by: str) -> None:
    """Replace the checkpoint atomically.

    Parameters
    ----------
    folder : Path
        Folder of the unfinished training.
    position : Position
        Position of the training.
    tensors : mapping of str to Tensor
        State by name.
    made_by : str
        Digest of images, recipe and initial weights.
    """
    partial = folder / (FILE + ".part")
    facts = json.dumps({"position": asdict(position), "made_by": made_by})
    save_file(
        # clone: safetensors refuses tensors that share memory.
        {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()},
        partial,
        metadata={"state": facts},
    )
    with partial.open("rb") as file:
        # Before the rename: after a power failure the new name must not refer to an empty file.
        os.fsync(file.fileno())
    partial.replace(folder / FILE)


def read_checkpoint(folder: Path, made_by: str) -> tuple[Position, dict[str, Tensor]] | None:
    """Read position and state of a training; None if there is no checkpoint.

    Parameters
    ----------
    folder : Path
        Folder of the unfinished training.
    made_by : str
        Digest of images, recipe and initial weights.

    Raises
    ------
    UsageError
        If the checkpoint is of other images, another recipe or other initial weights.
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
            "The .training folder next to the output belongs to a training with other images, weights or"
            " recipe",
            "Finish it with its own command, remove its .training folder, or choose another output",
        )
    return position, tensors


def group(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors of a group, without the prefix of its name."""
    return {
        name.removeprefix(f"{prefix}."): tensor
        for name, tensor in tensors.items()
        if name.startswith(f"{prefix}.")
    }


def grouped(**groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return all tensors, each with the name of its group as prefix."""
    return {
        f"{prefix}.{name}": tensor for prefix, tensors in groups.items() for name, tensor in tensors.items()
    }


def optimizer_tensors(optimizer: optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer by number of the parameter and name."""
    parameters = optimizer.param_groups[0]["params"]
    return {
        f"{number}.{name}": value
        for number, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer(optimizer: optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the output of `optimizer_tensors`."""
    parameters = optimizer.param_groups[0]["params"]
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        parameter = parameters[int(number)]
        # Adam counts steps on the CPU, whatever the device of the parameters.
        moved = value if name == "step" else value.to(parameter.device)
        optimizer.state[parameter][name] = moved
