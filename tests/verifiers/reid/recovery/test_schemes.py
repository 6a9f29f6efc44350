"""The schemes do what their paper says, and give away what it says they hide."""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.verifiers.reid.recovery.blinded_points import gram_of_points, points_in
from medsanitize.verifiers.reid.recovery.encrypted_scores import NOISE, decrypted_scores
from medsanitize.verifiers.reid.recovery.masks import (
    flake_upload,
    gram_matrix,
    mask_parameters,
    unmask_flake,
    unmask_parameters,
)
from medsanitize.verifiers.reid.recovery.recover import recover_from_gram, recover_from_scores
from medsanitize.verifiers.reid.recovery.recovered import Recovered, judge
from numpy.typing import NDArray

pytestmark = pytest.mark.verify

Vectors = NDArray[np.float64]


def unit_rows(random: np.random.Generator, count: int, dimension: int) -> Vectors:
    rows: Vectors = random.standard_normal((count, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def judged(estimates: Vectors, truth: Vectors, known: int = 0) -> Recovered:
    rows = np.arange(known, len(truth))
    return judge(estimates, truth, rows, scheme="", attacker="", known=known, claim="")


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 32), st.integers(0, 1000))
def test_flake_gives_the_aggregator_the_gram_matrix_of_all_parties(dimension: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    parties = [random.standard_normal((rows, dimension)) for rows in (3, 5)]
    gram = gram_matrix([flake_upload(one, seed, random) for one in parties])
    every = np.concatenate(parties)
    assert np.allclose(gram, every @ every.T)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 32), st.integers(0, 1000))
def test_a_party_with_the_common_seed_unmasks_what_another_sent(dimension: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    embeddings = random.standard_normal((7, dimension))
    assert np.allclose(unmask_flake(flake_upload(embeddings, seed, random), seed), embeddings)


def test_another_seed_unmasks_nothing() -> None:
    random = np.random.default_rng(1)
    embeddings, others = unit_rows(random, 200, 64), unit_rows(random, 200, 64)
    assert not judged(unmask_flake(flake_upload(embeddings, 101, random), 102), embeddings).is_above_chance(1)
    masked = mask_parameters([embeddings, others], 101)
    assert not judged(unmask_parameters(masked, 102)[0], embeddings).is_above_chance(1)


def test_forty_known_rows_recover_most_of_the_others_from_flake() -> None:
    random = np.random.default_rng(2)
    rows, others = unit_rows(random, 300, 64), unit_rows(random, 200, 64)
    gram = gram_matrix([flake_upload(part, 5, random) for part in np.split(rows, 3)])
    known = np.arange(40)
    assert judged(recover_from_gram(gram, known, rows[known], others), rows, 40).lower > 0.9


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 5), st.integers(0, 1000))
def test_masks_hide_every_party_and_the_sum_until_a_party_gives_the_seed_away(
    parties: int, seed: int
) -> None:
    parameters = [np.random.default_rng((seed, one)).standard_normal((4, 8)) for one in range(parties)]
    masked = mask_parameters(parameters, seed)
    total = np.sum(masked, axis=0) - np.sum(parameters, axis=0)
    assert np.abs(total).mean() > 10 * np.abs(parameters).mean()
    assert np.allclose(unmask_parameters(masked, seed), parameters)


def test_masks_with_known_rows_are_no_better_than_chance_without_the_seed() -> None:
    random = np.random.default_rng(4)
    rows, others = unit_rows(random, 300, 64), unit_rows(random, 200, 64)
    masked = np.concatenate(mask_parameters(np.split(rows, 3), 9))
    for count in (0, 10, 40):
        known = np.arange(count)
        told = judged(recover_from_gram(masked @ masked.T, known, rows[known], others), rows, count)
        assert not told.is_above_chance(3)


def test_as_many_decrypted_scores_as_numbers_recover_the_gallery() -> None:
    random = np.random.default_rng(6)
    gallery, queries, others = (unit_rows(random, count, 128) for count in (70, 128, 128))
    scores = decrypted_scores(gallery, queries)
    told = judged(recover_from_scores(scores.values, queries, others, noise=NOISE), gallery)
    assert (told.share, told.relative_error < 0.01) == (1, True)


@pytest.mark.ckks
def test_errors_of_ckks_are_as_small_as_those_that_are_simulated_without_it() -> None:
    random = np.random.default_rng(7)
    gallery, queries = unit_rows(random, 40, 128), unit_rows(random, 100, 128)
    scores = decrypted_scores(gallery, queries)
    errors = scores.values - gallery @ queries.T
    assert scores.library.startswith("tenseal")
    assert NOISE / 3 < errors.std() < NOISE * 3


def test_points_are_read_from_a_message_in_order() -> None:
    points = [bytes([2 + place % 2]) + secrets.token_bytes(32) for place in range(200)]
    fields = b"".join(b"\x0a\x21" + point for point in points)
    length = bytes([len(fields) & 0x7F | 0x80, len(fields) >> 7])
    # A flag, and the points in a message of their own, as of ServerSetup.
    assert points_in(b"\x10\x01\x1a" + length + fields) == points
    assert points_in(fields) == points


def test_random_points_recover_nothing() -> None:
    random = np.random.default_rng(8)
    rows, others = unit_rows(random, 300, 64), unit_rows(random, 200, 64)
    gram = gram_of_points([b"\x02" + random.bytes(32) for _ in range(300)])
    for count in (0, 10, 20, 40):
        known = np.arange(count)
        told = judged(recover_from_gram(gram, known, rows[known], others), rows, count)
        assert not told.is_above_chance(4)
