"""Parts of the training loop."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.verifiers.reid.models.scoring import BIAS, WEIGHT, Scoring, pair_scores
from medsanitize.verifiers.reid.training.augment import augment
from medsanitize.verifiers.reid.training.lr_schedule import one_cycle
from medsanitize.verifiers.reid.training.recipes import MILD, RETRIEVAL, VERIFICATION, Augmentation
from medsanitize.verifiers.reid.training.sampling import (
    genuine_pairs,
    impostor_pairs,
    pair_batches,
    patient_batches,
)

pytestmark = pytest.mark.verify

_PREPARING = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from threadpoolctl import threadpool_info
from medsanitize.verifiers.reid.training.image_cache import _single_threaded
with ProcessPoolExecutor(1, get_context("forkserver"), _single_threaded) as pool:
    print({one["num_threads"] for one in pool.submit(threadpool_info).result()})
"""
PATIENTS = st.lists(st.integers(0, 6), min_size=8, max_size=60).map(np.array)


def test_the_cyclic_learning_rate_matches_torch() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1584, total_steps=40)
    for step in range(40):
        group = optimizer.param_groups[0]
        assert one_cycle(step, 40, 0.1584) == pytest.approx((group["lr"], group["momentum"]), rel=1e-9)
        optimizer.step()
        if step < 39:
            schedule.step()


def test_the_cycle_of_the_paper_begins_at_its_lower_bound() -> None:
    assert one_cycle(0, 1000, 0.1584)[0] == pytest.approx(0.0063, abs=5e-5)


def test_a_cycle_of_one_step_is_finite() -> None:
    assert all(np.isfinite(one_cycle(0, 1, 0.1)))


def test_the_recipes_match_the_paper() -> None:
    retrieval, verification = RETRIEVAL["paper"], VERIFICATION["paper"]
    expected = {
        "size": 1024, "dimension": 128, "grid": 5, "batch": 32, "memory": 128, "head_epochs": 30,
        "all_epochs": 50, "rate": 0.1584, "decay": 1e-5, "margin": 1.0,
    }  # fmt: skip
    assert {name: getattr(retrieval, name) for name in expected} == expected
    expected = {"size": 256, "dimension": 128, "batch": 32, "rate": 1e-4, "patience": 5}
    assert {name: getattr(verification, name) for name in expected} == expected


@given(PATIENTS, st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_batches_contain_every_image_with_a_mate_once(patients: np.ndarray, seed: int) -> None:
    counts = np.bincount(patients)
    wanted = np.flatnonzero(counts[patients] > 1)
    batches = patient_batches(patients, 8, 4, np.random.default_rng(seed))
    assert sorted(np.concatenate(batches)) == wanted.tolist()
    assert all(len(batch) <= 12 for batch in batches)


def test_mates_are_in_one_batch_if_they_fit() -> None:
    patients = np.repeat(np.arange(8), 4)
    for batch in patient_batches(patients, 8, 4, np.random.default_rng(0)):
        assert np.bincount(patients[batch]).max() == 4


def test_genuine_and_impostor_pairs_are_labeled_correctly() -> None:
    patients = np.array([0, 1, 0, 2, 0, 1])
    genuine = genuine_pairs(patients)
    impostors = impostor_pairs(patients, 50, np.random.default_rng(0))
    assert {tuple(sorted(pair)) for pair in genuine.tolist()} == {(0, 2), (0, 4), (2, 4), (1, 5)}
    assert (patients[impostors[:, 0]] != patients[impostors[:, 1]]).all()


def test_impostor_pairs_are_resampled_reproducibly() -> None:
    patients = np.repeat(np.arange(10), 3)
    first, again, other = (
        np.concatenate(pair_batches(patients, 8, np.random.default_rng((0, 0, epoch)))) for epoch in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(np.sort(first, 0), np.sort(other, 0))


def test_disabled_augmentation_changes_nothing() -> None:
    images = torch.rand(2, 1, 8, 8)
    assert augment(images, Augmentation(), torch.Generator()) is images


def test_augmentation_stays_in_range_and_follows_its_seed() -> None:
    images = torch.rand(4, 3, 16, 16)
    one, again, other = (augment(images, MILD, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert one.equal(again)
    assert not one.equal(other)
    assert 0 <= float(one.min()) <= float(one.max()) <= 1


def test_a_shift_is_a_share_of_the_width() -> None:
    from medsanitize.verifiers.reid.training import augment as module

    images = torch.zeros(1, 1, 20, 20)
    images[0, 0, 10, 10] = 1
    places = [
        divmod(
            int(module.augment(images, Augmentation(shift=0.1), torch.Generator().manual_seed(n)).argmax()),
            20,
        )
        for n in range(30)
    ]
    reach = np.abs(np.array(places) - 10).max(0)
    assert 1 <= reach.min() <= reach.max() <= 2


def test_the_score_of_the_paper_matches_torch() -> None:
    draw = torch.Generator().manual_seed(0)
    one, other = torch.randn(5, 6, generator=draw), torch.randn(5, 6, generator=draw)
    layer = torch.nn.Linear(6, 1)
    weights = {WEIGHT: layer.weight.detach().numpy(), BIAS: layer.bias.detach().numpy()}
    with torch.no_grad():
        expected = torch.sigmoid(layer((torch.sigmoid(one) - torch.sigmoid(other)).abs()))[:, 0].numpy()
    found = pair_scores(Scoring.SIGMOID_DIFFERENCE, weights, one.numpy(), other.numpy())
    assert np.allclose(found, expected, atol=1e-6)


def test_the_score_decreases_with_the_distance() -> None:
    weights = {WEIGHT: np.array([[-2.0]], np.float32), BIAS: np.array([1.0], np.float32)}
    near, far = np.zeros((1, 3), np.float32), np.full((1, 3), 2, np.float32)
    same = pair_scores(Scoring.DISTANCE, weights, near, near)
    assert same[0] == pytest.approx(1 / (1 + np.exp(-1)))
    assert pair_scores(Scoring.DISTANCE, weights, near, far)[0] < same[0]


def test_processes_that_preprocess_images_use_one_thread_each() -> None:
    several = os.environ | {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", _PREPARING], env=several, capture_output=True, text=True)
    assert done.stdout.strip() == "{1}"
