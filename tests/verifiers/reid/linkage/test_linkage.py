"""The linkage attack against its definition, and the trends reported in the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.linkage.attack import (
    SimilarityPool,
    linkage_attack,
    linked_patients,
    pool_similarities,
)
from medsanitize.verifiers.reid.linkage.dataset_attack import DatasetSummary, Linkage
from medsanitize.verifiers.reid.linkage.linkage_report import linkage_page


def brute_force(similarity: Any, probes: Any, background: Any) -> float:
    linked = set()
    for row, patient in zip(similarity, probes, strict=True):
        best = min(range(len(row)), key=lambda n: (-row[n], n))
        if background[best] == patient:
            linked.add(patient)
    return len(linked) / len(set(background))


@settings(deadline=None)
@given(st.data())
def test_rs_is_the_share_of_background_patients_with_a_correctly_assigned_probe(data: st.DataObject) -> None:
    probes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    background = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    rows = st.lists(st.integers(0, 2), min_size=len(background), max_size=len(background))
    similarity = np.array(data.draw(st.lists(rows, min_size=len(probes), max_size=len(probes))), dtype="f4")
    found = linked_patients(SimilarityPool(similarity, np.array(probes), np.array(background)))
    assert found.sum() / len(set(background)) == brute_force(similarity, probes, background)


def test_equal_similarities_are_resolved_by_the_smallest_index() -> None:
    similarity = np.ones((1, 2), dtype=np.float32)
    assert linked_patients(SimilarityPool(similarity, np.array([7]), np.array([7, 8]))).all()
    assert not linked_patients(SimilarityPool(similarity, np.array([7]), np.array([8, 7]))).any()


def test_similarity_is_the_cosine() -> None:
    found = pool_similarities(
        np.float32([[3, 0], [0, 0]]), np.array([0, 1]), np.float32([[5, 5], [-1, 0]]), np.array([0, 1])
    )
    assert np.allclose(found.similarity, [[np.sqrt(0.5), -1], [0, 0]])


def cohort(patients: int, images: int, noise: float, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    people = np.repeat(np.arange(patients), images)
    vectors = rng.normal(size=(patients, 16))[people] + noise * rng.normal(size=(len(people), 16))
    return vectors.astype(np.float32), people


def test_a_common_component_of_all_images_hides_no_patient() -> None:
    """Cosines that differ from the seventh place on are linked correctly, not all to the first patient."""
    draw = np.random.default_rng(4)
    people = 100 + 0.01 * draw.normal(size=(20, 16))
    strangers = 100 + 0.01 * draw.normal(size=(3, 16))
    probes = (people + 1e-4 * draw.normal(size=people.shape)).astype(np.float64)
    one = pool_similarities(probes, np.arange(20), np.vstack([strangers, people]), np.r_[20:23, 0:20])
    assert linkage_attack(one).rs.errors == 20


def test_copies_are_always_linked_and_strangers_only_by_chance() -> None:
    vectors, people = cohort(30, 1, 0.0)
    assert linkage_attack(pool_similarities(vectors, people, vectors, people)).rs.share == 1
    strangers = cohort(30, 1, 1.0, seed=9)[0]
    assert linkage_attack(pool_similarities(strangers, people, vectors, people)).rs.upper < 0.4


def test_patients_in_one_dataset_only_do_not_count_in_the_rate() -> None:
    vectors, people = cohort(30, 2, 0.3)
    found = linkage_attack(
        pool_similarities(vectors[people < 20], people[people < 20], vectors[people > 9], people[people > 9])
    )
    assert found.rs.of == 10


def test_in_a_self_attack_no_image_is_its_own_mate() -> None:
    vectors, people = cohort(12, 3, 2.0)
    itself = pool_similarities(vectors, people, None, None)
    assert (
        linkage_attack(itself).rs.share
        < linkage_attack(pool_similarities(vectors, people, vectors, people)).rs.share
        == 1
    )
    alone = np.append(people, 99)
    more = pool_similarities(np.vstack([vectors, vectors[:1]]), alone, None, None)
    assert 99 not in more.patients


def test_rs_increases_with_probes_and_decreases_with_patients() -> None:
    vectors, people = cohort(60, 6, 1.6)
    found = linkage_attack(pool_similarities(vectors, people, None, None))
    by_probes = [one.mean for one in found.by_probes]
    assert [one.probes for one in found.by_probes] == [1, 2, 3, 4, 5]
    assert by_probes == sorted(by_probes)
    assert by_probes[-1] > by_probes[0] + 0.1
    by_patients = [one.mean for one in found.by_patients]
    assert [one.patients for one in found.by_patients] == [2, 5, 10, 20, 40, 60]
    assert by_patients[0] > by_patients[-1] + 0.1


def test_all_statistics_of_a_setting_are_consistent() -> None:
    vectors, people = cohort(25, 4, 1.5)
    found = linkage_attack(pool_similarities(vectors, people, None, None))
    for one in (*found.by_patients, *found.by_probes):
        assert 0 <= one.least <= one.low_quartile <= one.median <= one.high_quartile <= one.most <= 1
        assert one.interval[0] <= one.mean <= one.interval[1]
    assert found.rs.lower <= found.rs.share <= found.rs.upper
    assert found.interval[0] <= found.rs.share <= found.interval[1]


def test_the_attack_is_deterministic() -> None:
    vectors, people = cohort(8, 3, 1.0)
    assert linkage_attack(pool_similarities(vectors, people, None, None)) == linkage_attack(
        pool_similarities(vectors, people, None, None)
    )


def test_without_shared_patients_there_is_nothing_to_link() -> None:
    nobody = SimilarityPool(np.ones((1, 1), dtype=np.float32), np.array([0]), np.array([1]))
    with pytest.raises(UsageError, match="nothing to link"):
        linkage_attack(nobody)


def test_the_page_of_too_few_patients_for_a_draw_has_no_plot() -> None:
    vectors, people = cohort(1, 2, 0.1)
    found = linkage_attack(pool_similarities(vectors, people, None, None))
    summary = DatasetSummary(2, 1, {})
    page = linkage_page(
        Linkage(
            "ct-head", "m", "0" * 64, summary, summary, itself=True, whole=found, crop=None, without_crop=2
        )
    )
    assert found.by_patients == ()
    assert "<svg" not in page.decode("utf-8")
