"""Slices: one image of each series is compared, and kinds stay apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.overlap.dataset import Dataset, ImageFile
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, fingerprint_dataset
from medsanitize.verifiers.reid.overlap.fingerprint import ImageFingerprint


def fingerprint_of(kind: Modality, slices: list[tuple[str, str, float]]) -> DatasetFingerprint:
    """The fingerprint of slices, each with patient, series and position; its embedding is its number."""
    images = tuple(ImageFile(Path(f"{n}.png"), f"{n}.png", one[0]) for n, one in enumerate(slices))
    fingerprints = [
        ImageFingerprint(
            digest=bytes([n]),
            modality=kind,
            embedding=np.full(4, n, np.float32),
            series=one[1],
            position=one[2],
        )
        for n, one in enumerate(slices)
    ]
    return fingerprint_dataset(Dataset("A", images), fingerprints)


SLICES = [("p", "s", 3.0), ("p", "s", 1.0), ("p", "s", 2.0), ("p", "t", 0.0), ("q", "s", 0.0)]


def test_the_middle_slice_of_each_series_is_compared() -> None:
    seen = fingerprint_of(Modality.CT_HEAD, SLICES)
    assert seen.vectors[Modality.CT_HEAD].images.tolist() == [2, 3, 4]
    assert seen.vectors[Modality.CT_HEAD].first[:, 0].tolist() == [2, 3, 4]


def test_copies_are_searched_among_all_slices() -> None:
    assert len([one for one in fingerprint_of(Modality.CT_HEAD, SLICES).digests if one]) == 5


def test_every_radiograph_of_a_series_is_compared() -> None:
    seen = fingerprint_of(Modality.RADIOGRAPH, SLICES)
    assert seen.vectors[Modality.RADIOGRAPH].images.tolist() == [0, 1, 2, 3, 4]
