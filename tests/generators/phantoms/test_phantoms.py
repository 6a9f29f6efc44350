"""Phantoms are deterministic, consistent for a patient, and readable as cohorts."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from medsanitize.errors import UsageError
from medsanitize.generators.phantoms.chest import FINDINGS, chest_phantom, chest_visit
from medsanitize.generators.phantoms.cohorts import COLUMNS, write_chests, write_slides
from medsanitize.generators.phantoms.tissue import tissue_phantom
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.kinds import kind_named
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels


def _standard(pictures: list[np.ndarray]) -> np.ndarray:
    """Each picture as 24 x 24 means, with mean 0 and length 1."""
    small = [one.mean(axis=2) if one.ndim == 3 else one for one in pictures]
    step = small[0].shape[0] // 24
    cut = np.stack(
        [one[: 24 * step, : 24 * step].reshape(24, step, 24, step).mean((1, 3)).ravel() for one in small]
    )
    cut -= cut.mean(axis=1, keepdims=True)
    return np.asarray(cut / np.linalg.norm(cut, axis=1, keepdims=True))


def test_the_same_arguments_give_the_same_chest() -> None:
    one = chest_phantom(3, 1, size=96, seed=4)
    chest_phantom(9, 0, size=96)
    assert np.array_equal(one, chest_phantom(3, 1, size=96, seed=4))


@pytest.mark.parametrize("size", [64, 97, 256])
def test_a_chest_is_gray_in_the_unit_range_and_of_the_requested_size(size: int) -> None:
    picture = chest_phantom(0, 0, size=size)
    assert (picture.shape, picture.dtype) == ((size, size), np.float32)
    assert 0 <= picture.min() < 0.1
    assert 0.8 < picture.max() <= 1


@pytest.mark.parametrize("change", [{"patient": 2}, {"visit": 1}, {"seed": 1}])
def test_another_patient_visit_or_seed_gives_another_picture(change: dict[str, int]) -> None:
    numbers = {"patient": 1, "visit": 0, "seed": 0} | change
    other = chest_phantom(numbers["patient"], numbers["visit"], size=64, seed=numbers["seed"])
    assert np.abs(other - chest_phantom(1, 0, size=64)).mean() > 0.01


def test_visits_are_in_chronological_order() -> None:
    days = [chest_visit(5, visit).days for visit in range(6)]
    assert days[0] == 0
    assert all(later > earlier for earlier, later in pairwise(days))


def test_a_population_has_both_views_and_all_findings() -> None:
    visits = [chest_visit(patient, 0) for patient in range(80)]
    assert {one.view for one in visits} == {"PA", "AP"}
    assert {one.finding for one in visits} == set(FINDINGS)


def test_visits_of_a_patient_are_similar_but_hard_to_match() -> None:
    patients = range(40)
    first, second = (_standard([chest_phantom(p, v, size=96) for p in patients]) for v in (0, 1))
    likeness = first @ second.T
    own, others = np.diag(likeness), likeness[~np.eye(len(first), dtype=bool)]
    assert own.mean() > others.mean() + others.std()
    # Raw pixels must not be sufficient for matching, so that a model has something to learn.
    assert (likeness.argmax(axis=1) == np.arange(len(first))).mean() < 0.9


def test_varied_chests_are_the_same_for_the_same_arguments_and_others_than_plain_ones() -> None:
    one = chest_phantom(3, 1, size=96, varied=True)
    assert np.array_equal(one, chest_phantom(3, 1, size=96, varied=True))
    assert np.abs(one - chest_phantom(3, 1, size=96)).mean() > 0.01


def test_varied_patients_are_less_alike_than_plain_ones() -> None:
    def likeness(*, varied: bool) -> float:
        pictures = _standard([chest_phantom(patient, 0, size=96, varied=varied) for patient in range(40)])
        return float((pictures @ pictures.T)[~np.eye(40, dtype=bool)].mean())

    assert likeness(varied=True) < likeness(varied=False) - 0.1


def test_a_varied_patient_has_the_same_habitus_at_every_visit() -> None:
    first, second = (
        _standard([chest_phantom(patient, visit, size=96, varied=True) for patient in range(20)])
        for visit in (0, 1)
    )
    likeness = first @ second.T
    assert np.diag(likeness).mean() > likeness[~np.eye(20, dtype=bool)].mean() + 0.2


def test_the_same_arguments_give_the_same_tissue() -> None:
    one = tissue_phantom(2, 0, 5, 1, size=128)
    assert (one.shape, one.dtype) == ((128, 128, 3), np.uint8)
    assert np.array_equal(one, tissue_phantom(2, 0, 5, 1, size=128))


def test_near_sections_are_more_similar_than_distant_ones() -> None:
    patients = range(8)
    base = _standard([tissue_phantom(p, 0, 0, size=192) for p in patients])

    def likeness(block: int, section: int, scanned: int = 0) -> float:
        other = _standard([tissue_phantom(p, block, section, scanned, size=192) for p in patients])
        return float((base * other).sum(axis=1).mean())

    same_glass, near, far, other_block = likeness(0, 0, 1), likeness(0, 1), likeness(0, 25), likeness(1, 0)
    assert min(same_glass, near) > far + 0.03
    assert far > other_block


def test_scanners_differ_in_color() -> None:
    neutral, other = (
        tissue_phantom(0, 0, 0, one, size=128)[:10, :10].reshape(-1, 3).mean(axis=0) for one in (0, 2)
    )
    assert np.abs(neutral - other).max() > 2


def test_a_folder_of_chests_has_a_table_that_the_commands_read(tmp_path: Path) -> None:
    table = write_chests(tmp_path / "a", range(5), size=64)
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert {row["split"] for row in rows} == {"train", "test"}
    labels = read_labels(table, tmp_path / "a", LabelColumns(), "train")
    assert len(labels.paths) == sum(row["split"] == "train" for row in rows)
    assert len({row["patient_id"] for row in rows}) == 5


def test_no_patient_is_in_two_splits(tmp_path: Path) -> None:
    with write_chests(tmp_path / "a", range(9), size=64).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    splits = {(row["patient_id"], row["split"]) for row in rows}
    assert len(splits) == len({patient for patient, _ in splits})


def test_later_visits_share_patients_but_no_images(tmp_path: Path) -> None:
    write_chests(tmp_path / "a", [7], size=64)
    write_chests(tmp_path / "b", [7], size=64, first=4)
    images = [path.read_bytes() for path in tmp_path.rglob("*.png")]
    assert len(set(images)) == len(images)


def test_a_folder_of_slides_reads_as_slides(tmp_path: Path) -> None:
    table = write_slides(tmp_path / "a", [0], sections=(0, 1), scanners=(0, 1), size=128)
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert kind_named(rows[0]["kind"]) is Modality.SLIDE


def test_a_non_empty_folder_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    for write in (write_chests, write_slides):
        with pytest.raises(UsageError):
            write(tmp_path, [0])
