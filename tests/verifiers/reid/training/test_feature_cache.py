"""Rows of a stopped training are read from disk, and none is computed twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.training.feature_cache import cached_features, name_of
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from numpy.typing import NDArray


class _Stop(Exception): ...


def rows_until(last: int, computed: list[int], file: Path) -> NDArray[np.float32]:
    """Ten rows in batches of three, each its own number; the process stops at the row ``last``."""

    def compute(places: range) -> NDArray[np.float32]:
        if last in places:
            raise _Stop
        computed.extend(places)
        return np.repeat(np.array(places, np.float32), 4).reshape(-1, 4)

    return cached_features(file, (10, 4), 3, compute, NoProgress(), Cancellation())


def test_a_stopped_computation_resumes_after_the_last_complete_batch(tmp_path: Path) -> None:
    file, computed = tmp_path / "new" / "one.rows", list[int]()
    with pytest.raises(_Stop):
        rows_until(7, computed, file)
    with file.open("ab") as torn:
        torn.write(b"torn")

    rows = rows_until(-1, computed, file)

    assert computed == list(range(10))
    assert rows[:, 0].tolist() == list(range(10))


def test_complete_rows_are_not_computed_again(tmp_path: Path) -> None:
    computed: list[int] = []
    rows_until(-1, computed, tmp_path / "one.rows")
    rows_until(0, computed, tmp_path / "one.rows")
    assert len(computed) == 10


def test_rows_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    rows_until(-1, [], tmp_path / "one.rows")
    assert (tmp_path / "one.rows").stat().st_mode & 0o077 == 0


def test_the_cache_key_depends_on_images_order_and_network() -> None:
    paths = (Path("a.png"), Path("b.png"))
    one = TrainingDataset(paths, np.array([0, 1]), Modality.RADIOGRAPH, "d1")
    turned = TrainingDataset(paths[::-1], np.array([1, 0]), Modality.RADIOGRAPH, "d1")
    changed = TrainingDataset(paths, np.array([0, 1]), Modality.RADIOGRAPH, "d2")
    names = {name_of(one, "n"), name_of(one, "m"), name_of(turned, "n"), name_of(changed, "n")}
    assert len(names) == 4
