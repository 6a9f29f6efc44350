"""Training loop of both stages: steps, checkpoints, cancellation, log."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from medsanitize.errors import UsageError
from medsanitize.generators.diffusion.accelerator import AcceleratorHandle
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.training.checkpoint import Position, grouped, write_checkpoint
from numpy.typing import NDArray
from torch import Tensor

DIVERGED = UsageError(
    "The loss is not a number: the training diverged",
    "The last good checkpoint is in the .training folder. Check for blank images; then remove the folder,"
    " and choose another recipe or --prediction",
)


class TrainingStage(Protocol):
    """A stage of the training."""

    name: str
    number: int
    steps: int
    batch: int

    def chosen(self, step: int, random: np.random.Generator) -> list[int]:
        """Select the items of a batch."""

    def step(self, step: int, places: Sequence[int], draw: torch.Generator) -> Mapping[str, Tensor]:
        """Train on one batch and return its losses by name."""

    def held(self) -> float | None:
        """Loss on held-out patients, with the same noise every time; None if none are held out."""

    def keep(self) -> None:
        """Store the current weights as the best."""

    def tensors(self) -> dict[str, Tensor]:
        """State from which the stage can resume."""

    def images(self) -> NDArray[np.uint8]:
        """Contact sheet for review, ``(rows, columns, side, side)``."""


@dataclass(frozen=True, slots=True)
class StageContext:
    """Folder, task digest, devices, progress and cancellation of a training."""

    folder: Path
    made_by: str
    machine: AcceleratorHandle
    progress: Progress
    cancellation: Cancellation


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps between checkpoints, checkpoints between sheets, patience in checkpoints, and seed."""

    every: int
    grids: int
    patience: int
    seed: int


def run_stage(
    stage: TrainingStage, position: Position, sums: dict[str, Tensor], pace: Schedule, place: StageContext
) -> Position:
    """Run a stage from a position to its end.

    All random choices follow from seed and step, so that on a CPU an interrupted training gives the same
    weights as an uninterrupted one; on a GPU the order of sums is not fixed.

    Parameters
    ----------
    stage
        The stage.
    position
        Where to start.
    sums
        Sums of the losses since the last scheduled checkpoint.
    pace
        Intervals and seed.
    place
        Folder, devices, progress and cancellation.

    Returns
    -------
    Position
        The beginning of the next stage.

    Raises
    ------
    UsageError
        If a loss or weight is not finite.
    """
    place.progress.stage(stage.name, stage.steps)
    place.progress.advance(position.step)
    for step in range(position.step, stage.steps):
        if 0 < pace.patience <= position.since:
            break
        if place.machine.stopping(place.cancellation, step):
            _save(stage, replace(position, step=step), sums, place)
            # Another process may have got the signal: this one must stop too.
            place.cancellation.number = place.cancellation.number or signal.SIGTERM
            place.cancellation.check()
        for name, loss in _learn(stage, step, pace.seed).items():
            sums[name] = sums.get(name, torch.zeros((), dtype=torch.float64)) + loss.detach().cpu().double()
        place.progress.advance(1)
        if (step + 1) % pace.every and step + 1 < stage.steps:
            continue
        taken = step % pace.every + 1
        means = place.machine.mean({name: float(value) / taken for name, value in sums.items()})
        held = stage.held()
        if held is not None:
            means |= place.machine.mean({"held": held})
        position = _judged(stage, replace(position, step=step + 1), means)
        sums = {}
        _evaluate_and_log(stage, position, pace, place)
        _save(stage, position, sums, place)
    return replace(position.next_phase(), best=None)


def _learn(stage: TrainingStage, step: int, seed: int) -> Mapping[str, Tensor]:
    """Run one step with random choices that follow from its number."""
    key = np.random.SeedSequence((seed, stage.number, step))
    places = stage.chosen(step, np.random.default_rng(key))
    one, other = (int(word) for word in key.generate_state(2))
    # For dropout, which uses the global PRNG.
    torch.manual_seed(one)
    return stage.step(step, places, torch.Generator().manual_seed(other))


def _judged(stage: TrainingStage, position: Position, means: Mapping[str, float]) -> Position:
    """Log the losses and update the best weights."""
    # Checked before anything is stored: the previous checkpoint stays usable.
    if not all(math.isfinite(value) for value in means.values()):
        raise DIVERGED
    held = means.get("held")
    better = held is not None and (position.best is None or held < position.best)
    if better:
        stage.keep()
    entry = {"part": stage.number + 1, "step": position.step, **means}
    best, since = (held, 0) if better else (position.best, position.since + 1)
    return replace(position, best=best, since=since, log=(*position.log, entry))


def _evaluate_and_log(stage: TrainingStage, position: Position, pace: Schedule, place: StageContext) -> None:
    """Report progress, and write a contact sheet at its interval."""
    entry = position.log[-1]
    losses = ", ".join(f"{name} {entry[name]:.4f}" for name in entry if name not in ("part", "step"))
    place.progress.message(f"{stage.name}, step {position.step:,} of {stage.steps:,}: {losses}")
    last = position.step == stage.steps
    if place.machine.first and (last or (position.step // pace.every) % pace.grids == 0):
        from medsanitize.generators.diffusion.contact_sheet import write_sheet

        # Zero-padded, so that sheets sort by step.
        write_sheet(place.folder / f"{stage.name}-{position.step:07d}.png", stage.images())


def _save(stage: TrainingStage, position: Position, sums: Mapping[str, Tensor], place: StageContext) -> None:
    """Write a checkpoint, unless a value is not finite: it would replace a usable one."""
    tensors = {**stage.tensors(), **grouped(sums=sums)}
    broken = not all(bool(torch.isfinite(one).all()) for one in tensors.values())
    # Averaged, so that all processes raise together instead of waiting for each other.
    if place.machine.mean({"broken": float(broken)})["broken"]:
        raise DIVERGED
    if place.machine.first:
        write_checkpoint(place.folder, position, tensors, place.made_by)
    place.machine.wait()
