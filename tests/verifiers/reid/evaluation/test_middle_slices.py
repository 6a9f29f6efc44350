"""Evaluation of slices: one of each series counts."""

from __future__ import annotations

import numpy as np
from medsanitize.verifiers.reid.evaluation.embed import EmbeddedImages, middle_slices
from medsanitize.verifiers.reid.images.kinds import OTHER_SLICE

EMBEDDED = EmbeddedImages(
    (np.arange(5, dtype=np.float32)[:, None],),
    np.array([0, 1, 2, 4, 5]),
    {"not readable: no-pixels": 1},
    (("", 0.0), ("", 0.0), ("", 0.0), ("x", 2.0), ("x", 1.0)),
)
PATIENTS = ["a", "a", "a", "b", "b", "b"]


def test_one_slice_of_each_series_is_left_and_the_others_are_counted() -> None:
    found = middle_slices(EMBEDDED, PATIENTS, [""] * 6)
    assert found.places.tolist() == [1, 4]
    assert found.vectors[0][:, 0].tolist() == [1, 3]
    assert found.excluded == {"not readable: no-pixels": 1, OTHER_SLICE: 3}


def test_the_series_of_the_table_goes_before_that_of_the_header() -> None:
    found = middle_slices(EMBEDDED, PATIENTS, ["", "", "", "", "1", "2"])
    assert found.places.tolist() == [1, 4, 5]
