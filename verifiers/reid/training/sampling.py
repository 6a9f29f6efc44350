"""Batches of images and of pairs, as functions of seed and epoch only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def patient_batches(
    patients: NDArray[np.int64], batch: int, together: int, draw: np.random.Generator
) -> list[NDArray[np.intp]]:
    """Draw batches with every image that has a mate once, and images of a patient in sequence.

    The images of a patient are divided into runs of two to ``together`` images. The runs are shuffled and cut
    into batches; a remainder of less than half a batch joins the last one.

    Parameters
    ----------
    patients : array of int64, shape (n,)
        Patient of each image.
    batch : int
        Images per batch.
    together : int
        Largest number of images of one patient in a run.
    draw : np.random.Generator
        Random generator.
    """
    order = np.argsort(patients, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(patients[order])) + 1)
    runs = [
        run
        for group in groups
        if len(group) > 1
        for run in np.array_split(draw.permutation(group), -(-len(group) // together))
    ]
    row = np.concatenate([runs[place] for place in draw.permutation(len(runs))])
    cuts = list(range(batch, len(row), batch))
    if cuts and len(row) - cuts[-1] < batch / 2:
        cuts.pop()
    return np.split(row, cuts)


def genuine_pairs(patients: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return all pairs of images of one patient, shape (n, 2)."""
    order = np.argsort(patients, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(patients[order])) + 1)
    pairs = [np.stack(np.triu_indices(len(group), 1), 1) for group in groups]
    return np.concatenate([group[pair] for group, pair in zip(groups, pairs, strict=True)])


def impostor_pairs(patients: NDArray[np.int64], count: int, draw: np.random.Generator) -> NDArray[np.intp]:
    """Draw random pairs of images of two patients, shape (count, 2)."""
    found = np.empty((0, 2), np.intp)
    # Rejection is cheap, as random pairs are rarely of one patient.
    while len(found) < count:
        pairs = draw.integers(len(patients), size=(count, 2))
        found = np.concatenate([found, pairs[patients[pairs[:, 0]] != patients[pairs[:, 1]]]])
    return found[:count]


def pair_batches(
    patients: NDArray[np.int64], batch: int, draw: np.random.Generator
) -> list[NDArray[np.intp]]:
    """Draw shuffled batches of all genuine pairs and as many new impostor pairs, shape (n, 2) each."""
    genuine = genuine_pairs(patients)
    pairs = np.concatenate([genuine, impostor_pairs(patients, len(genuine), draw)])
    pairs = pairs[draw.permutation(len(pairs))]
    return np.split(pairs, list(range(batch, len(pairs), batch)))
