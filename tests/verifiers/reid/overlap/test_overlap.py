"""The comparison of datasets: matches, verdicts, and when no verdict is possible."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import calibrate
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.overlap.connected_components import connected_components
from medsanitize.verifiers.reid.overlap.dataset import Dataset, datasets_from_splits
from medsanitize.verifiers.reid.overlap.dataset import ImageFile as Item
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import fingerprint_dataset
from medsanitize.verifiers.reid.overlap.fingerprint import ImageFingerprint, fingerprint_images
from medsanitize.verifiers.reid.overlap.fingerprint_index import (
    load_fingerprint_index,
    write_fingerprint_index,
)
from medsanitize.verifiers.reid.overlap.models import Models
from medsanitize.verifiers.reid.overlap.overlap import Overlap, compare_datasets
from medsanitize.verifiers.reid.overlap.perceptual_hash import perceptual_hash
from medsanitize.verifiers.reid.overlap.result_files import write_pairs
from medsanitize.verifiers.reid.overlap.verdict import poisson_tail
from PIL import Image, ImageOps

SIZE = 64
SHARED = range(5, 11)


@dataclass(frozen=True)
class Coarse:
    """A retrieval model: the picture at 8 x 8 pixels, sufficient for patients that are noise."""

    digest: str = "c" * 64
    modality: Modality = Modality.RADIOGRAPH
    dimension: int = 64

    def embed(self, pictures: Sequence[ImageArray]) -> Any:
        small = [Image.fromarray(p.pixels).resize((8, 8), Image.Resampling.BOX) for p in pictures]
        return np.stack([np.asarray(one, np.float32).reshape(-1) for one in small])


@dataclass(frozen=True)
class Judge(Coarse):
    """A verification model on the same vectors."""

    digest: str = "d" * 64
    calls: list[int] = field(default_factory=list)

    def score(self, one: Any, other: Any) -> Any:
        self.calls.append(len(one))
        return np.exp(-4 * np.linalg.norm(one - other, axis=1)).astype(np.float32)

    def raw(self, one: Any, other: Any) -> Any:
        return -4 * np.linalg.norm(one - other, axis=1).astype(np.float32)


MODELS = Models({Modality.RADIOGRAPH: Coarse(), Modality.SLIDE: Coarse(modality=Modality.SLIDE)})


def picture(patient: int, visit: int) -> Any:
    """A noise image per patient, with another gray level and noise per visit: no two are copies."""
    of_patient = np.random.default_rng(patient).random((8, 8)).repeat(8, 0).repeat(8, 1)
    of_visit = np.random.default_rng([patient, visit]).random((SIZE, SIZE))
    return (255 * (0.55 * of_patient + 0.45 * of_visit)).astype(np.uint8)


def folder_of(root: Path, patients: range, visits: int = 2, split: str = "") -> Path:
    """Pictures and a table of them."""
    root.mkdir(parents=True, exist_ok=True)
    table = root / "labels.csv"
    rows = []
    for patient in patients:
        for visit in range(visits):
            name = f"{split}p{patient}v{visit}.png"
            Image.fromarray(picture(patient, visit)).save(root / name, compress_level=1)
            rows.append({"file": name, "patient_id": f"SECRET{patient}", "split": split})
    fresh = not table.exists()
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, ["file", "patient_id", "split"])
        if fresh:
            writer.writeheader()
        writer.writerows(rows)
    return root


def side_of(root: Path, title: str, *, labeled: bool = True) -> Dataset:
    found = sorted(root.glob("*.png"))
    images = tuple(Item(p, p.name, p.name.split("v")[0] if labeled else "") for p in found)
    return Dataset(title, images).of_kind(Modality.RADIOGRAPH)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two disjoint datasets, and one that shares six patients (other visits) with the first."""
    base = tmp_path_factory.mktemp("sides")
    apart = {"a": range(70), "b": range(100, 165), "few": range(200, 220)}
    made = {name: folder_of(base / name, patients) for name, patients in apart.items()}
    made["c"] = folder_of(base / "c", range(300, 340))
    for patient in SHARED:
        Image.fromarray(picture(patient, 9)).save(made["c"] / f"x{patient}v9.png")
    return made


_LOOKS: dict[Path, ImageFingerprint] = {}


def visit(batches: Any) -> Any:
    """Fingerprint each file once per module: the embeddings of both models are equal."""
    for batch in batches:
        new = [image for image in batch if image.path not in _LOOKS]
        _LOOKS.update(zip((image.path for image in new), fingerprint_images(new, MODELS), strict=True))
        yield [
            replace(one, verification_embedding=one.embedding)
            for one in (_LOOKS[image.path] for image in batch)
        ]


def of(places: dict[str, Path], *names: str, **options: Any) -> Overlap:
    datasets = [side_of(places[name], name.upper()) for name in names]
    return compare_datasets(*datasets, models=options.pop("models", MODELS), visit=visit, **options)


def test_disjoint_datasets_are_exclusive_with_the_bound(places: dict[str, Path]) -> None:
    found = of(places, "a", "b")
    verdict = found.comparisons[0].verdict
    assert found.result == "exclusive"
    assert verdict.max_shared_patients == 0
    assert verdict.miss is not None
    assert verdict.miss <= 0.05
    assert verdict.sentence.startswith("A and B are exclusive: none of 4,550 pairs of patients matched")


def test_shared_patients_are_found_by_other_visits_without_false_matches(places: dict[str, Path]) -> None:
    found = of(places, "a", "c")
    names = {
        (found.datasets[0].names[p.patients[0]], found.datasets[1].names[p.patients[1]])
        for p in found.pairs
        if p.matched
    }
    assert found.result == "overlapping"
    assert names == {(f"p{patient}", f"x{patient}") for patient in SHARED}


def test_matches_connect_patients_into_groups(places: dict[str, Path]) -> None:
    groups = {p.group for p in of(places, "a", "c").pairs if p.matched}
    assert groups == {1, 2, 3, 4, 5, 6}
    assert connected_components([((0, 1), (1, 1)), ((1, 1), (2, 5)), ((0, 9), (1, 2))]) == {
        (0, 1): 1,
        (1, 1): 1,
        (2, 5): 1,
        (0, 9): 2,
        (1, 2): 2,
    }


def test_three_datasets_are_compared_pairwise(places: dict[str, Path]) -> None:
    found = of(places, "a", "b", "c")
    assert [one.titles for one in found.comparisons] == [("A", "B"), ("A", "C"), ("B", "C")]
    assert found.result == "overlapping"


def test_a_verification_model_determines_the_matches(places: dict[str, Path]) -> None:
    judge = Judge()
    found = of(places, "a", "c", models=replace(MODELS, verification={Modality.RADIOGRAPH: judge}))
    assert sum(judge.calls)
    assert found.result == "overlapping"
    assert {p.patients[0] for p in found.pairs if p.matched} == {
        found.datasets[0].names.index(f"p{patient}") for patient in SHARED
    }
    assert all(0 <= p.score <= 1 for p in found.pairs if p.score is not None)


def test_the_table_states_the_strict_thresholds_of_score_and_distance(
    places: dict[str, Path], tmp_path: Path
) -> None:
    found = of(places, "a", "b", "c", models=replace(MODELS, verification={Modality.RADIOGRAPH: Judge()}))
    write_pairs(found, tmp_path / "pairs.parquet")
    rows = pq.read_table(tmp_path / "pairs.parquet").to_pylist()
    strict = [row for row in rows if row["decision"] == "same_patient"]
    assert strict
    assert all(row["score"] >= row["threshold"] for row in strict)
    assert all(row["distance"] <= row["threshold_distance"] for row in strict)


def test_verifying_only_candidates_gives_the_same_matches_as_all_pairs(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = replace(MODELS, verification={Modality.RADIOGRAPH: Judge()})
    whole = of(places, "a", "c", models=models)
    monkeypatch.setattr("medsanitize.verifiers.reid.overlap.compare_pairs.EVERY_PAIR_UP_TO", 0)
    near = of(places, "a", "c", models=models)
    assert [p for p in near.pairs if p.matched] == [p for p in whole.pairs if p.matched]


def test_a_copy_in_another_format_is_the_same_image(places: dict[str, Path], tmp_path: Path) -> None:
    folder_of(tmp_path / "d", range(400, 405))
    for number, name in ((3, "copy.tif"), (4, "copy.jpg")):
        Image.fromarray(picture(number, 0)).resize((96, 96)).save(tmp_path / "d" / name)
    Image.fromarray(picture(1, 0)).save(tmp_path / "d" / "copy.bmp.png", compress_level=9)
    shutil.copy(places["a"] / "p2v0.png", tmp_path / "d" / "same.png")
    files = sorted(one for one in (tmp_path / "d").iterdir() if one.suffix != ".csv")
    other = Dataset("D", tuple(Item(path, path.name) for path in files)).of_kind(Modality.RADIOGRAPH)
    found = compare_datasets(side_of(places["a"], "A"), other, models=MODELS, visit=visit)
    bases = {files[p.images[1]].name: p.basis for p in found.pairs if p.decision == "same_image"}
    assert bases == {
        "copy.tif": "perceptual_hash",
        "copy.jpg": "perceptual_hash",
        "copy.bmp.png": "pixels",
        "same.png": "bytes",
    }
    assert "1 pair of images has the same bytes" in found.comparisons[0].verdict.sentence


@pytest.mark.parametrize(
    "change",
    [
        lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        lambda image: image.transpose(Image.Transpose.ROTATE_90).resize((48, 48)),
        lambda image: image.transpose(Image.Transpose.TRANSVERSE),
        lambda image: ImageOps.expand(image, (20, 4), fill=0),
        lambda image: ImageOps.mirror(ImageOps.expand(image, 9, fill=255)),
    ],
    ids=["mirrored", "turned", "transverse", "border", "border and mirror"],
)
def test_a_mirrored_turned_or_framed_copy_is_the_same_image(
    places: dict[str, Path], tmp_path: Path, change: Callable[[Image.Image], Image.Image]
) -> None:
    folder_of(tmp_path / "d", range(400, 403))
    change(Image.fromarray(picture(3, 0))).save(tmp_path / "d" / "p9v0.png")
    found = compare_datasets(side_of(places["a"], "A"), side_of(tmp_path / "d", "D"), models=MODELS)
    copies = {
        (found.datasets[0].names[p.patients[0]], found.datasets[1].names[p.patients[1]])
        for p in found.pairs
        if p.decision == "same_image"
    }
    assert copies == {("p3", "p9")}


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n" + b"cut", b"\xff\xd8\xff cut"])
def test_with_an_unreadable_image_nothing_is_exclusive(
    places: dict[str, Path], tmp_path: Path, content: bytes
) -> None:
    bad = tmp_path / "SECRETNAME.png"
    bad.write_bytes(content)
    datasets = side_of(places["a"], "A"), side_of(places["b"], "B")
    found = compare_datasets(
        datasets[0],
        replace(datasets[1], images=(*datasets[1].images, Item(bad, bad.name))),
        models=MODELS,
        visit=visit,
    )
    verdict = found.comparisons[0].verdict
    assert found.result == "inconclusive"
    assert "1 images could not be read" in verdict.sentence
    assert "SECRET" not in verdict.sentence


@pytest.mark.parametrize(
    ("name", "patient", "result"),
    [("scan.png", "", "inconclusive"), ("scan", "SECRET1", "inconclusive"), ("note.txt", "", "inconclusive")],
)
def test_text_in_place_of_an_image_is_reported_for_review(
    places: dict[str, Path], tmp_path: Path, name: str, patient: str, result: str
) -> None:
    pointer = tmp_path / name
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
    one, other = side_of(places["a"], "A"), side_of(places["b"], "B")
    more = replace(other, images=(*other.images, Item(pointer, name, patient)))
    found = compare_datasets(one, more, models=MODELS, visit=visit)
    assert found.result == result


def test_pages_that_are_not_compared_are_reported_for_review(places: dict[str, Path], tmp_path: Path) -> None:
    pages = [Image.fromarray(picture(500, visit)) for visit in (0, 1)]
    pages[0].save(tmp_path / "x.tif", save_all=True, append_images=pages[1:])
    one, other = side_of(places["a"], "A"), side_of(places["b"], "B")
    more = replace(
        other, images=(*other.images, Item(tmp_path / "x.tif", "x.tif", "x", kind=Modality.RADIOGRAPH))
    )
    found = compare_datasets(one, more, models=MODELS, visit=visit)
    assert found.result == "inconclusive"
    assert found.datasets[1].unread == {"further-pages": 1}
    assert len(found.datasets[1].vectors[Modality.RADIOGRAPH].images) == 131


def test_an_unrelated_text_file_is_not_reported_for_review(places: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Thank you for your interest in these images.")
    one, other = side_of(places["a"], "A"), side_of(places["b"], "B")
    more = replace(other, images=(*other.images, Item(tmp_path / "note.txt", "note.txt")))
    assert compare_datasets(one, more, models=MODELS, visit=visit).result == "exclusive"


def test_a_dataset_without_perceptual_hashes_is_still_compared(
    places: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\ncut")
    blind = Dataset("D", (Item(tmp_path / "bad.png", "bad.png"),))
    found = compare_datasets(side_of(places["a"], "A"), blind, models=MODELS, visit=visit)
    assert found.result == "inconclusive"


def test_unopened_files_are_reported_for_review(places: dict[str, Path]) -> None:
    datasets = side_of(places["a"], "A"), replace(side_of(places["b"], "B"), unread={"image not found": 2})
    found = compare_datasets(*datasets, models=MODELS, visit=visit)
    assert found.result == "inconclusive"
    assert "image not found 2" in found.comparisons[0].verdict.sentence


def test_without_a_calibration_the_verdict_is_inconclusive(places: dict[str, Path]) -> None:
    datasets = [side_of(places[name], name, labeled=False) for name in ("a", "b")]
    found = compare_datasets(*datasets, models=MODELS, visit=visit)
    assert found.result == "inconclusive"
    assert (
        "how often strangers match among these radiographs is unknown"
        in found.comparisons[0].verdict.sentence
    )
    assert {p.decision for p in found.pairs} == {"undecided"}


def test_too_few_calibration_patients_give_a_bound_but_no_verdict(places: dict[str, Path]) -> None:
    some = [one for one in side_of(places["b"], "B").images if one.patient in ("p100", "p101")]
    found = compare_datasets(
        side_of(places["few"], "A"), Dataset("B", tuple(some)), models=MODELS, visit=visit
    )
    verdict = found.comparisons[0].verdict
    assert verdict.result == "inconclusive"
    assert verdict.max_shared_patients == 1
    assert "at most 1 patients are in both" in verdict.sentence


def test_enough_patients_of_these_images_decide_whatever_calibration_is_given(
    places: dict[str, Path],
) -> None:
    rng = np.random.default_rng(0)
    first, second = (
        np.r_[np.arange(100), rng.integers(0, 100, 900)],
        np.r_[np.arange(100), rng.integers(0, 100, 900)],
    )
    useless = calibrate(-rng.random(1000), first, second)
    found = of(places, "a", "b", calibrations={Modality.RADIOGRAPH: useless})
    assert found.comparisons[0].evidence.thresholds[Modality.RADIOGRAPH].source == "compared_images"


def test_datasets_of_different_modalities_are_inconclusive(places: dict[str, Path]) -> None:
    def other_kind(batches: Any) -> Any:
        for batch in batches:
            found = fingerprint_images(batch, MODELS)
            slides = batch[0].path.parent == places["b"]
            yield [replace(one, modality=Modality.SLIDE) if slides else one for one in found]

    datasets = side_of(places["a"], "A"), side_of(places["b"], "B")
    found = compare_datasets(*datasets, models=MODELS, visit=other_kind)
    assert found.result == "inconclusive"
    assert "the datasets have no images of one modality in common" in found.comparisons[0].verdict.sentence


def test_splits_of_a_table_are_compared_and_shared_patient_ids_are_a_leak(tmp_path: Path) -> None:
    folder_of(tmp_path, range(40), split="train")
    folder_of(tmp_path, range(38, 70), visits=1, split="test")
    datasets = datasets_from_splits(tmp_path / "labels.csv", tmp_path)
    found = compare_datasets(*datasets, models=MODELS, same_ids=True)
    assert [side.title for side in datasets] == ["test", "train"]
    assert found.result == "overlapping"
    assert found.comparisons[0].evidence.ids == 2


def test_a_table_of_one_split_is_rejected(tmp_path: Path) -> None:
    folder_of(tmp_path, range(2), split="train")
    with pytest.raises(UsageError, match="fewer than two splits"):
        datasets_from_splits(tmp_path / "labels.csv", tmp_path)


def test_a_single_dataset_and_an_empty_dataset_are_rejected(places: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        compare_datasets(side_of(places["a"], "A"), models=MODELS)
    with pytest.raises(UsageError, match="B contains no images"):
        compare_datasets(side_of(places["a"], "A"), Dataset("B", ()), models=MODELS)


def test_the_result_does_not_depend_on_workers_and_batches(places: dict[str, Path]) -> None:
    def one_at_a_time(batches: Any) -> Any:
        for batch in batches:
            yield [fingerprint_images([image], MODELS)[0] for image in batch]

    datasets = side_of(places["a"], "A"), side_of(places["c"], "C")
    assert (
        compare_datasets(*datasets, models=MODELS).pairs
        == compare_datasets(*datasets, models=MODELS, visit=one_at_a_time).pairs
    )


def test_a_uniform_picture_has_no_perceptual_hash() -> None:
    assert perceptual_hash(np.zeros((50, 40), np.float32)) is None
    assert perceptual_hash(np.full((50, 40, 3), 0.7, np.float32)) is None


def test_the_p_value_of_a_match_count_is_that_of_poisson() -> None:
    assert poisson_tail(0, 3.0) == 1.0
    assert poisson_tail(1, 0.5) == pytest.approx(1 - np.exp(-0.5))
    assert poisson_tail(2, 1.0) == pytest.approx(1 - 2 * np.exp(-1))


def test_embeddings_of_two_models_round_trip_through_an_index(
    places: dict[str, Path], tmp_path: Path
) -> None:
    models = Models(MODELS.retrieval, {Modality.RADIOGRAPH: Judge()})
    side = side_of(places["few"], "few")
    seen = fingerprint_dataset(side, fingerprint_images(side.images, models))
    (tmp_path / "i").mkdir()
    write_fingerprint_index(seen, tmp_path / "i", models)
    vectors = load_fingerprint_index(tmp_path / "i", side.title, models).vectors[Modality.RADIOGRAPH]
    saw = seen.vectors[Modality.RADIOGRAPH]
    assert saw.second is not None
    assert vectors.second is not None
    assert np.array_equal(np.hstack([vectors.first, vectors.second]), np.hstack([saw.first, saw.second]))
