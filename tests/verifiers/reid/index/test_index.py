"""The index: exact, approximate and measured, and never opened after a change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.verifiers.reid.index.exact import nearest
from medsanitize.verifiers.reid.index.index import build_index, open_index
from medsanitize.verifiers.reid.index.index_folder import ROWS, VECTORS
from medsanitize.verifiers.reid.index.ivf import shard_name
from medsanitize.verifiers.reid.index.search import build_search
from medsanitize.verifiers.reid.index.vector_spool import VectorSpool

DIMENSION = 8


def vectors_of(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)


def batches(vectors: Any, size: int = 70) -> Iterator[tuple[Any, pa.RecordBatch]]:
    for start in range(0, len(vectors), size):
        part = vectors[start : start + size]
        yield part, pa.RecordBatch.from_pydict({"name": [f"n{start + i}" for i in range(len(part))]})


def by_hand(vectors: Any, queries: Any, k: int) -> Any:
    apart = queries[:, None].astype(float) - vectors[None].astype(float)
    return np.argsort(np.sqrt((apart * apart).sum(axis=2)), axis=1, kind="stable")[:, :k]


def test_the_exact_search_matches_a_comparison_of_all_pairs(tmp_path: Path) -> None:
    vectors, queries = vectors_of(500), vectors_of(20, seed=1)
    index = build_index(tmp_path / "i", batches(vectors), dimension=DIMENSION, model="m")
    near, rows = index.search(queries, 5)
    assert (rows == by_hand(vectors, queries, 5)).all()
    assert np.allclose(near[:, 0], np.linalg.norm(vectors[rows[:, 0]] - queries, axis=1), atol=1e-5)


@pytest.mark.parametrize(("far", "spread"), [(0, 1), (300, 0.1), (1000, 0.1), (1, 1e-5)])
def test_rounding_of_dot_products_loses_no_neighbor(far: float, spread: float) -> None:
    """Far from the origin, float32 dot products distinguish these vectors badly, but distances do not."""
    vectors, queries = (np.float32(far) + np.float32(spread) * vectors_of(n, n) for n in (9_000, 40))
    assert (nearest(vectors, queries, 7)[1] == by_hand(vectors, queries, 7)).all()


@settings(max_examples=40)
@given(st.data())
def test_the_exact_search_matches_a_comparison_of_all_pairs_for_any_vectors(data: st.DataObject) -> None:
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    count = data.draw(st.sampled_from([1, 2, 100, 4_095, 4_096, 4_097, 8_193]))
    dimension, k = data.draw(st.sampled_from([1, 2, 8])), data.draw(st.sampled_from([1, 2, 7, 50, 9_000]))
    crowds = 10.0 ** data.draw(st.integers(-3, 5)) * draw.normal(
        size=(data.draw(st.integers(1, 5)), dimension)
    )
    spread = data.draw(st.sampled_from([0.0, 1e-6, 1e-3, 1.0, 1e3]))
    sizes = 10.0 ** draw.uniform(0, data.draw(st.sampled_from([0, 6])), (count + 5, 1))
    placed = crowds[draw.integers(len(crowds), size=count + 5)]
    every = (placed + spread * sizes * draw.normal(size=(count + 5, dimension))).astype(np.float32)
    vectors, queries = every[:count], every[data.draw(st.sampled_from([0, count])) :][:5]
    assert (nearest(vectors, queries, k)[1] == by_hand(vectors, queries, k)).all()


@pytest.mark.parametrize("spread", [1e-5, 0.0])
def test_vectors_indistinguishable_by_dot_product_are_ranked_by_distance(spread: float) -> None:
    """Two distant clusters: centering helps neither."""
    crowds = 100 * vectors_of(2, seed=5)[np.arange(10_500) % 2]
    vectors = crowds + np.float32(spread) * vectors_of(10_500)
    queries = vectors[:6] + np.float32(spread) * vectors_of(6, seed=1)
    assert (nearest(vectors, queries, 7)[1] == by_hand(vectors, queries, 7)).all()


def test_later_larger_vectors_do_not_hide_earlier_ones() -> None:
    vectors = vectors_of(9_000) * np.where(np.arange(9_000) < 4_096, 1, 1e4)[:, None].astype(np.float32)
    queries = vectors[[5, 8_000]]
    assert (nearest(vectors, queries, 7)[1] == by_hand(vectors, queries, 7)).all()


@pytest.mark.parametrize("size", [np.float32(1e19), np.float32(1e-22)])
def test_values_that_overflow_or_underflow_dot_products_lose_no_neighbor(size: np.float32) -> None:
    vectors, queries = size * vectors_of(500), size * vectors_of(30, seed=1)
    assert (nearest(vectors, queries, 3)[1] == by_hand(vectors, queries, 3)).all()


def test_requesting_more_neighbors_than_vectors_returns_all() -> None:
    vectors = vectors_of(6)
    assert (nearest(vectors, vectors[:2], 10)[1] == by_hand(vectors, vectors[:2], 6)).all()


def test_in_memory_inverted_lists_match_an_index_on_disk(tmp_path: Path) -> None:
    vectors, queries = vectors_of(4_000), vectors_of(50, seed=1)
    index = build_index(
        tmp_path / "i", batches(vectors, 900), dimension=DIMENSION, model="m", exact_up_to=1000, shard=1500
    )
    search = build_search(vectors, tmp_path, exact_up_to=1000, shard=1500)
    assert len(search.shards) == 3
    assert (search.nearest(queries, 5)[1] == index.search(queries, 5)[1]).all()


def test_in_memory_inverted_lists_state_their_miss_rate_and_leave_no_file(tmp_path: Path) -> None:
    search = build_search(vectors_of(4_000), tmp_path, exact_up_to=1000)
    assert 0.001 < search.overlooked < 0.05
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [0, 1, 300, 300_000])
def test_spilled_vectors_round_trip_and_leave_no_file(tmp_path: Path, count: int) -> None:
    vectors, spill = vectors_of(count), VectorSpool(tmp_path)
    for vector in vectors:
        spill.append(vector)
    found = spill.array()
    del spill
    assert found.tobytes() == vectors.tobytes()
    assert isinstance(found, np.memmap) == (count == 300_000)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_spill_folder_is_reported() -> None:
    spill = VectorSpool(Path("/sys"))
    with pytest.raises(EnvironmentFailure):
        spill.append(np.ones(3 << 20, np.float32))


def test_row_numbers_refer_to_the_table(tmp_path: Path) -> None:
    vectors = vectors_of(300)
    index = build_index(tmp_path / "i", batches(vectors), dimension=DIMENSION, model="m")
    row = int(index.search(vectors[123:124], 1)[1][0, 0])
    assert index.rows()["name"][row].as_py() == "n123"


def test_equal_vectors_are_sorted_by_row(tmp_path: Path) -> None:
    vectors = np.repeat(vectors_of(1), 40, axis=0)
    index = build_index(tmp_path / "i", batches(vectors), dimension=DIMENSION, model="m")
    assert list(index.search(vectors[:1], 6)[1][0]) == [0, 1, 2, 3, 4, 5]


def test_inverted_lists_have_their_stated_recall(tmp_path: Path) -> None:
    vectors, queries = vectors_of(4000), vectors_of(200, seed=1)
    index = build_index(
        tmp_path / "i", batches(vectors, 900), dimension=DIMENSION, model="m", exact_up_to=1000
    )
    recall = np.mean(index.search(queries, 10)[1][:, 0] == by_hand(vectors, queries, 1)[:, 0])
    assert index.about.recall >= 0.99
    assert recall > 0.97


@pytest.mark.parametrize("shard", [900, 1333, 4000])
def test_shards_give_the_same_result_as_one_file(tmp_path: Path, shard: int) -> None:
    vectors, queries = vectors_of(4000), vectors_of(150, seed=2)
    sizes = {"whole": 10_000, "parts": shard}
    whole, parts = (
        build_index(
            tmp_path / name, batches(vectors), dimension=DIMENSION, model="m", exact_up_to=100, shard=size
        )
        for name, size in sizes.items()
    )
    assert parts.about.shards == -(-4000 // shard)
    assert whole.about.probes == parts.about.probes
    for one, other in zip(whole.search(queries, 10), parts.search(queries, 10), strict=True):
        assert (one == other).all()


def test_a_rebuilt_index_has_no_shards_of_the_previous_one(tmp_path: Path) -> None:
    for count, shard in ((2000, 300), (1200, 1200)):
        index = build_index(
            tmp_path, batches(vectors_of(count)), dimension=DIMENSION, model="m", exact_up_to=10, shard=shard
        )
    assert index.about.shards == len(list(tmp_path.glob("inverted-*"))) == 1


def test_building_an_index_is_deterministic(tmp_path: Path) -> None:
    vectors = vectors_of(2000)
    for name in ("a", "b"):
        build_index(tmp_path / name, batches(vectors), dimension=DIMENSION, model="m", exact_up_to=1000)
    one, other = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in "ab")
    assert one == other


@pytest.mark.parametrize("name", [VECTORS, ROWS, shard_name(0)])
def test_a_modified_file_is_rejected_before_it_is_opened(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "i"
    build_index(folder, batches(vectors_of(2000)), dimension=DIMENSION, model="m", exact_up_to=1000)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(IntegrityError, match="index is damaged"):
        open_index(folder)


@pytest.mark.parametrize("change", ['{"format": 3}', "[]", "{", '{"format": 2, "files": {"../x": "y"}}'])
def test_an_index_with_inconsistent_metadata_is_rejected(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "i"
    build_index(folder, batches(vectors_of(10)), dimension=DIMENSION, model="m")
    (folder / "index.json").write_text(change)
    with pytest.raises(IntegrityError):
        open_index(folder)


def test_vectors_of_another_model_are_rejected(tmp_path: Path) -> None:
    build_index(tmp_path / "i", batches(vectors_of(10)), dimension=DIMENSION, model="m")
    with pytest.raises(UsageError, match="another model"):
        open_index(tmp_path / "i", model="n")


def test_an_empty_index_and_nan_vectors_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to index"):
        build_index(tmp_path / "i", [], dimension=DIMENSION, model="m")
    with pytest.raises(UsageError, match="not finite"):
        build_index(tmp_path / "j", batches(vectors_of(9) * np.nan), dimension=DIMENSION, model="m")


def test_embeddings_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    build_index(folder, batches(vectors_of(2000)), dimension=DIMENSION, model="m", exact_up_to=1000)
    modes = {path.name: path.stat().st_mode & 0o077 for path in folder.iterdir() if path.name != "index.json"}
    assert set(modes.values()) == {0}
    assert folder.stat().st_mode & 0o077 == 0
