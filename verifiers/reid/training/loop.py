"""Training loop of all networks: phases of epochs of steps, resumable at every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from medsanitize.errors import UsageError
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.training.checkpoint import (
    Position,
    group,
    grouped,
    load_optimizer,
    optimizer_tensors,
    read_checkpoint,
    write_checkpoint,
)
from medsanitize.verifiers.reid.training.lr_schedule import one_cycle
from numpy.typing import NDArray
from torch import Tensor, nn


class Task(Protocol):
    """A training task: network, data and loss."""

    @property
    def network(self) -> nn.Module:
        """Everything that is trained and saved."""

    @property
    def encoder(self) -> nn.Module:
        """The network that computes embeddings; it has a ``backbone``."""

    def batches(self, draw: np.random.Generator) -> list[NDArray[np.intp]]:
        """Draw the batches of an epoch; the first axis counts images or pairs."""

    def loss(self, batch: NDArray[np.intp], draw: torch.Generator) -> Tensor:
        """Compute the loss of one batch."""

    def validate(self) -> tuple[float, dict[str, float]]:
        """Return the measure that selects the epoch, higher is better, and the measures for the log."""

    def memory(self) -> dict[str, Tensor]:
        """Return the state of the loss from earlier batches."""

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore the output of ``memory``."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Epochs with one optimizer.

    Attributes
    ----------
    epochs
        Largest number of epochs.
    head_only
        Whether the backbone is frozen, including its batch normalization.
    cycle
        SGD with one cycle of the learning rate; otherwise Adam with a constant rate.
    rate, decay
        Largest learning rate, and weight decay.
    patience
        Epochs without a better measure after which the phase ends; 0 for no limit.
    """

    epochs: int
    head_only: bool
    cycle: bool
    rate: float
    decay: float = 0.0
    patience: int = 0


@dataclass(frozen=True, slots=True)
class TrainingFolder:
    """Folder of an unfinished training, digest of its inputs, progress and cancellation."""

    folder: Path
    made_by: str
    progress: Progress
    cancellation: Cancellation


def train_network(
    task: Task, phases: tuple[Phase, ...], seed: int, place: TrainingFolder
) -> tuple[Mapping[str, Tensor], tuple[Mapping[str, float], ...]]:
    """Train a network, from its checkpoint if there is one.

    Every random choice is a function of seed and position, so that an interrupted training ends with the same
    weights as an uninterrupted one (on a CPU; a GPU sums in no fixed order).

    Parameters
    ----------
    task : Task
        Network, data and loss.
    phases : tuple of Phase
        The phases in order.
    seed : int
        Seed of all random choices.
    place : TrainingFolder
        Folder of the checkpoint.

    Returns
    -------
    weights : mapping of str to Tensor
        State of the network at the epoch with the best measure.
    log : tuple of mapping
        One entry per epoch.

    Raises
    ------
    UsageError
        If the loss diverges, or the checkpoint is of another training.
    IntegrityError
        If the checkpoint is damaged.
    """
    position, best = Position(), dict[str, Tensor]()
    optimizer: torch.optim.Optimizer | None = None
    stored = read_checkpoint(place.folder, place.made_by)
    if stored is not None:
        position, tensors = stored
        best = group(tensors, "best")
        task.network.load_state_dict(group(tensors, "network"))
        if memory := group(tensors, "memory"):
            task.remember(memory)
        if position.phase < len(phases):
            optimizer = _optimizer(task, phases[position.phase])
            load_optimizer(optimizer, group(tensors, "optimizer"))
    while position.phase < len(phases):
        phase = phases[position.phase]
        optimizer = optimizer or _optimizer(task, phase)
        position = _epoch(task, phase, seed, position, optimizer, best, place)
        position, better = _validate(task, position)
        if better:
            # Copies, as training continues in place.
            best = {name: tensor.detach().cpu().clone() for name, tensor in task.network.state_dict().items()}
        over = position.epoch + 1 >= phase.epochs or 0 < phase.patience <= position.since
        position = position.next_phase() if over else position.next_epoch()
        optimizer = None if over else optimizer
        _save(task, position, optimizer, best, place)
        _report(phases, position, place)
    return best, position.log


def _epoch(
    task: Task,
    phase: Phase,
    seed: int,
    position: Position,
    optimizer: torch.optim.Optimizer,
    best: Mapping[str, Tensor],
    place: TrainingFolder,
) -> Position:
    """Run the remaining steps of an epoch; a signal saves the position and raises."""
    key = (seed, position.phase, position.epoch)
    batches = task.batches(np.random.default_rng(key))
    place.progress.stage(f"epoch {len(position.log) + 1}", sum(len(batch) for batch in batches))
    place.progress.advance(sum(len(batch) for batch in batches[: position.step]))
    device = next(task.network.parameters()).device
    total = torch.tensor(position.loss, dtype=torch.float64, device="cpu")
    for step in range(position.step, len(batches)):
        # Saved before the cancellation is raised, so that no step is lost.
        if place.cancellation.number:
            _save(task, replace(position, step=step, loss=float(total)), optimizer, best, place)
            place.cancellation.check()
        task.network.train()
        if phase.head_only:
            # Otherwise frozen batch normalization would still update its running statistics.
            task.encoder.get_submodule("backbone").eval()
        # Also seeds dropout, which draws from torch's global generator.
        draw = torch.manual_seed(int(np.random.SeedSequence((*key, step)).generate_state(1)[0]))
        if phase.cycle:
            _set_rate(optimizer, position.epoch * len(batches) + step, phase.epochs * len(batches), phase)
        loss = task.loss(batches[step], torch.Generator().manual_seed(draw.initial_seed()))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        # Summed on the device: reading the loss at every step would wait for the GPU.
        total = total.to(device) + loss.detach().double()
        place.progress.advance(len(batches[step]))
    return replace(position, step=len(batches), loss=float(total) / len(batches))


def _validate(task: Task, position: Position) -> tuple[Position, bool]:
    """Validate after an epoch and extend the log."""
    if not np.isfinite(position.loss):
        raise UsageError(
            "The loss is not finite: the training diverged",
            "Start from ImageNet weights, and check for blank images",
        )
    now, measures = task.validate()
    better = position.best is None or now > position.best
    entry = {"phase": position.phase + 1, "epoch": position.epoch + 1, "loss": position.loss, **measures}
    since = 0 if better else position.since + 1
    log = (*position.log, entry)
    return replace(position, best=now if better else position.best, since=since, log=log), better


def _report(phases: tuple[Phase, ...], position: Position, place: TrainingFolder) -> None:
    entry = position.log[-1]
    measures = ", ".join(
        f"{name.replace('_', ' ')} {value:.4f}"
        for name, value in entry.items()
        if name not in ("phase", "epoch")
    )
    most = phases[int(entry["phase"]) - 1].epochs
    place.progress.message(
        f"Phase {entry['phase']} of {len(phases)}, epoch {entry['epoch']} of {most}: {measures}"
    )


def _optimizer(task: Task, phase: Phase) -> torch.optim.Optimizer:
    """The optimizer of a phase for the parameters that it trains."""
    task.encoder.get_submodule("backbone").requires_grad_(not phase.head_only)
    trained = [one for one in task.network.parameters() if one.requires_grad]
    if phase.cycle:
        return torch.optim.SGD(trained, lr=phase.rate, momentum=0.9, weight_decay=phase.decay)
    return torch.optim.Adam(trained, lr=phase.rate, weight_decay=phase.decay)


def _set_rate(optimizer: torch.optim.Optimizer, step: int, steps: int, phase: Phase) -> None:
    rate, momentum = one_cycle(step, steps, phase.rate)
    for parameters in optimizer.param_groups:
        parameters["lr"], parameters["momentum"] = rate, momentum


def _save(
    task: Task,
    position: Position,
    optimizer: torch.optim.Optimizer | None,
    best: Mapping[str, Tensor],
    place: TrainingFolder,
) -> None:
    tensors = grouped(
        network=task.network.state_dict(),
        best=best,
        memory=task.memory(),
        optimizer=optimizer_tensors(optimizer) if optimizer is not None else {},
    )
    write_checkpoint(place.folder, position, tensors, place.made_by)
