"""Simulated people, a generator, and verification models, all within milliseconds."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from medsanitize.generators.diffusion.preprocess import to_image_array
from medsanitize.generators.privacy_gate import positive_controls
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.labels import read_labels
from medsanitize.verifiers.reid.models.model_folder import CONFIG, GRAPH, TRAINING, WEIGHTS, write_folder
from medsanitize.verifiers.reid.training.training_dataset import gather_images
from numpy.typing import NDArray
from PIL import Image
from pydicom.data import get_testdata_file
from pydicom.uid import generate_uid

SIZE = 32
CR = "1.2.840.10008.5.1.4.1.1.1"
CLASSES = ("clear", "effusion")
Squares = NDArray[np.uint8]


def person(number: Sequence[int], visit: int = 0) -> Squares:
    """A smooth individual pattern, with noise per visit."""
    own = np.random.default_rng(number).integers(0, 256, (6, 6), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(own).resize((SIZE, SIZE), Image.Resampling.BICUBIC), float)
    grain = np.random.default_rng([*number, visit]).normal(0, 4, (SIZE, SIZE))
    return np.asarray(np.clip(smooth + grain, 0, 255), np.uint8)


@dataclass(frozen=True)
class FakeGenerator:
    """Generates people by seed; every ``copied``-th image shows a training patient."""

    copied: int = 0
    digest: str = "f" * 64
    modality: Modality = Modality.RADIOGRAPH
    size: int = SIZE
    classes: tuple[str, ...] = CLASSES
    privacy: Mapping[str, Any] | None = field(default=None, hash=False)

    def sample(self, classes: Sequence[int], seeds: Sequence[int]) -> Squares:
        assert len(classes) == len(seeds)
        return np.stack([self._one(label, seed) for label, seed in zip(classes, seeds, strict=True)])

    def reconstruct(self, images: Squares) -> Squares:
        return np.asarray(images // 2 * 2, np.uint8)

    def vary(self, images: Squares, classes: Sequence[int], strength: float, seeds: Sequence[int]) -> Squares:
        assert len(images) == len(classes)
        assert 0 < strength < 1
        grain = [np.random.default_rng(seed).normal(0, 4, (SIZE, SIZE)) for seed in seeds]
        return np.asarray(np.clip(images + np.stack(grain), 0, 255), np.uint8)

    def _one(self, label: int, seed: int) -> Squares:
        if self.copied and seed % self.copied == 0:
            return person([1, seed % 100])
        return person([9, label, seed])


@dataclass(frozen=True)
class CoarseModel:
    """Embeds an image at 8 x 8 pixels; correlation is the score."""

    digest: str = "c" * 64
    modality: Modality = Modality.RADIOGRAPH
    dimension: int = 64

    def embed(self, pictures: Sequence[ImageArray]) -> NDArray[np.float32]:
        small = [Image.fromarray(one.pixels).resize((8, 8), Image.Resampling.BOX) for one in pictures]
        planes = np.stack([np.asarray(one, np.float32).reshape(-1) for one in small])
        planes -= planes.mean(1, keepdims=True)
        return planes / np.linalg.norm(planes, axis=1, keepdims=True)

    def score(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(1 / (1 + np.exp(-self.raw(one, other))), np.float32)

    def raw(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
        alike = (one.astype(np.float64) * other).sum(1)
        return np.asarray(30 * (alike - 0.8), np.float32)


def simple_controls(patch: pytest.MonkeyPatch) -> None:
    """Leave out the controls that models without training do not recognize; tests of real models use all."""
    kept = ("moved", "blurred", "re-encoded")
    patch.setattr(positive_controls, "ALTERED", {name: positive_controls.ALTERED[name] for name in kept})
    patch.setattr(positive_controls, "JOINED", {})


def coarse_features(images: Squares, *_: object) -> NDArray[np.float32]:
    """Features of a tiny network, for quality metrics."""
    return CoarseModel().embed([to_image_array(one) for one in images])


def write_people(root: Path, calibrating: int) -> list[tuple[str, str, str, str]]:
    """PNG files of three splits below ``root``; returns rows of file, patient, split and label."""
    rows = []
    for part, (name, people, visits) in enumerate(
        (("train", 110, 1), ("holdout", 110, 1), ("calibration", calibrating, 2)), 1
    ):
        folder = root / name
        folder.mkdir(parents=True)
        for number in range(people):
            for visit in range(visits):
                path = folder / f"{number}-{visit}.png"
                Image.fromarray(person([part, number], visit)).save(path)
                rows.append(
                    (path.relative_to(root.parent).as_posix(), f"{name}{number}", name, CLASSES[number % 2])
                )
    return rows


def radiograph(path: Path, patient: int, visit: int) -> None:
    """A CR object of a patient who is in no split."""
    data = pydicom.dcmread(str(get_testdata_file("CT_small.dcm", download=False)))
    pixels = person([7, patient], visit).astype("<u2") * 16
    data.PixelData, data.Rows, data.Columns = pixels.tobytes(), SIZE, SIZE
    data.BitsStored, data.HighBit, data.PixelRepresentation = 12, 11, 0
    for keyword in ("PixelPaddingValue", "SmallestImagePixelValue", "LargestImagePixelValue"):
        data.pop(keyword, None)
    data.PatientID, data.PatientName = f"MRN{patient:07d}", f"QUIXLEY{patient}^A"
    data.Modality, data.SOPClassUID, data.BodyPartExamined = "CR", CR, "CHEST"
    for level in ("Study", "Series", "SOP"):
        keyword = f"{level}InstanceUID"
        setattr(data, keyword, generate_uid(entropy_srcs=[level, str(patient), str(visit)]))
    data.file_meta.MediaStorageSOPClassUID = CR
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path)


def write_export(root: Path) -> list[tuple[str, str, str, str]]:
    """Eight radiographs of four patients, four per label, in no split."""
    rows = []
    for number in range(8):
        path = root / f"i{number}.dcm"
        radiograph(path, number // 2, number % 2)
        rows.append((path.relative_to(root.parent).as_posix(), f"p{number // 2}", "", CLASSES[number % 2]))
    return rows


def write_table(path: Path, rows: Sequence[tuple[str, str, str, str]]) -> None:
    with path.open("w", newline="") as file:
        table: Any = csv.writer(file)
        table.writerow(("file", "patient_id", "split", "label"))
        table.writerows(rows)


def digest_of(table: Path, part: str) -> str:
    """The digest that a training on one split records for its images."""
    labels = read_labels(table, table.parent, split=part).of_kind(Modality.RADIOGRAPH)
    return gather_images(labels, NoProgress(), Cancellation())[0].digest


def write_verifier(folder: Path, images: str = "") -> None:
    """The folder of a model with a training digest; its network is never opened."""
    facts = {"images": images} if images else {}
    content = {CONFIG: b"", WEIGHTS: b"", GRAPH: b"", TRAINING: json.dumps(facts).encode()}
    write_folder(folder, content)
