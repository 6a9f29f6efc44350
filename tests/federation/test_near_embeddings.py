"""What a party brings to a near comparison: one image of each patient, in an order that tells nothing."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.federation.near.embeddings import near_set, round_embeddings
from medsanitize.federation.near.terms import agreed_distance
from medsanitize.verifiers.reid.images.image import Modality

from tests.helpers.near import fingerprint

pytestmark = pytest.mark.verify
KIND = Modality.RADIOGRAPH


def test_each_patient_takes_part_with_the_image_nearest_to_the_others() -> None:
    people = np.random.default_rng(0).normal(size=(20, 16))
    seen = fingerprint(people, 3, noise=0.5, seed=0)
    vectors = seen.vectors[KIND].first.astype(np.float64).reshape(20, 3, 16)
    middle = [
        images[np.linalg.norm(images[:, None] - images[None], axis=2).sum(axis=1).argmin()]
        for images in vectors
    ]
    expected = {row.tobytes() for row in round_embeddings(np.array(middle, np.float32))}
    found = near_set(seen, KIND)
    assert ({row.tobytes() for row in found.vectors}, len(found.patients)) == (expected, 20)


def test_the_order_of_patients_is_drawn_anew_for_each_set() -> None:
    people = np.random.default_rng(0).normal(size=(40, 16))
    seen = fingerprint(people, 1, noise=0.1, seed=0)
    first, second = near_set(seen, KIND), near_set(seen, KIND)
    assert first.patients != second.patients
    assert set(first.patients) == set(second.patients)


def test_the_larger_of_both_proposed_distances_counts() -> None:
    assert (agreed_distance(0.4, 0.7), agreed_distance(0.7, 0.4)) == (0.7, 0.7)
