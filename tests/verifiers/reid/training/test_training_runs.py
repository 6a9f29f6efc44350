"""Whole trainings, tiny: what they write, reject and resume."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.progress import Cancellation, Cancelled, NoProgress
from medsanitize.verifiers.reid.calibration import Calibration
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels
from medsanitize.verifiers.reid.models.config import ModelKind
from medsanitize.verifiers.reid.models.load import open_retrieval, open_verification, stored_calibration
from medsanitize.verifiers.reid.training.checkpoint import FILE
from medsanitize.verifiers.reid.training.recipes import RETRIEVAL, VERIFICATION, recipe_for
from medsanitize.verifiers.reid.training.train import TrainingResult, train
from medsanitize.verifiers.reid.training.training_dataset import gather_images, split_patients
from PIL import Image

pytestmark = pytest.mark.verify

PATIENTS = [place // 3 for place in range(24)] + [90, 91]


@dataclass(frozen=True)
class Whole:
    kind: ModelKind
    table: Path
    made: TrainingResult
    heard: list[str]

    @property
    def folder(self) -> Path:
        return self.table.parent / "model"


class Listener(NoProgress, Cancellation):
    """Records all progress, and cancels after a number of steps."""

    def __init__(self, steps: int = 10**9) -> None:
        super().__init__()
        self.heard: list[str] = []
        self._left = steps

    def stage(self, name: str, total: int | None) -> None:
        self.heard.append(f"{name} {total}")

    def advance(self, objects: int) -> None:
        assert objects >= 0
        if "epoch" in self.heard[-1]:
            self._left -= 1
            self.number = 2 if self._left <= 0 else 0

    def message(self, text: str) -> None:
        self.heard.append(text)


def write_images(root: Path, patients: list[int]) -> Path:
    """Noise that is similar for a patient, one image per entry, with its table."""
    rows = []
    for place, patient in enumerate(patients):
        own = np.random.default_rng(patient).integers(40, 160, (12, 12))
        noise = np.random.default_rng((patient, place)).integers(0, 60, (12, 12))
        name = f"Smith{place}.png"
        Image.fromarray((own + noise).astype(np.uint8)).resize((48, 40)).save(root / name)
        rows.append((name, f"P{patient}", "train", "radiograph"))
    with (root / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "patient_id", "split", "kind"), *rows])
    return root / "labels.csv"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_images(tmp_path, PATIENTS)


@pytest.fixture(scope="module", params=[ModelKind.RETRIEVAL, ModelKind.VERIFICATION])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """One complete training per kind."""
    table = write_images(tmp_path_factory.mktemp("whole"), PATIENTS)
    listener = Listener()
    made = run(table, request.param, "model", listener)
    return Whole(request.param, table, made, listener.heard)


def run(table: Path, kind: ModelKind, output: str, listener: Listener | None = None) -> TrainingResult:
    recipe = (RETRIEVAL if kind is ModelKind.RETRIEVAL else VERIFICATION)["tiny"]
    labels = read_labels(table, table.parent, split="train")
    listener = listener or Listener()
    return train(kind, labels, recipe, None, table.parent / output, listener, listener)


def test_a_training_writes_a_model_with_its_documentation(whole: Whole) -> None:
    model = (open_retrieval if whole.kind is ModelKind.RETRIEVAL else open_verification)(whole.folder)
    calibration = Calibration.from_json((stored_calibration(whole.folder) or b"").decode())
    assert model.digest == whole.made.digest
    assert model.embed([ImageArray(np.zeros((9, 9), np.float32), Modality.RADIOGRAPH)]).shape == (1, 16)
    assert calibration.patients == whole.made.counts["validation_patients"] == 2
    assert len((whole.folder / "log.jsonl").read_text().splitlines()) == len(whole.made.log) > 1
    assert not (whole.table.parent / "model.training").exists()


def test_a_stopped_training_resumes_to_the_same_model(whole: Whole, table: Path) -> None:
    steps = 2 if whole.kind is ModelKind.RETRIEVAL else 7
    with pytest.raises(Cancelled):
        run(table, whole.kind, "parts", Listener(steps))
    assert not (table.parent / "parts").exists()
    assert run(table, whole.kind, "parts").digest == whole.made.digest


def test_messages_and_files_contain_no_file_or_patient_names(whole: Whole) -> None:
    written = b"".join(path.read_bytes() for path in whole.folder.iterdir())
    told = "\n".join(whole.heard).encode()
    for secret in (b"Smith", b"P90", str(whole.table.parent).encode()):
        assert secret not in written + told


def test_a_score_is_between_0_and_1_and_symmetric(whole: Whole) -> None:
    if whole.kind is ModelKind.RETRIEVAL:
        with pytest.raises(UsageError, match="retrieval model"):
            open_verification(whole.folder)
        return
    model = open_verification(whole.folder)
    noise = [np.random.default_rng(seed).random((40, 48), np.float32) for seed in (0, 1)]
    vectors = model.embed([ImageArray(pixels, Modality.RADIOGRAPH) for pixels in noise])
    scores = model.score(vectors, vectors[::-1].copy())
    assert scores[0] == scores[1]
    assert ((scores >= 0) & (scores <= 1)).all()


def test_a_model_in_the_output_is_not_overwritten(whole: Whole) -> None:
    with pytest.raises(UsageError, match="already contains a model"):
        run(whole.table, whole.kind, "model")


def test_a_checkpoint_of_another_recipe_is_not_continued(table: Path) -> None:
    with pytest.raises(Cancelled):
        run(table, ModelKind.RETRIEVAL, "model", Listener(2))
    with pytest.raises(UsageError, match="training with other images"):
        run(table, ModelKind.VERIFICATION, "model")


def test_a_damaged_checkpoint_gives_a_remedy(table: Path) -> None:
    with pytest.raises(Cancelled):
        run(table, ModelKind.RETRIEVAL, "model", Listener(2))
    (table.parent / "model.training" / FILE).write_bytes(b"nothing")
    with pytest.raises(IntegrityError, match="start again"):
        run(table, ModelKind.RETRIEVAL, "model")


def test_one_image_per_patient_is_an_error_with_a_reason(tmp_path: Path) -> None:
    table = write_images(tmp_path, list(range(8)))
    with pytest.raises(UsageError, match="Only 0 patients have two or more"):
        run(table, ModelKind.RETRIEVAL, "model")


def test_a_table_without_patients_is_an_error(table: Path) -> None:
    with pytest.raises(UsageError, match="no column 'subject' for the patient"):
        read_labels(table, table.parent, LabelColumns(patient_id="subject"), "train")


def test_unreadable_images_are_counted_by_reason(table: Path) -> None:
    (table.parent / "Smith0.png").write_bytes(b"no image")
    made = run(table, ModelKind.RETRIEVAL, "model")
    assert made.excluded == {"image not readable": 1}
    assert json.loads((table.parent / "model" / "training.json").read_text())["excluded"] == made.excluded


def test_no_patient_is_in_both_splits(table: Path) -> None:
    labels = read_labels(table, table.parent, split="train")
    examples, _ = gather_images(labels, Listener(), Listener())
    fit, validation = split_patients(examples, 0)
    assert not set(fit.patients) & set(validation.patients)
    assert len(fit) + len(validation) == len(examples) == len(PATIENTS)
    assert validation.mates().any()


def test_the_dataset_digest_depends_on_bytes_but_not_on_order(table: Path) -> None:
    labels = read_labels(table, table.parent, split="train")
    backwards = labels.keep(np.arange(len(labels))[::-1])
    digests = {gather_images(one, Listener(), Listener())[0].digest for one in (labels, backwards)}
    assert len(digests) == 1


def test_the_paper_recipe_requires_weights(table: Path) -> None:
    labels = read_labels(table, table.parent, split="train")
    listener = Listener()
    with pytest.raises(UsageError, match="Pass --weights"):
        train(ModelKind.RETRIEVAL, labels, RETRIEVAL["paper"], None, table.parent / "m", listener, listener)


def test_a_recipe_with_packaged_weights_accepts_no_others(table: Path) -> None:
    labels = read_labels(table, table.parent, split="train")
    listener = Listener()
    with pytest.raises(UsageError, match="accepts no others"):
        train(ModelKind.RETRIEVAL, labels, RETRIEVAL["frozen"], "a/b", table.parent / "m", listener, listener)


def test_a_gpu_without_initial_weights_uses_the_recipe_with_packaged_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert recipe_for(ModelKind.RETRIEVAL, None).name == "moments"
    assert recipe_for(ModelKind.RETRIEVAL, None, "resnet50.safetensors").name == "paper"


def test_an_unknown_recipe_error_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="frozen"):
        recipe_for(ModelKind.RETRIEVAL, "best")
